"""The index of chunks against the ones that libhdf5 makes, and many chunks read back by way of
it.
"""

from __future__ import annotations

import io
import itertools
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.blocks.writing.directio import ALIGNMENT
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5.chunkindex import layout, node_dtype
from tests.formats.written import assert_read_back, h5dump_values, sink_of, tool, write_by_many

SHAPES: dict[tuple[int, ...], tuple[int, ...]] = {
    (60,): (2,),
    (64,): (1,),
    (16, 16): (2, 2),
    (7, 9, 5): (2, 3, 4),
    (64, 3): (1, 3),
    (3, 2, 2, 2): (1, 1, 2, 2),
}
"With chunks that one node holds: where libhdf5 cuts full ones is its own affair."


def theirs(shape: tuple[int, ...], unit: tuple[int, ...]) -> tuple[bytes, Array, Array]:
    """A file of libhdf5 whose chunks of growing sizes were written in their order; their sizes and
    places.
    """
    grid = [math.ceil(n / u) for n, u in zip(shape, unit, strict=True)]
    corners = [
        tuple(i * u for i, u in zip(place, unit, strict=True))
        for place in itertools.product(*map(range, grid))
    ]
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("earliest", "latest")) as file:
        dataset = file.create_dataset("d", shape, "<i2", chunks=unit, compression=1)
        for number, corner in enumerate(corners):
            dataset.id.write_direct_chunk(corner, bytes(number + 1))
        found = [dataset.id.get_chunk_info_by_coord(corner) for corner in corners]
    return (
        buffer.getvalue(),
        np.array([c.size for c in found]),
        np.array([c.byte_offset for c in found]),
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_node_is_the_one_that_libhdf5_writes(shape: tuple[int, ...]) -> None:
    unit, kind = SHAPES[shape], node_dtype(len(shape))
    raw, nbytes, offsets = theirs(shape, unit)
    grid = [math.ceil(n / u) for n, u in zip(shape, unit, strict=True)]
    root, rest = layout(grid, unit, 2, nbytes, offsets, 0)
    own, other = np.frombuffer(root, kind)[0], np.frombuffer(raw, kind, 1, raw.find(b"TREE\1"))[0]
    used = len(nbytes)
    assert (rest, own["used"]) == (b"", used)
    entries = root[: root.index(own["entries"].tobytes()) + own["entries"][:used].nbytes]
    assert raw.count(entries) == 1
    before, last, others_last = (
        _key(node, n) for node, n in ((own, used - 1), (own, used), (other, used))
    )
    assert before < others_last <= last


def _key(node: Any, number: int) -> tuple[int, ...]:
    key = node["entries"]["key"][number] if number < len(node["entries"]) else node["end"]
    return tuple(map(int, key["corner"]))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 4096, 4097, 9000])
