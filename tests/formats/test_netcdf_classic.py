"""Where the values of netCDF classic files lie: records, files cut short, and headers that are
corrupt or hostile.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError, HyperslabError, UsageError
from hyperslab.formats.groups import read_groups
from hyperslab.formats.netcdf import classic
from hyperslab.testing.formats import assert_same, traced_memory
from tests.examples import examples
from tests.formats.files import DATA
from tests.formats.reference import netcdf_whole

CLASSIC: list[Any] = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
TINY = DATA / "minc" / "tiny.mnc"


def interleaved(path: Path, records: int = 5) -> Path:
    """Three variables in records, and one that is not."""
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for name, dtype, dims in (
            ("a", "i2", ("t", "x")),
            ("b", "i1", ("t",)),
            ("c", "f8", ("t", "x")),
        ):
            made = file.createVariable(name, dtype, dims)
            made[:] = np.arange(records * (3 if dims[1:] else 1)).reshape([records, 3][: len(dims)])
        file.createVariable("fixed", "i4", ("x",))[:] = [1, 2, 3]
    return path


def test_a_truncated_variable_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    raw = interleaved(tmp_path / "whole.nc").read_bytes()
    path = tmp_path / "short.nc"
    path.write_bytes(raw[:-8])
    with pytest.raises(FormatError, match=r"short\.nc::c: truncated: 8 bytes missing"):
        formats.open_source(f"{path}::c")
    assert_same(
        reading.read(formats.open_source(f"{path}::fixed"), Hyperslab.full((3,))),
        np.array([1, 2, 3], "i4"),
    )
    assert len(formats.arrays(str(path))) == 4


def test_very_many_records_are_read_in_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classic, "_MOST_ROWS", 3)
    monkeypatch.setattr(classic, "_SPAN_NBYTES", 100)
    path = interleaved(tmp_path / "long.nc", 23)
    for name, slab in (
        ("a", Hyperslab((20, 2), (7, 2), (-3, -2))),
        ("b", Hyperslab((1,), (11,), (2,))),
    ):
        source = formats.open_source(f"{path}::{name}")
        assert source.chunks is None
        assert_same(
            reading.read(source, slab), netcdf_whole(f"{path}::{name}", "stored")[slab.slices()]
        )


def test_a_single_variable_in_records_is_one_chunk_without_padding(tmp_path: Path) -> None:
    path = tmp_path / "bytes.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("a", "i1", ("t", "x"))[:] = np.arange(15).reshape(5, 3)
    source = formats.open_source(str(path))
    assert source.chunks is not None
    assert len(source.chunks) == 1
    assert_same(
        reading.read(source, Hyperslab.full((5, 3))), np.arange(15, dtype="i1").reshape(5, 3)
    )


def read_everything(path: Path) -> None:
    for info in formats.arrays(str(path)):
        try:
            source = formats.open_source(f"{path}::{info.name}")
            low = Hyperslab((0,) * source.ndim, tuple(min(n, 4) for n in source.shape))
            reading.read(source, low, values="stored" if source.unscalable else "real")
        except HyperslabError:
            continue


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Whole files of each classic kind."""
    folder, files = tmp_path_factory.mktemp("intact"), [TINY.read_bytes()]
    for kind in CLASSIC:
        with netCDF4.Dataset(folder / kind, "w", format=kind) as file:
            file.createDimension("t", None)
            file.createDimension("x", 3)
            file.setncatts({"title": "words", "numbers": np.arange(3)})
            for name, dtype, dims in (
                ("a", "i2", ("t", "x")),
                ("b", "f4", ("t",)),
                ("c", "i1", ("x",)),
            ):
                file.createVariable(name, dtype, dims)[:] = np.ones([3, 3][: len(dims)])
            file["a"].scale_factor = 0.5
        files.append((folder / kind).read_bytes())
    return files


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_files_raise_nothing_but_our_errors(
    tmp_path_factory: pytest.TempPathFactory, intact: list[bytes], data: st.DataObject
) -> None:
    raw = bytearray(data.draw(st.sampled_from(intact)))
    for _ in range(data.draw(st.integers(1, 3))):
        offset = data.draw(st.integers(4, len(raw) - 1))
        patch = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 4, b"\x7f" + b"\xff" * 7]),
            )
        )
        raw[offset : offset + len(patch)] = patch
    path = tmp_path_factory.getbasetemp() / "damaged.nc"
    path.write_bytes(
        raw[: data.draw(st.integers(1, len(raw)))] if data.draw(st.booleans()) else raw
    )
    with traced_memory() as peak:
        with suppress(FormatError):
            read_everything(path)
        with suppress(FormatError, UsageError):
            read_groups(str(path))
    assert peak[0] < 2**26


