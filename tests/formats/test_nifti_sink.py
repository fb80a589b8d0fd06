"""New NIfTI files, plain and compressed by many writers, as nibabel, gzip and readers with an index
read them.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.blocks import reading, writing
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.nifti import sinks as nifti_sink
from hyperslab.formats.nifti.header import carried, taken_over
from hyperslab.storage import renaming
from hyperslab.testing.formats import assert_same
from tests.formats.nifti_made import RGB, RGBA, save
from tests.formats.written import (
    assert_read_back,
    h5py_values,
    netcdf_values,
    sink_of,
    tool,
    values_of,
    write_by_many,
)

nib: Any = nibabel
"Its functions carry no types."

DTYPES = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16", RGB, RGBA)
SHAPES = (
    (5,),
    (1,),
    (4, 3),
    (1, 7),
    (5, 1, 4),
    (3, 4, 5, 2),
    (2, 3, 1, 4, 3),
    (2, 1, 3, 2, 1, 2),
    (2,) * 7,
)
AFFINE = np.array([[0, -2.0, 0, 5], [1.5, 0, 0, -7], [0, 0, 3.25, 11], [0, 0, 0, 1]])


@pytest.fixture(autouse=True)
def _does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/blocks/test_writing.py` sees that files are synchronised."""
    monkeypatch.setattr(renaming, "synchronise", lambda *_, **__: None)


def stored_values(path: Path) -> Array:
    return np.asarray(nib.load(path).dataobj.get_unscaled())


def only_member(path: Path) -> bytes:
    """What a gzip file holds that is one member from its first byte to its last (RFC 1952)."""
    raw = path.read_bytes()
    stream = zlib.decompressobj(31)
    plain = stream.decompress(raw)
    assert stream.eof
    assert stream.unused_data == b"", "a second member, or garbage"
    assert raw[4:8] == bytes(4), "no time: the same bytes at any time"
    assert struct.unpack("<II", raw[-8:]) == (zlib.crc32(plain), len(plain))
    return plain


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path: Path, dtype: Any, suffix: str) -> None:
    values, path = values_of(dtype, (5, 6, 7)), tmp_path / f"new{suffix}"
    write_by_many(sink_of(path, values, header=Header(base_affine=AFFINE)), values)
    found = stored_values(path)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)
    np.testing.assert_allclose(nib.load(path).affine, AFFINE, rtol=1e-6)
    assert_read_back(path, values)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(tmp_path: Path, shape: tuple[int, ...], suffix: str) -> None:
    values, path = values_of("i2", shape), tmp_path / f"new{suffix}"
    for seed in range(2):
        write_by_many(sink_of(path, values), values, seed)
        np.testing.assert_array_equal(stored_values(path), values)
        assert_read_back(path, values)
    if suffix == ".nii.gz":
        only_member(path)


@pytest.mark.parametrize("level", range(1, 10))
def test_a_compressed_image_is_one_member_for_every_reader(tmp_path: Path, level: int) -> None:
    values, path = (
        np.arange(40 * 30 * 20, dtype="i4").reshape(40, 30, 20) // 9,
        tmp_path / "new.nii.gz",
    )
    write_by_many(sink_of(path, values, Encoding(compression="gzip", level=level)), values)
    plain = only_member(path)
    assert plain[352:] == values.tobytes(order="F")
    writing.write(sink_of(tmp_path / "plain.nii", values), values)
    assert plain == (tmp_path / "plain.nii").read_bytes(), "a plain file holds the same"
    tool("gzip", "-t", path)
    np.testing.assert_array_equal(stored_values(path), values)
    if level == 1 and shutil.which("pigz"):
        tool("pigz", "-t", path)
    whole = sink_of(tmp_path / "whole.nii.gz", values, Encoding(level=level))
    assert writing.write(whole, values).nbytes < values.nbytes / 2
    assert only_member(Path(whole.path)) == plain


