"""Filters whose chunks are formats of their own, Blosc and bitshuffle: decoded as the plugins of
HDF5 decode them.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import h5py
import hdf5plugin
import numpy as np
import pytest

import hyperslab
from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5.filters import codec
from hyperslab.testing.formats import assert_same
from tests.examples import spread
from tests.repetitions import each_value

CName = Literal["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
INNER: tuple[CName, ...] = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
SHUFFLES = {"plain": 0, "shuffle": 1, "bitshuffle": 2}
ELEMENTS = ("u1", "<u2", "V3", "<u4", "<f8", "<c16", "V20")
SIZES = (1, 7, 130, 1001, 4096)
LEVELS = spread(10)
"""Levels of compression; at the first one nothing is compressed."""
BLOCKS_NBYTES = 3_000_000


@contextlib.contextmanager
def stored(data: Array, chunks: tuple[int, ...], options: Any) -> Iterator[Any]:
    """The data as a dataset of a file in memory."""
    with h5py.File("codecs", "w", driver="core", backing_store=False) as file:
        yield file.create_dataset("data", data=data, chunks=chunks, **options)


def decoded(dataset: Any) -> tuple[Array, int]:
    """All of a dataset by the core, from its stored chunks, and how many of them were not
    compressed.
    """
    creation = dataset.id.get_create_plist()
    chunks: list[Any] = []
    filters = [creation.get_filter(number) for number in range(creation.get_nfilters())]
    dataset.id.chunk_iter(chunks.append)
    buffers = [bytes(dataset.id.read_direct_chunk(chunk.chunk_offset)[1]) for chunk in chunks]
    sizes, masks = [len(buffer) for buffer in buffers], [chunk.filter_mask for chunk in chunks]
    starts = [chunk.chunk_offset for chunk in chunks]
    table = tuple(
        np.array(column, np.int64).reshape(-1) for column in (masks, sizes, masks, starts)
    )
    codecs = [codec(code, options, name).undoing for code, _, options, name in filters]
    zeros = (0,) * dataset.ndim
    out, box = np.zeros(dataset.shape, dataset.dtype), (zeros, dataset.shape, (1,) * dataset.ndim)
    assert native.core is not None
    native.core.decode_chunks(buffers, (table, dataset.chunks, codecs), box, out, 1)
    return out, int(np.count_nonzero(masks))


UNDOING = {
    "deflate": (1, (9,), ("deflate", ())),
    "shuffle": (2, (4,), ("shuffle", (4,))),
    "lz4": (32004, (0,), ("lz4", ())),
    "blosc": (32001, (2, 2, 4, 100, 5, 1, 1), ("blosc", ())),
    "bitshuffle": (32008, (0, 4, 8), ("bitshuffle", (8, 0))),
    "bitshuffle of a block size": (32008, (0, 4, 8, 64, 0), ("bitshuffle", (8, 64))),
    "bitshuffle with lz4": (32008, (0, 4, 2, 64, 2), ("bitshuffle lz4", (2,))),
    "bitshuffle with zstd": (32008, (0, 4, 2, 64, 3), ("bitshuffle zstd", (2,))),
}
"Number and parameters of a filter as HDF5 keeps them, and what the core is told."


@pytest.mark.parametrize("name", UNDOING)
def test_parameters_of_hdf5_are_translated(name: str) -> None:
    number, options, undoing = UNDOING[name]
    assert codec(number, options, b"").undoing == undoing
    assert codec(number, options, b"").options == options


def test_what_the_core_cannot_undo_is_refused() -> None:
    core: Any = native.core
    column, out = np.zeros(1, np.int64), np.zeros(1, "u1")
    for unknown in (codec(32008, (0, 4, 2, 64, 7), b""), codec(700, (), b"odd")):
        chunks = ((column, column, column, column), (1,), [unknown.undoing])
        with pytest.raises(ValueError, match=rf"the filter {unknown.undoing[0]} .*is not known"):
            core.decode_chunks([b""], chunks, ((0,), (1,), (1,)), out, 1)


def elements(size: int, kind: str) -> Array:
    """Half of it repeats itself, a part is noise."""
    nbytes = size * np.dtype(kind).itemsize
    place = np.arange(nbytes)
    raw = (place // 90 * (place % np.dtype(kind).itemsize + 1)).astype("u1")
    raw[: nbytes // 6] = np.random.default_rng(size).integers(0, 256, nbytes // 6)
    return np.frombuffer(raw.tobytes(), kind)


@each_value("what Blosc has packed is unpacked: all codecs, all shuffles")
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("inner", INNER)
def test_blosc_of_every_element_size_and_level(inner: CName, shuffle: str) -> None:
    packed = 0
    for kind, level, size in itertools.product(ELEMENTS, LEVELS, SIZES):
        data, options = elements(size, kind), hdf5plugin.Blosc(inner, level, SHUFFLES[shuffle])
        with stored(data, (size,), options) as dataset:
            found, skipped = decoded(dataset)
        assert found.tobytes() == data.tobytes(), (kind, level, size)
        packed += not skipped
    assert packed > 11 * (len(LEVELS) - 1), "too many chunks could not be compressed"


@each_value("what Blosc has packed is unpacked: all codecs, all shuffles")
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("inner", INNER)
def test_blosc_of_many_blocks_and_of_noise(inner: CName, shuffle: str) -> None:
    data = elements(BLOCKS_NBYTES // 4, "<i4")
    for level in (1, 5):
        with stored(data, (700_001,), hdf5plugin.Blosc(inner, level, SHUFFLES[shuffle])) as dataset:
            found, skipped = decoded(dataset)
        assert found.tobytes() == data.tobytes()
        assert not skipped


@pytest.mark.parametrize("inner", ["none", "lz4", "zstd"])
def test_bitshuffle_of_every_element_and_block_size(inner: Literal["none", "lz4", "zstd"]) -> None:
    """Of many blocks, too: each element with one size of them."""
    blocks = (0, 8, 1000)
    small = itertools.product(ELEMENTS, SIZES, blocks)
    large = zip(ELEMENTS, itertools.repeat(100_003), itertools.cycle(blocks), strict=False)
    for kind, size, block in (*small, *large):
        data = elements(size, kind)
        with stored(data, (size,), hdf5plugin.Bitshuffle(block, inner)) as dataset:
            assert decoded(dataset)[0].tobytes() == data.tobytes(), (kind, size, block)


def test_edges_and_other_filters_around(tmp_path: Path) -> None:
    """Chunks reach beyond the array; whole files are read, with two threads and by parts."""
    data = elements(300 * 500, "<f4").reshape(300, 500)
    kinds: dict[str, Any] = {
        "blosc": hdf5plugin.Blosc("zstd"),
        "bitshuffle": hdf5plugin.Bitshuffle(),
    }
    for name, options in kinds.items():
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("data", data=data, chunks=(64, 77), fletcher32=True, **options)
        view = hyperslab.open(str(tmp_path / name))
        assert view.source.chunks is not None, view.source.reason
        assert_same(view[...], data)
        assert_same(view[5:250:7, ::-3], data[5:250:7, ::-3])


HEADER = {
    "version": (0, 1),
    "codec": (2, 5 << 5),
    "snappy": (2, 2 << 5),
    "claim": (7, 64),
    "block": (11, 1),
}
"Which byte of Blosc's header becomes what."
SAID = {
    "version": "version 1 of the format",
    "codec": "codec 5",
    "snappy": "snappy",
    "claim": "claim",
    "block": "in blocks of",
}


@pytest.mark.parametrize("what", HEADER)
def test_a_chunk_that_is_not_what_it_should_be_is_named(what: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        dataset = file.create_dataset(
            "data", data=elements(5000, "<i4"), chunks=(5000,), **hdf5plugin.Blosc()
        )
        raw = bytearray(dataset.id.read_direct_chunk((0,))[1])
        place, value = HEADER[what]
        raw[place] = value
        dataset.id.write_direct_chunk((0,), bytes(raw))
    view = hyperslab.open(str(tmp_path / "odd.h5"))
    with pytest.raises(FormatError, match=f"odd.h5::/data: the chunk at byte .*{SAID[what]}"):
        view[...]


def test_a_chunk_says_itself_how_it_is_packed(tmp_path: Path) -> None:
    """Blosc's settings of a dataset are those of its first writer; chunks may differ, and be plain
    copies.
    """
    data = elements(5000, "<i4")
    with stored(data, (5000,), hdf5plugin.Blosc("zstd", shuffle=2)) as dataset:
        packed = bytes(dataset.id.read_direct_chunk((0,))[1])
    copied = (
        struct.pack("<4B3i", 2, 1, 3, 4, data.nbytes, data.nbytes, data.nbytes + 16)
        + data.tobytes()
    )
    for number, raw in enumerate((packed, copied)):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset(
                "data", (5000,), "<i4", chunks=(5000,), **hdf5plugin.Blosc("lz4")
            )
            dataset.id.write_direct_chunk((0,), raw)
            assert_same(np.asarray(dataset[...]), data)
        assert_same(hyperslab.open(str(path))[...], data)
