"""Attributes and elements in HDF5's global heap, dimension scales, and files that this process is
writing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from hyperslab.formats import hdf5
from hyperslab.formats.hdf5 import netcdf4
from hyperslab.formats.hdf5.tree import datasets
from tests.descriptors import descriptors_below
from tests.formats.files import few_real_files
from tests.formats.hdf5_damage import Reading, make_lists

OBJECT_NBYTES = 16
"""Bytes of the header of an object in the heap, and of a collection, in files with lengths of 8
bytes.
"""


@pytest.fixture(scope="module")
def read_apart() -> Iterator[Reading]:
    found = Reading()
    yield found
    found.stop()


@pytest.fixture(params=["earliest", "latest"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_lists(tmp_path / "lists.h5", libver=request.param)
    return tmp_path / "lists.h5"


def results(found: list[tuple[str, str]]) -> dict[str, str]:
    """What came of every stage; no process ended."""
    assert found[-1][0] != "end", found
    return dict(found)


def in_heap(raw: bytes | bytearray) -> list[tuple[int, int]]:
    """Place and index of every object in the first collection."""
    start = raw.index(b"GCOL")
    end, place, found = (
        start + struct.unpack_from("<Q", raw, start + 8)[0],
        start + OBJECT_NBYTES,
        [],
    )
    while place + OBJECT_NBYTES <= end:
        number, _, size = struct.unpack_from("<HHxxxxQ", raw, place)
        found.append((place, number))
        place += OBJECT_NBYTES + -(-size // 8) * 8 if number else size
    return found


def without_size(raw: bytearray) -> None:
    """Free space whose size is 0: the next object would begin where this one does."""
    struct.pack_into("<Q", raw, in_heap(raw)[-1][0] + 8, 0)


def freed(raw: bytearray) -> None:
    struct.pack_into("<HHxxxxQ", raw, in_heap(raw)[1][0], 0, 0, 0)


def too_long(raw: bytearray) -> None:
    struct.pack_into("<Q", raw, in_heap(raw)[1][0] + 8, 2**63)


@pytest.mark.parametrize("damage", [without_size, freed, too_long])
def test_a_heap_that_does_not_end_is_a_format_error(
    path: Path, read_apart: Reading, damage: Callable[[bytearray], None]
) -> None:
    raw = bytearray(path.read_bytes())
    assert in_heap(raw)[-1][1] == 0
    damage(raw)
    path.write_bytes(raw)
    found = results(read_apart(path, path))
    assert found["list"] == "fine"
    assert found["compare /plain"] == "same", "what is not in the heap is read"
    for stage in ("open /data", "library /words"):
        assert "global heap at byte" in found[stage], found
        assert found[stage].startswith(f"FormatError: {path}::/{stage.split('/')[1]}: corrupt"), (
            found
        )


def test_what_is_only_like_a_heap_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "text.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.frombuffer(b"GCOL" * 100, "u1")
        file["data"].attrs["text"] = "GCOL"
        file["data"].attrs["fixed"] = np.bytes_("GCOL" * 20)
        file["words"] = ["GCOL\x01", "xGCOL"]
    assert formats.open_source(f"{path}::data").header.attributes["text"] == "GCOL"
    words = reading.read(formats.open_source(f"{path}::words"), Hyperslab.full((2,)))
    assert words.tolist() == [b"GCOL\x01", b"xGCOL"]


def test_lists_of_an_unknown_kind_are_a_format_error(path: Path, read_apart: Reading) -> None:
    raw = bytearray(path.read_bytes())
    sequence = struct.pack("<BBBBI", 0x19, 0, 0, 0, 16)
    for at in (at for at in range(len(raw)) if raw.startswith(sequence, at)):
        raw[at + 1] = 0x0A
    path.write_bytes(raw)
    found = results(read_apart(path, path))
    words = "HDF5 cannot read it" if b"OHDR" in raw else "of an unknown kind"
    assert words in found.get("open /data", found["list"]), found


def test_damaged_scales_do_not_end_the_process(tmp_path: Path, read_apart: Reading) -> None:
    """Seen with libhdf5_hl 2.0.0: H5DSis_scale frees its text twice, H5DSget_label what it never
    got.
    """
    path = tmp_path / "scales.h5"
    make_lists(path)
    raw = path.read_bytes()
    heap, class_ = struct.pack("<Q", raw.index(b"GCOL")), b"DIMENSION_SCALE\0"
    assert (raw.count(class_), raw.count(heap) > 5) == (1, True)
    path.write_bytes(raw.replace(class_, b"DIME\0SION_SCALE\0"))
    assert results(read_apart(path, path))["compare /data"] == "same"
    path.write_bytes(raw.replace(heap, struct.pack("<Q", 0x0101010101)))
    assert results(read_apart(path, path))["open /data"].startswith("FormatError")


@pytest.mark.parametrize("path", few_real_files("hdf5"))
def test_scales_and_labels_are_those_of_hdf5(path: Path) -> None:
    with h5py.File(path, "r", locking=False) as file:
        for dataset in datasets(file)[:100]:
            assert netcdf4.is_scale(dataset) == dataset.is_scale
            if dataset.shape is not None:
                assert netcdf4._labels(dataset) == [dimension.label for dimension in dataset.dims]
                names = [
                    [file[scale].name for scale in scales] for scales in netcdf4._scales(dataset)
                ]
                assert names == [
                    [scale.name for scale in dimension.values()] for dimension in dataset.dims
                ]


def test_attributes_in_the_heap_are_read_behind_links_and_user_blocks(tmp_path: Path) -> None:
    make_lists(tmp_path / "lists.h5", userblock_size=1024)
    with h5py.File(tmp_path / "here.h5", "w") as file:
        file["link"] = h5py.ExternalLink("lists.h5", "/data")
    source = formats.open_source(f"{tmp_path / 'here.h5'}::link")
    assert list(source.header.attributes["list"]) == ["a", "bcd", ""]
    assert source.dims == ("x", "why")


def test_attributes_in_the_heap_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    make_lists(tmp_path / "lists.h5", libver="latest")
    with h5py.File(tmp_path / "lists.h5", "r+", libver="latest") as file:
        file["data"].attrs["new"] = ["one", "two"]
        source = formats.open_source(f"{tmp_path / 'lists.h5'}::data")
        assert list(source.header.attributes["new"]) == ["one", "two"]
        words = formats.open_source(f"{tmp_path / 'lists.h5'}::words")
        assert (
            reading.read(words, Hyperslab.full(words.shape)).tolist() == file["words"][()].tolist()
        )


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    "options", [{}, {"chunks": (5, 4)}, {"chunks": (5, 4), "compression": "gzip"}], ids=str
)
def test_what_this_process_has_not_flushed_is_read(
    tmp_path: Path, libver: str, options: dict[str, Any]
) -> None:
    path, values = tmp_path / "new.h5", np.arange(120.0).reshape(12, 10)
    with h5py.File(path, "w", libver=libver) as file:
        data = file.create_dataset("group/data", data=values, **options)
        for value in (7, 8):
            source = formats.open_source(str(path))
            assert source.chunks is not None
            np.testing.assert_array_equal(reading.read(source, Hyperslab.full((12, 10))), data[()])
            data[3, 5] = value
            file.create_dataset(f"more/{value}", (4,), "S1")


@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, ValueError])
def test_an_error_of_our_own_is_not_the_file_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    make_lists(tmp_path / "lists.h5")

    def wrong(*_: Any) -> Any:
        raise error("a bug")

    monkeypatch.setattr(hdf5, "locate", wrong)
    with pytest.raises(error, match="a bug"):
        formats.open_source(f"{tmp_path / 'lists.h5'}::data")


@pytest.mark.parametrize(
    "ask", [lambda data, _: data["name"], lambda data, _: data.file["nowhere"]]
)
def test_an_error_of_the_library_is_a_format_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any, int], Any]
) -> None:
    make_lists(tmp_path / "lists.h5")
    monkeypatch.setattr(hdf5, "locate", ask)
    with pytest.raises(FormatError, match="HDF5 cannot read it"):
        formats.open_source(f"{tmp_path / 'lists.h5'}::data")


def test_a_name_is_that_of_another_variable_only_where_it_is_a_dimension(tmp_path: Path) -> None:
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as file:
        for name in ("plain", "coordinate", "dimension"):
            file[f"group/{name}"] = np.zeros(3)
            file[f"group/_nc4_non_coord_{name}"] = np.ones(3)
        file["group/_nc4_non_coord_alone"] = np.ones(3)
        file["group/coordinate"].make_scale("coordinate")
        file["group/dimension"].make_scale(
            "This is a netCDF dimension but not a netCDF variable         3"
        )
    for name, hidden in (
        ("plain", ""),
        ("coordinate", ""),
        ("dimension", "_nc4_non_coord_"),
        ("alone", "_nc4_non_coord_"),
    ):
        source = formats.open_source(f"{path}::group/{name}")
        assert source.name == f"/group/{hidden}{name}"
        assert (reading.read(source, Hyperslab.full((3,))) == bool(hidden)).all()


def test_a_second_handle_is_closed_again(path: Path) -> None:
    before = descriptors_below(path)
    for _ in range(5):
        formats.open_source(f"{path}::data")
    assert descriptors_below(path) == before
