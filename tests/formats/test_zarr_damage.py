"""Damaged Zarr stores: one of our errors, never another exception, a hang, or a value that
zarr-python does not read.

What no checksum guards can be another number after damage: then zarr-python reads the same one.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError, HyperslabError
from tests.examples import examples
from tests.formats.zarr_made import CODECS, edit, make, named

TURNED = zarr.codecs.TransposeCodec(order=(2, 0, 1))
SOUND: dict[str, Callable[[Path], Any]] = {
    "version 2": partial(
        make, version=2, compressors=numcodecs.GZip(1), filters=numcodecs.Delta("i2")
    ),
    "version 2, F": partial(make, version=2, order="F", compressors=None, name="a/b", dtype=">f4"),
    "version 3": partial(make, compressors=CODECS["zstd with a checksum"], filters=TURNED),
    "version 3, plain": partial(make, compressors=None),
    "blosc": partial(make, compressors=zarr.codecs.BloscCodec(cname="zstd")),
    "shards": partial(make, shards=(4, 6, 8), compressors=CODECS["gzip"]),
    "shards, index first": partial(
        make, shards={"shape": (4, 6, 8), "index_location": "start"}, compressors=None
    ),
    "xarray 2": partial(
        named, name="v", version=2, dtype="i2", said={"_FillValue": 5, "scale_factor": 0.5}
    ),
    "xarray 3": partial(
        named, name="v", version=3, dtype="f4", said={"_FillValue": 5.0, "add_offset": -1.5}
    ),
}
DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
LARGEST_EXTENT = 12
KINDS = ["overwrite", "flip", "insert", "delete", "cut", "add"]
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    255,
    2**31,
    2**40,
    2**63,
    2**70,
    1.5,
    float("nan"),
    1e308,
    "",
    "x",
    "/",
    "C",
    "NaN",
    "<i8",
    "float64",
    "0x7fc00000",
    "gzip",
    "bytes",
    "sharding_indexed",
    "little",
    [],
    [1],
    [2, 3, 4],
    [[1]],
    {},
    {"name": "x"},
    {"id": "zlib", "level": 1},
    {"name": "bytes"},
    {"name": "crc32c"},
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sound")
    for number, makes in enumerate(SOUND.values()):
        makes(folder / f"{number}.zarr")
    return sorted(folder.iterdir())


def outcome(path: Path) -> None:
    """Read a corner of all that a store holds, and compare it with what zarr-python reads."""
    try:
        names = [info.name for info in formats.arrays(str(path))]
    except HyperslabError:
        return
    for name in names:
        try:
            source = formats.open_source(f"{path}::{name}" if name else str(path))
            slab = Hyperslab(
                (0,) * source.ndim, tuple(min(n, LARGEST_EXTENT) for n in source.shape)
            )
            block = reading.read(source, slab, values="stored")
            reading.read(source, slab, values="stored" if source.unscalable else "real")
        except HyperslabError:
            continue
        expected = by_zarr(path, name, slab)
        assert block.shape == expected.shape
        assert block.tobytes() == expected.astype(block.dtype).tobytes()


def by_zarr(path: Path, name: str, slab: Hyperslab) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array: Any = zarr.open_array(path, path=name, mode="r")
        return np.asarray(array[slab.slices()])


def paths(document: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value stands in a JSON document."""
    listed = enumerate(document) if isinstance(document, list) else ()
    items = document.items() if isinstance(document, dict) else listed
    return [before, *(path for key, value in items for path in paths(value, (*before, key)))]


def replaced(document: Any, path: tuple[Any, ...], junk: Any, leave_out: bool) -> Any:
    if not path:
        return junk
    found = copy.deepcopy(document)
    place = found
    for key in path[:-1]:
        place = place[key]
    if leave_out:
        del place[path[-1]]
    else:
        place[path[-1]] = junk
    return found


@given(data=st.data())
@settings(deadline=None, max_examples=examples(250))
def test_a_document_with_other_values(data: st.DataObject, sound: list[Path]) -> None:
    whole = data.draw(st.sampled_from(sound))
    with tempfile.TemporaryDirectory() as folder:
        store = shutil.copytree(whole, Path(folder, "damaged.zarr"))
        found = sorted(place for name in DOCUMENTS for place in store.rglob(name))
        place = data.draw(st.sampled_from([*found, found[-1], found[-1]]))
        document = json.loads(place.read_text())
        for _ in range(data.draw(st.integers(1, 2))):
            where = data.draw(st.sampled_from(paths(document)))
            document = replaced(
                document, where, data.draw(st.sampled_from(JUNK)), data.draw(st.integers(0, 4)) == 0
            )
        place.write_text(json.dumps(document))
        outcome(store)


@given(data=st.data())
@settings(deadline=None, max_examples=examples(200))
def test_files_with_other_bytes(data: st.DataObject, sound: list[Path]) -> None:
    whole = data.draw(st.sampled_from(sound))
    with tempfile.TemporaryDirectory() as folder:
        store = shutil.copytree(whole, Path(folder, "damaged.zarr"))
        place = data.draw(
            st.sampled_from(sorted(place for place in store.rglob("*") if place.is_file()))
        )
        raw, what = place.read_bytes(), data.draw(st.sampled_from(KINDS))
        at, junk = data.draw(st.integers(0, len(raw))), data.draw(st.binary(min_size=1, max_size=9))
        after = {"insert": at, "add": len(raw), "cut": len(raw)}.get(what, at + len(junk))
        if what == "flip":
            junk, after = bytes([raw[at] ^ 1 << junk[0] % 8]) if at < len(raw) else b"", at + 1
        kept = b"" if what in ("cut", "delete") else junk
        place.write_bytes((raw if what == "add" else raw[:at]) + kept + raw[after:])
        outcome(store)