def test_it_is_entered_in_the_middle(tmp_path: Path) -> None:
    """By our own index and by rapidgzip, at the ends of the writers' streams as anywhere."""
    rng = np.random.default_rng(2)
    values, path = (rng.normal(size=(64, 48, 60)) * 50).astype("i2"), tmp_path / "new.nii.gz"
    write_by_many(sink_of(path, values), values)
    source = gzipindex.index(formats.open_source(str(path)), spacing=16384)
    assert len(source.gzip or ()) > 8
    for first in range(0, 60, 7):
        slab = Hyperslab((3, 1, first), (50, 40, 60 - first), (1, 1, 1))
        assert_same(reading.read(source, slab, values="stored"), values[slab.slices()])
    if importlib.util.find_spec("rapidgzip"):
        import rapidgzip

        with rapidgzip.open(str(path), parallelization=2) as file:
            file.seek(352 + 12345)
            assert file.read(1000) == values.tobytes(order="F")[12345:13345]
            assert file.seek(0, 2) == 352 + values.nbytes


def test_the_same_runs_make_the_same_bytes(tmp_path: Path) -> None:
    """Whoever writes first; cut otherwise, it holds the same."""
    values, made = values_of("i2", (9, 8, 7)), []
    for order in range(3):
        write_by_many(sink_of(tmp_path / "new.nii.gz", values), values, order=order)
        made.append((tmp_path / "new.nii.gz").read_bytes())
    assert made[0] == made[1] == made[2]
    writing.write(sink_of(tmp_path / "whole.nii.gz", values), values)
    assert only_member(tmp_path / "whole.nii.gz") == only_member(tmp_path / "new.nii.gz")


def test_streams_are_joined_in_the_order_of_their_bytes() -> None:
    """RFC 1952: CRC-32 and length, the latter modulo 2**32, are those of all plain bytes."""
    parts = [b"abc" * 50, b"", b"d", bytes(70000)]
    member = deflating.Member()
    streams = [
        deflating.open_stream([memoryview(part)], level)
        for part, level in zip(parts, (1, 3, 6, 9), strict=True)
    ]
    raw = member.head + b"".join(bytes(member.add(stream)) for stream in streams) + member.tail()
    assert zlib.decompress(raw, 31) == b"".join(parts)
    member.length += 2**32 * 3
    assert member.tail()[-4:] == struct.pack("<I", sum(map(len, parts)))


def test_a_run_that_is_missing_or_comes_twice_is_an_error(tmp_path: Path) -> None:
    values = values_of("i2", (4, 3, 6))
    sink = sink_of(tmp_path / "new.nii.gz", values)
    runs = [Hyperslab((0, 0, z), (4, 3, 2)) for z in (0, 2, 4)]
    made = [run for slab in runs for run in nifti_sink.encode(sink, slab, values[slab.slices()])]
    assert len(made) == 3
    (tmp_path / "all").write_bytes(b"".join(nifti_sink.assemble(sink, made)))
    np.testing.assert_array_equal(
        np.frombuffer(only_member(tmp_path / "all")[352:], "i2"), values.ravel(order="F")
    )
    for wrong in (
        made[:2],
        made[1:],
        [made[0], made[2]],
        [made[0], made[0], made[1]],
        [made[0], made[2], made[1]],
        [],
    ):
        with pytest.raises(FormatError, match=r"bytes? not written.*--resume"):
            b"".join(nifti_sink.assemble(sink, wrong))


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_scaling_is_kept(tmp_path: Path, suffix: str) -> None:
    stored, path = values_of("i2", (4, 5, 6)), tmp_path / f"new{suffix}"
    write_by_many(sink_of(path, stored, scaling=Scaling(0.5, -1024)), stored)
    np.testing.assert_array_equal(stored_values(path), stored)
    np.testing.assert_array_equal(np.asarray(nib.load(path).dataobj), stored * 0.5 - 1024)


