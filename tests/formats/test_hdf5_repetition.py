"""Damaged chunks that libhdf5's filters decode: no values that depend on what memory held
before.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t, h5z

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5 import repetition
from tests.formats.hdf5_made import DONT_FILTER_PARTIAL_CHUNKS, add_filter, make

SHAPE = (32, 32)
MUTANTS = 200
COLOUR = np.dtype([("red", "<u2"), ("green", "<u2")])
WITH_GAPS = np.dtype(
    {"names": ["a", "b"], "formats": ["<u1", "<f8"], "offsets": [0, 8], "itemsize": 24}
)
glibc = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is filled by glibc alone; run on Linux"
)


def plugin(found: Any) -> Any:
    return lambda creation: creation.set_filter(
        found.filter_id, h5z.FLAG_OPTIONAL, tuple(found.filter_options)
    )


def named(name: str) -> Any:
    return lambda creation: add_filter(creation, name)


FILTERS: dict[str, tuple[Any, Any]] = {
    "zstd": (COLOUR, named("zstd")),
    "lzf": (COLOUR, named("lzf")),
    "szip": ("<i4", named("szip")),
    "blosc2": ("<f4", plugin(hdf5plugin.Blosc2(cname="lz4"))),
    "zfp": ("<f4", plugin(hdf5plugin.Zfp(accuracy=0.1))),
}
DAMAGED = {
    "zstd": slice(0, None),
    "lzf": slice(0, None),
    "szip": slice(0, None),
    "blosc2": slice(155, 156),
}
"""Bytes of a chunk whose damage makes libhdf5 give what memory held; of Blosc 2 the place of a
block.
"""


def values_of(dtype: Any) -> Array:
    """Smooth ones with noise, which every filter shrinks a little."""
    rng, place = np.random.default_rng(3), np.linspace(0, 3, SHAPE[0])
    smooth = (np.sin(place)[:, None] * np.cos(place)[None] + 1) * 1000 + rng.normal(size=SHAPE)
    if np.dtype(dtype).fields is None:
        return smooth.astype(dtype)
    block: Array = np.zeros(SHAPE, dtype)
    for name in block.dtype.names or ():
        block[name] = smooth
    return block


def make_packed(path: Path, values: Array, add: Any) -> tuple[int, int]:
    """Place and size of the one chunk of a file."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(SHAPE)
    add(creation)
    with h5py.File(path, "w") as file:
        h5d.create(
            file.id, b"data", h5t.py_create(values.dtype), h5s.create_simple(SHAPE), creation
        )
        file["data"][...] = values
    with h5py.File(path) as file:
        chunk = file["data"].id.get_chunk_info(0)
    assert chunk.filter_mask == 0, "the filter could not shrink the chunk"
    return int(chunk.byte_offset), int(chunk.size)


def mutants(sound: bytes, at: int, nbytes: int, where: slice) -> Iterator[bytes]:
    draw, places = random.Random(1), range(at, at + nbytes)[where]
    for _ in range(MUTANTS):
        raw = bytearray(sound)
        raw[draw.choice(places)] ^= draw.choice([255, 1, 4, 16, 64])
        yield bytes(raw)


def by_h5py(path: Path, byte: int) -> bytes | None:
    """Values over memory that held these bytes; None where libhdf5 has seen the damage."""
    with repetition._memory_of(byte):
        try:
            with h5py.File(path) as file:
                return bytes(file["data"][...].tobytes())
        except OSError:
            return None


def by_us(path: Path) -> Array:
    source = formats.open_source(f"{path}::data")
    return reading.read(source, Hyperslab.full(source.shape), values="stored")


@glibc
@pytest.mark.parametrize("name", DAMAGED)
def test_values_that_are_not_in_the_file_are_refused(tmp_path: Path, name: str) -> None:
    """Of a damaged chunk that h5py reads differently over memory of other contents."""
    dtype, add = FILTERS[name]
    path = tmp_path / "damaged.h5"
    place = make_packed(path, values_of(dtype), add)
    for raw in mutants(path.read_bytes(), *place, DAMAGED[name]):
        path.write_bytes(raw)
        if by_h5py(path, 0x33) != by_h5py(path, 0x0F):
            break
    else:
        pytest.fail("no damage made h5py give what memory held")
    with pytest.raises(
        FormatError, match=r"damaged.h5::/data: (corrupt: a filter gives other values|HDF5 cannot)"
    ):
        by_us(path)


@pytest.mark.parametrize("name", FILTERS)
def test_sound_chunks_are_read_as_h5py_reads_them(tmp_path: Path, name: str) -> None:
    dtype, add = FILTERS[name]
    path = tmp_path / "sound.h5"
    make_packed(path, values_of(dtype), add)
    with h5py.File(path) as file:
        assert by_us(path).tobytes() == file["data"][...].tobytes()


def test_gaps_between_fields_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "gaps.h5"
    make_packed(path, values := values_of(WITH_GAPS), named("zstd"))
    block = by_us(path)
    assert all((block[name] == values[name]).all() for name in ("a", "b"))


def test_text_and_lists_of_any_length_are_compared(tmp_path: Path) -> None:
    path, zstd = tmp_path / "lists.h5", hdf5plugin.Zstd()
    with h5py.File(path, "w") as file:
        words = file.create_dataset("words", (40,), h5py.string_dtype(), chunks=(8,), **zstd)
        words[:] = [f"word {n}" for n in range(40)]
        lists = file.create_dataset("lists", (6,), h5py.vlen_dtype("<f4"), chunks=(2,), **zstd)
        lists[:] = np.array([np.full(n, np.nan) for n in range(6)], dtype=object)
    for name in ("words", "lists"):
        source = formats.open_source(f"{path}::{name}")
        block = reading.read(source, Hyperslab.full(source.shape), values="stored")
        with h5py.File(path) as file:
            assert repr(block.tolist()) == repr(file[name][...].tolist())


@glibc
def test_only_what_nothing_else_checks_is_read_twice(tmp_path: Path) -> None:
    twice = {
        "bzip2": True,
        "zstd": True,
        "bzip2 fletcher32": False,
        "shuffle deflate": False,
        "": False,
    }
    for filters, wanted in twice.items():
        path = tmp_path / "data.h5"
        make(path, chunks=(5, 4), filters=filters.split())
        with h5py.File(path) as file:
            assert repetition.may_differ(file["data"]) == wanted, filters


def test_values_that_were_never_written_are_no_damage(tmp_path: Path) -> None:
    """Where no fill value is used, nor filters for chunks at the edge."""
    path = tmp_path / "holes.h5"
    holes = partial(make, path, chunks=(5, 4), filters=["bzip2"], parts=(np.s_[:5, :4],))
    for rare in (
        {"fill_time": h5d.FILL_TIME_NEVER},
        {"undefined_fill": True},
        {"chunk_opts": DONT_FILTER_PARTIAL_CHUNKS},
    ):
        holes(**rare)
        with h5py.File(path) as file:
            assert (by_us(path)[:5, :4] == file["data"][:5, :4]).all()


def test_elsewhere_values_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.h5"
    make(path, chunks=(5, 4), filters=["bzip2"])
    monkeypatch.setattr(repetition, "_mallopt", lambda: None)
    with h5py.File(path) as file:
        assert not repetition.may_differ(file["data"])
        assert (by_us(path) == file["data"][...]).all()