CHUNKS = {
    "version 2": "0.0.0",
    "version 3, plain": "c/0/0/0",
    "shards": "c/0/0/0",
    "shards, index first": "c/0/0/0",
}
DAMAGES = ["empty", "cut", "longer", "folder", "pipe", "file above"]
CASES = [
    (name, damage)
    for name in CHUNKS
    for damage in DAMAGES
    if (name, damage) != ("version 2", "file above")
]


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_damaged_chunk_is_no_fill_value(name: str, damage: str, tmp_path: Path) -> None:
    """Read as a whole, and in a part for which a shard's index has to be read."""
    path = tmp_path / "damaged.zarr"
    SOUND[name](path)
    source, chunk = formats.open_source(str(path)), path / CHUNKS[name]
    raw = chunk.read_bytes()
    chunk.unlink()
    if damage == "folder":
        chunk.mkdir()
    elif damage == "pipe":
        os.mkfifo(chunk)
    elif damage == "file above":
        shutil.rmtree(chunk.parent)
        chunk.parent.write_bytes(raw)
    else:
        chunk.write_bytes({"empty": b"", "cut": raw[:-5], "longer": raw + b"more!"}[damage])
    if (name, damage) == (
        "shards, index first",
        "longer",
    ):  # what is added lies behind all that is read
        outcome(path)
        return
    last = (name, damage) == ("shards, index first", "cut")
    for slab in (
        Hyperslab.full(source.shape),
        Hyperslab((3, 5, 6) if last else (0, 0, 0), (1, 1, 1)),
    ):
        with pytest.raises(FormatError, match=str(path)):
            reading.read(source, slab)


def test_a_shard_without_its_end_is_no_fill_value(tmp_path: Path) -> None:
    """Of chunks that lie behind the end of a shard, whose index comes first."""
    path = tmp_path / "damaged.zarr"
    SOUND["shards, index first"](path)
    source, chunk = formats.open_source(str(path)), path / "c/0/0/0"
    chunk.write_bytes(chunk.read_bytes()[:200])
    with pytest.raises(FormatError, match="cut short"):
        reading.read(source, Hyperslab((3, 5, 6), (1, 1, 1)))
    assert not by_zarr(path, "", Hyperslab((3, 5, 6), (1, 1, 1))).any(), (
        "zarr-python gives the fill value"
    )


def test_a_chunk_that_cannot_be_opened_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = formats.open_source(str(make(tmp_path / "a.zarr")))

    def no_more(*_: Any, **__: Any) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", no_more)
    with pytest.raises(FormatError, match="Too many open files"):
        reading.read(source, Hyperslab.full(source.shape))


def test_a_chunk_that_shrinks_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = formats.open_source(str(make(tmp_path / "a.zarr")))
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(FormatError, match="became shorter"):
        reading.read(source, Hyperslab.full(source.shape))


def test_zeros_of_a_checksum_are_noticed(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zarr", compressors=CODECS["zstd with a checksum"])
    chunk = path / "c/0/0/0"
    raw = chunk.read_bytes()
    chunk.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(FormatError, match=r"zarr cannot decode the chunks of \[0:2, 0:3, 0:4\]"):
        reading.read(formats.open_source(str(path)), Hyperslab((0, 0, 0), (2, 3, 4)))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"shape": [5, -1, 7]}, "its shape is"),
        ({"shape": "5"}, "its shape is"),
        ({"node_type": "folder"}, "its node_type is neither"),
        ({"attributes": [1]}, "its attributes are not"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3, 4]}}},
            "are impossible",
        ),
        ({"dimension_names": ["x"]}, "zarr cannot understand it"),
    ],
)
def test_impossible_documents_get_a_sentence(
    tmp_path: Path, said: dict[str, Any], why: str
) -> None:
    make(tmp_path / "a.zarr")
    edit(tmp_path / "a.zarr", **said)
    with pytest.raises(FormatError, match=why) as raised:
        formats.open_source(str(tmp_path / "a.zarr"))
    assert str(tmp_path / "a.zarr") in str(raised.value)


@pytest.mark.parametrize("document", ["zarr.json", ".zattrs"])
def test_a_document_that_is_a_pipe_keeps_nobody_waiting(tmp_path: Path, document: str) -> None:
    path = make(tmp_path / "a.zarr", version=3 if document == "zarr.json" else 2)
    (path / document).unlink(missing_ok=True)
    os.mkfifo(path / document)
    with pytest.raises(FormatError, match=r"holds no zarr\.json|\.zattrs is not a file"):
        formats.open_source(str(path))


def _numcodecs_blosc() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.codecs.numcodecs.Blosc(cname="lz4")


BLOSC: dict[str, Callable[[Path], Any]] = {
    "version 2": partial(make, version=2, chunks=(5, 6, 7), compressors=numcodecs.Blosc("lz4")),
    "version 3": partial(make, chunks=(5, 6, 7), compressors=zarr.codecs.BloscCodec(cname="lz4")),
    "numcodecs": partial(make, chunks=(5, 6, 7), compressors=_numcodecs_blosc()),
}


@pytest.mark.parametrize("name", BLOSC)
def test_blosc_does_not_read_behind_a_chunk(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    BLOSC[name](path)
    source = formats.open_source(str(path))
    slab = Hyperslab.full(source.shape)
    assert reading.read(source, slab).tobytes() == by_zarr(path, "", slab).tobytes()
    (chunk,) = [place for place in path.rglob("*0") if place.is_file()]
    raw = chunk.read_bytes()
    for length in (1, 12, 13, 15, 16, 17, len(raw) // 2, len(raw) - 1):
        chunk.write_bytes(raw[:length])
        with pytest.raises(FormatError, match="blosc data of"):
            reading.read(source, Hyperslab.full(source.shape))