@pytest.mark.parametrize(
    ("scaling", "sentence"),
    [
        (
            Scaling(0.1, 0),
            r"NIfTI-1 rounds the slope 0\.1000000\d* and intercept 0 .* --values real",
        ),
        (Scaling(1, 2**24 + 1), "NIfTI-1 rounds the slope 1 and intercept 16777217"),
        (
            Scaling(np.array([1.0, 2.0]).reshape(2, 1, 1), 0.0),
            "cannot say .* each slice has a scale of its own; use --values real",
        ),
        (Scaling(missing=(np.int16(3),)), "cannot say .* some stand for a missing value"),
        (Scaling(1, 0, clip=(0, 3)), "cannot say"),
        (Scaling(unsigned=True), "cannot say"),
    ],
)
def test_scaling_that_nifti_cannot_say_is_refused(
    tmp_path: Path, scaling: Scaling, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        sink_of(tmp_path / "new.nii", values_of("i2", (2, 3, 4)), scaling=scaling)


@pytest.mark.parametrize(
    ("shape", "dtype", "encoding", "sentence"),
    [
        ((2, 3), "f2", Encoding(), "cannot hold float16; convert the block to float32 or float64"),
        ((2, 3), "M8[s]", Encoding(), "cannot hold datetime64"),
        ((2, 3), "S4", Encoding(), "cannot hold"),
        ((), "i2", Encoding(), r"1 to 7 axes of at least one element, not \(\)"),
        ((2, 0), "i2", Encoding(), "1 to 7 axes of at least one element"),
        ((1,) * 8, "i2", Encoding(), "1 to 7 axes"),
        ((2, 3), "i2", Encoding(chunks=(1, 1)), "neither chunks nor shards"),
        ((2, 3), "i2", Encoding(virtual=True), "neither chunks nor shards"),
        ((2, 3), "i2", Encoding(name="data"), "versions or names"),
        ((2, 3), "i2", Encoding(compression="gzip"), r"a \.nii is not compressed"),
        ((2, 3), "i2", Encoding(compression="zstd"), "--compression zstd"),
    ],
    ids=str,
)
def test_what_nifti_cannot_hold_is_refused(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, encoding: Encoding, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        sink_of(tmp_path / "new.nii", np.zeros(shape, dtype), encoding)


@pytest.mark.parametrize("level", [0, 10])
def test_levels_that_gzip_has_not_are_refused(tmp_path: Path, level: int) -> None:
    with pytest.raises(UsageError, match=rf"--compression gzip:{level}: .* gzip:1 to gzip:9"):
        sink_of(
            tmp_path / "new.nii.gz",
            np.zeros((2, 3), "i2"),
            Encoding(compression="gzip", level=level),
        )


@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_the_header_of_an_image_is_checked_once_for_all_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte_order: str
) -> None:
    """A split into thousands of files would take most of its planning for that."""
    about = nib.Nifti1Header(endianness=byte_order)
    about["descrip"] = os.urandom(4).hex()  # which nobody has seen before
    values = np.zeros((8, 4, 3), "i2")
    nib.save(nib.Nifti1Image(values, AFFINE, about), tmp_path / "all.nii")
    header = formats.open_source(str(tmp_path / "all.nii")).header
    checked: list[str] = []
    check = nib.Nifti1Header.check_fix

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        checked.append(str(self["descrip"]))
        return check(self, *given, **more)

    monkeypatch.setattr(nib.Nifti1Header, "check_fix", counted)
    for first in range(8):
        block = header.for_slab(Hyperslab((first, 0, 0), (1, 4, 3)))
        sink = sink_of(tmp_path / f"{first}.nii", values[first : first + 1], header=block)
        assert sink.head is not None
        assert about["descrip"].item() in sink.head
    assert len(checked) == 1


def test_axes_longer_than_those_of_nifti1(tmp_path: Path) -> None:
    values, path = values_of("u1", (40000, 2)), tmp_path / "new.nii.gz"
    write_by_many(sink_of(path, values, header=Header(base_affine=AFFINE)), values)
    assert isinstance(nib.load(path), nib.Nifti2Image)
    np.testing.assert_array_equal(stored_values(path), values)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("suffix", [".h5", ".nc"])
def test_a_header_travels_through_other_formats(tmp_path: Path, suffix: str, version: int) -> None:
    """NIfTI to HDF5 or netCDF and back is bit by bit what it was: times, units, codes,
    extensions.
    """
    values = values_of("i2", (5, 4, 3, 6))
    fields = {
        "sform_code": 3,
        "qform_code": 1,
        "xyzt_units": 10,
        "descrip": b"a test",
        "intent_code": 1002,
        "cal_max": 9.5,
        "srow_x": [2, 0, 0, -5],
        "srow_y": [0, 2.5, 0, 7],
        "srow_z": [0, 0, 3, 1],
        "toffset": 1.5,
        "pixdim": [1, 2, 2.5, 3, 0.75, 1, 1, 1],
        "slice_code": 1,
    }
    path = save(tmp_path / "in.nii", values, version, fields=fields, comments=[b"one", b"two" * 50])
    source = formats.open_source(str(path))
    between = tmp_path / f"between{suffix}"
    writing.write(sink_of(between, values, header=source.header), values)
    assert_same(h5py_values(between) if suffix == ".h5" else netcdf_values(between)[0], values)
    back = formats.open_source(str(between)).header
    writing.write(sink_of(tmp_path / "back.nii", values, header=back), values)
    assert (tmp_path / "back.nii").read_bytes() == path.read_bytes()


def test_a_header_of_another_array_is_not_taken_over(tmp_path: Path) -> None:
    """Whoever changed the dataset's place or shape meant that; a damaged header is none."""
    values = values_of("i2", (5, 4, 3))
    header = formats.open_source(str(save(tmp_path / "in.nii", values))).header
    affine, text = np.asarray(header.affine), carried((5, 4, 3), header)
    assert taken_over(text, (5, 4, 3), affine) is not None
    for wrong in (
        taken_over(text, (5, 4), affine),
        taken_over(text, (5, 4, 3), affine @ np.diag([2, 1, 1, 1])),
    ):
        assert wrong is None
    for damaged in (
        "",
        "????",
        text[:-60],
        text[: len(text) // 8 * 4],
        "A" * len(text),
        5,
        b"\xff",
    ):
        assert taken_over(damaged, (5, 4, 3), affine) is None
    assert carried((5, 0, 3), header) == ""
    assert carried((1,) * 8, header) == ""
    assert carried((5, 4, 3), Header()) == ""


def test_extensions_too_large_for_an_attribute_stay_behind(tmp_path: Path) -> None:
    values = values_of("i2", (5, 4, 3))
    header = formats.open_source(
        str(save(tmp_path / "in.nii", values, comments=[b"x" * 70_000]))
    ).header
    writing.write(sink_of(tmp_path / "between.h5", values, header=header), values)
    back = formats.open_source(str(tmp_path / "between.h5")).header
    assert back.native is not None
    assert len(back.native) == 352


def test_blocks_lie_in_the_world_where_they_lay(tmp_path: Path) -> None:
    """Every voxel of every block has the millimetres, and the time, that it had in the whole."""
    values = values_of("i2", (5, 4, 6, 4))
    fields = {
        "sform_code": 2,
        "srow_x": [0, -2, 0, 5],
        "srow_y": [1.5, 0, 0, -7],
        "srow_z": [0, 0, 3.25, 11],
        "pixdim": [1, 1.5, 2, 3.25, 0.5, 1, 1, 1],
        "toffset": 2,
    }
    source = formats.open_source(str(save(tmp_path / "in.nii", values, fields=fields)))
    whole = nib.load(tmp_path / "in.nii")
    for number, corner in enumerate(itertools.product((0, 3), (0, 1), (0, 5), (0, 2))):
        count = tuple(2 if a else n - 2 for a, n in zip(corner, values.shape, strict=True))
        count = tuple(min(c, n - a) for c, a, n in zip(count, corner, values.shape, strict=True))
        slab, path = Hyperslab(corner, count), tmp_path / f"{number}.nii.gz"
        writing.write(
            sink_of(path, values[slab.slices()], header=source.header.for_slab(slab)),
            values[slab.slices()],
        )
        block = nib.load(path)
        np.testing.assert_array_equal(stored_values(path), values[slab.slices()])
        for voxel in itertools.product(*((0, n - 1) for n in count[:3])):
            inside = np.array([*voxel, 1.0])
            there = np.array([*(v + a for v, a in zip(voxel, corner, strict=False)), 1.0])
            np.testing.assert_allclose(block.affine @ inside, whole.affine @ there, atol=1e-5)
        assert block.header["toffset"] == 2 + 0.5 * corner[3]
        assert formats.open_source(str(path)).header.corner == (4 + corner[3],)