def head(version: int, *parts: bytes) -> bytes:
    return b"CDF" + bytes([version]) + b"".join(parts)


def four(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers)


def eight(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}Q", *numbers)


NAMES = {name: four(1) + name.encode() + b"\0\0\0" for name in "vxyt"}
WIDE = {name: eight(1) + name.encode() + b"\0\0\0" for name in "vxyt"}


def one_variable(length: int, *variable: int, count: int = 1) -> bytes:
    """CDF-1: one dimension x of this length, no attributes, and variables 'v' of these numbers."""
    said = NAMES["v"] + four(*variable)
    return head(
        1, four(0, 10, 1), NAMES["x"], four(length, 0, 0, 11, count), said * count, bytes(60)
    )


def beyond_numpy() -> bytes:
    """CDF-5: no records of 2^60 x 2^60 bytes."""
    dims = b"".join([WIDE["t"], eight(0), WIDE["x"], eight(2**60), WIDE["y"], eight(2**60)])
    said = [WIDE["v"], eight(3, 0, 1, 2), four(0), eight(0), four(1), eight(0, 2**40)]
    return head(5, eight(0), four(10), eight(3), dims, four(0), eight(0), four(11), eight(1), *said)


HOSTILE = {
    "cut": b"CDF\x01",
    "a list of 2147483647": head(1, four(0, 10, 2**31 - 1)),
    "a list of 4611686018427387904": head(5, eight(0), four(10), eight(2**62)),
    "a negative count": head(1, four(0, 10, 2**31)),
    "instead of 10": head(1, four(0, 7, 1)),
    "a name of 300 bytes": head(1, four(0, 10, 1, 300), b"x" * 300, bytes(100)),
    "a name of 0 bytes": head(1, four(0, 10, 1, 0, 5)),
    "more than one record dimension": head(
        1, four(0, 10, 2), NAMES["x"], four(0), NAMES["y"], four(0), bytes(16)
    ),
    "bytes are to follow": head(1, four(0, 0, 0, 12, 1), NAMES["v"], four(6, 2**28), bytes(60)),
    "dimension 3 of 1": one_variable(5, 1, 3),
    "another place than the first": one_variable(0, 2, 0, 0),
    "2000 dimensions": one_variable(5, 2000) + bytes(9000),
    "7 is no type": one_variable(5, 1, 0, 0, 0, 7, 0, 0),
    "begin at byte 4,": one_variable(5, 1, 0, 0, 0, 1, 8, 4),
    "truncated: ": one_variable(2**31 - 1, 1, 0, 0, 0, 6, 8, 2**31 - 1),
    "the same name": one_variable(1, 1, 0, 0, 0, 1, 4, 112, count=2),
    "beyond what NumPy holds": beyond_numpy(),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_hostile_headers_get_a_sentence_soon(tmp_path: Path, said: str) -> None:
    path = tmp_path / "hostile.nc"
    path.write_bytes(HOSTILE[said])
    with traced_memory() as peak, pytest.raises(FormatError) as raised:
        formats.open_source(f"{path}::v")
    assert said in str(raised.value) or said == "cut"
    assert str(path) in str(raised.value)
    assert peak[0] < 2**20


def test_the_corrupt_real_file_is_a_format_error() -> None:
    path = DATA / "netcdf" / "bad_cdf5_begin.nc"
    with pytest.raises(FormatError, match=r"bad_cdf5_begin\.nc.*var_small begin at byte"):
        formats.arrays(str(path))


def test_unknown_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.nc"
    path.write_bytes(b"CDF\x03" + bytes(100))
    with pytest.raises(FormatError, match="format is unknown"):
        formats.detect(str(path))


@pytest.mark.parametrize(
    ("whole", "ended"),
    [(b"abcd", b"abc\0"), (b"dimx", b"dim\0"), (b"unit", b"uni\0"), (b"abcd", b"a\0cd")],
)
def test_names_end_at_a_zero_byte(tmp_path: Path, whole: bytes, ended: bytes) -> None:
    path = tmp_path / "names.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("dimx", 3)
        file.createVariable("abcd", "i4", ("dimx",))[:] = [1, 2, 3]
        file["abcd"].unit = "m"
    path.write_bytes(path.read_bytes().replace(whole, ended))
    with netCDF4.Dataset(path) as file:
        (name, expected), *_ = file.variables.items()
        source = formats.open_source(f"{path}::{name}")
        assert (source.dims, list(source.header.attributes)) == (
            expected.dimensions,
            expected.ncattrs(),
        )
        assert reading.read(source, Hyperslab.full((3,))).tolist() == expected[:].tolist()