def test_every_chunk_is_found_however_many_there_are(tmp_path: Path, count: int) -> None:
    """One, two and three levels of nodes, full ones and such that hold a single chunk."""
    path, values = tmp_path / "new.h5", np.arange(3 * count, dtype="<i4").reshape(count, 3)
    write_by_many(
        sink_of(path, values, Encoding(chunks=(1, 3), compression="gzip")), values, order=1
    )
    with h5py.File(path) as file:
        dataset = file["data"]
        found = []
        dataset.id.chunk_iter(
            lambda info: found.append((info.chunk_offset, info.byte_offset, info.size))
        )
        assert [corner for corner, _, _ in found] == [(n, 0) for n in range(count)]
        assert dataset.id.get_num_chunks() == count
        for n in {0, count // 2, count - 1}:
            info = dataset.id.get_chunk_info_by_coord((n, 0))
            assert found[n] == (info.chunk_offset, info.byte_offset, info.size)
            assert (dataset[n] == values[n]).all()
        assert (dataset[()] == values).all()
    assert h5dump_values(path, values.dtype, values.shape).tobytes() == values.tobytes()
    assert_read_back(path, values)


@pytest.mark.parametrize("count", [5, 200])
def test_the_library_changes_a_file_as_it_does_its_own(tmp_path: Path, count: int) -> None:
    """Chunks that grow get other places; datasets and attributes come to it; and it is repacked."""
    path, values = tmp_path / "new.h5", np.zeros((count, 500), "<u2")
    write_by_many(sink_of(path, values, Encoding(chunks=(1, 500), compression="gzip")), values)
    values[...] = np.random.default_rng(0).integers(0, 2**16, values.shape)
    with h5py.File(path, "r+") as file:
        file["data"][...] = values
        file["other"] = np.arange(10_000)
        file["data"].attrs["more"] = "x" * 5000
    tool("h5repack", path, tmp_path / "packed.h5")
    for name in ("new.h5", "packed.h5"):
        with h5py.File(tmp_path / name) as file:
            assert (file["data"][()] == values).all()
            assert (file["other"][()] == np.arange(10_000)).all()
        assert_read_back(tmp_path / name, values, "data")


def test_attributes_that_look_like_an_index_are_none(tmp_path: Path) -> None:
    raw, _, _ = theirs((2,), (1,))
    node = raw[raw.find(b"TREE\1") :][:200]
    path, values = tmp_path / "new.h5", np.arange(6, dtype="<i2")
    header = Header(attributes={"note": np.void(node), "again": np.frombuffer(node, np.uint8)})
    write_by_many(sink_of(path, values, Encoding(chunks=(2,)), header), values)
    with h5py.File(path) as file:
        assert (file["data"][()] == values).all()
        assert bytes(file["data"].attrs["again"]) == node


@pytest.mark.parametrize("count", [65, 4097])
def test_the_nodes_of_a_tree_know_their_neighbours(count: int) -> None:
    """Every level is a chain from its first node to its last; the keys between two nodes are the
    same in both.
    """
    kind, at = node_dtype(1), 1000
    root, rest = layout((count,), (1,), 2, np.arange(1, count + 1), np.arange(count) * 10, at)
    nodes = np.frombuffer(rest + root, kind)
    below = nodes[-1:]
    for level in range(int(nodes[-1]["level"]), 0, -1):
        children = np.concatenate(
            [node["entries"]["child"][: node["used"]] for node in below]
        ).astype(np.int64)
        below = nodes[(children - at) // kind.itemsize]
        assert (below["level"] == level - 1).all()
        assert below["left"].tolist() == [2**64 - 1, *children[:-1]]
        assert below["right"].tolist() == [*children[1:], 2**64 - 1]
        assert [_key(node, 0) for node in below[1:]] == [
            _key(node, int(node["used"])) for node in below[:-1]
        ]
    chunks = np.concatenate([node["entries"]["child"][: node["used"]] for node in below])
    assert (chunks == np.arange(count) * 10).all()


def test_a_file_of_many_tasks_is_hardly_larger(tmp_path: Path) -> None:
    """Than its chunks and head: by the index, and by what fills the last page of a mebibyte or
    more.
    """
    values = np.random.default_rng(0).integers(0, 2**16, (64, 256, 300)).astype("<u2")
    sink = sink_of(tmp_path / "new.h5", values, Encoding(chunks=(4, 64, 300), compression="gzip"))
    partial = str(tmp_path / ".new.h5.0-00aa.part")
    writing.allocate(sink, partial)
    slabs = [Hyperslab((first, 0, 0), (8, 256, 300)) for first in range(0, 64, 8)]
    written = [writing.write_region(sink, partial, slab, values[slab.slices()]) for slab in slabs]
    writing.commit(sink, partial, written)
    least = len(sink.head or b"") + sum(w.nbytes for w in written)
    assert least <= (tmp_path / "new.h5").stat().st_size <= least + len(slabs) * 2 * ALIGNMENT
    with h5py.File(tmp_path / "new.h5") as file:
        assert (file["data"][()] == values).all()


def test_a_chunk_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    values = np.arange(60, dtype="<i2")
    sink, partial = (
        sink_of(tmp_path / "new.h5", values, Encoding(chunks=(20,))),
        str(tmp_path / ".new.h5.0-00aa.part"),
    )
    writing.allocate(sink, partial)
    slabs = [Hyperslab((0,), (40,)), Hyperslab((20,), (40,))]
    written = [writing.write_region(sink, partial, slab, values[slab.slices()]) for slab in slabs]
    with pytest.raises(FormatError, match="1 chunk written by more than one task"):
        writing.commit(sink, partial, written)
    assert not (tmp_path / "new.h5").exists()


def test_a_chunk_of_4_gib_is_refused() -> None:
    with pytest.raises(
        FormatError, match="a chunk that takes 4294967296 bytes has no place in HDF5"
    ):
        layout((2,), (1,), 1, np.array([1, 2**32]), np.array([0, 1]), 0)
