"""NIfTI: the conformance suite on real files, and images of every kind that nibabel writes."""

from __future__ import annotations

import gzip
import itertools
from functools import lru_cache
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling, Values
from hyperslab.blocks import checksums, reading, writing
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats import nifti
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, slabs
from hyperslab.units import show_count
from tests.examples import examples
from tests.formats.files import DATA, unlike_real_files
from tests.formats.nifti_made import random_values, save

nib: Any = nibabel
"Its functions carry no types."

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "c8", "c16"]


@lru_cache(maxsize=4)
def whole(url: str, values: Values) -> Array:
    proxy = nib.load(url).dataobj
    return np.asanyarray(proxy) if values == "real" else np.asanyarray(proxy.get_unscaled())


class TestNifti(FormatTests):
    @pytest.fixture(params=unlike_real_files("nifti"))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        block: Array = whole(url, values)[slab.slices()]
        return block

    def test_affines_are_nibabels(self, path: Path) -> None:
        affine = formats.open_source(str(path)).header.affine
        assert affine is not None
        np.testing.assert_array_equal(affine, nib.load(path).affine)


@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=7).map(tuple),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from("<>"),
    version=st.sampled_from([1, 2]),
    scaling=st.sampled_from(
        [(1, 0), (0, 3), (np.nan, 1), (1, -2.5), (0.3, 0), (1e-3, 7.25), (-2, 1)]
    ),
    suffix=st.sampled_from([".nii", ".nii", ".nii.gz"]),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_image_reads_as_nibabel_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    shape: tuple[int, ...],
    dtype: str,
    order: str,
    version: int,
    scaling: tuple[float, float],
    suffix: str,
) -> None:
    values = random_values(shape, np.dtype(dtype))
    path = save(
        tmp_path_factory.mktemp("image") / f"image{suffix}", values, version, order, *scaling
    )
    source, slab = formats.open_source(str(path)), data.draw(slabs(shape))
    image = nib.load(path)
    assert_same(reading.read(source, slab, values="stored"), values[slab.slices()])
    assert_same(
        reading.read(source, slab, values="real"), np.asanyarray(image.dataobj)[slab.slices()]
    )


@pytest.mark.parametrize("keep", [1, 2, 100, 347, 351, 352, 500])
def test_truncated_images_say_what_is_missing(tmp_path: Path, keep: int) -> None:
    path = save(tmp_path / "short.nii", np.zeros((10, 10), "i2"))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FormatError, match=r"short\.nii") as raised:
        formats.open_source(str(path))
    if keep >= 352:
        assert f"truncated: {show_count(552 - keep, 'byte')} missing" in str(raised.value)


def test_header_only_images_are_refused(tmp_path: Path) -> None:
    for suffix in (".nii", ".nii.gz"):
        path = save(tmp_path / f"head{suffix}", np.zeros((300, 300, 30), "f8"))
        head = (
            gzip.compress(gzip.decompress(path.read_bytes())[:352])
            if suffix == ".nii.gz"
            else path.read_bytes()[:352]
        )
        path.write_bytes(head)
        with pytest.raises(FormatError, match="truncated"):
            formats.open_source(str(path))


@pytest.mark.parametrize("first", [(0, 0, 0), (0, 0, 38)])
def test_a_compressed_image_that_ends_early_fails_wherever_it_is_read(
    tmp_path: Path, first: tuple[int, ...]
) -> None:
    path = save(tmp_path / "short.nii.gz", random_values((40, 40, 40), np.dtype("i2")))
    whole = path.read_bytes()
    for stored in (whole[:-20000], whole[:-8], whole[:-1], whole + b"more"):
        path.write_bytes(stored)
        with pytest.raises(FormatError, match=r"short\.nii\.gz.*too early"):
            reading.read(formats.open_source(str(path)), Hyperslab(first, (40, 40, 2)))


def test_garbage_in_a_gzip_stream_is_a_format_error(tmp_path: Path) -> None:
    path = save(tmp_path / "bad.nii.gz", random_values((40, 40, 40), np.dtype("i2")))
    good = path.read_bytes()
    path.write_bytes(good[:60000] + bytes(200) + good[60200:])
    with pytest.raises(FormatError, match=r"bad\.nii\.gz"):
        reading.read(formats.open_source(str(path)), Hyperslab.full((40, 40, 40)))
    path.write_bytes(b"\x1f\x8b" + b"garbage" * 100)
    with pytest.raises(FormatError, match=r"bad\.nii\.gz"):
        formats.open_source(str(path))


@pytest.mark.parametrize(
    ("field", "value"),
    [("datatype", 1), ("datatype", 999), ("vox_offset", 1e9), ("scl_inter", np.nan)],
)
def test_headers_that_cannot_be_used_are_refused(tmp_path: Path, field: str, value: float) -> None:
    path = save(tmp_path / "odd.nii", np.zeros((4, 4), "i2"), slope=2)
    raw = bytearray(path.read_bytes())
    header = np.frombuffer(raw, nib.Nifti1Header.template_dtype, count=1)
    header[field] = value
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"odd\.nii"):
        formats.open_source(str(path))


@pytest.mark.parametrize(
    ("shape", "dtype", "remedy"),
    [
        ((4, 4), "f2", "float32"),
        ((4, 4), "U3", r"\.h5"),
        ((1,) * 8, "u1", r"\.h5"),
        ((4, 0), "u1", r"\.h5"),
        ((), "u1", r"\.h5"),
    ],
)
def test_what_nifti_cannot_hold_is_refused_with_the_remedy(
    shape: tuple[int, ...], dtype: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy):
        nifti.sink("/nowhere/out.nii", shape, np.dtype(dtype), Header())


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("dtype", [*DTYPES, ">i2", ">f8"])
def test_written_blocks_are_images_for_nibabel(tmp_path: Path, suffix: str, dtype: str) -> None:
    values = random_values((5, 4, 3), np.dtype(dtype))
    sink = nifti.sink(str(tmp_path / f"block{suffix}"), values.shape, values.dtype, Header())
    written = writing.write(sink, values)
    image: Any = nib.load(sink.path)
    assert_same(np.asanyarray(image.dataobj), values)
    assert image.header.endianness == "<"
    assert written.checksum == checksums.of_file(sink.path)
    assert written.nbytes == Path(sink.path).stat().st_size


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    values = random_values((5, 4, 3), np.dtype("i2"))
    sinks = [
        nifti.sink(str(tmp_path / name), values.shape, values.dtype, Header())
        for name in ("a.nii.gz", "b.nii.gz")
    ]
    assert len({writing.write(sink, values).checksum for sink in sinks}) == 1


def test_long_axes_and_nifti2_parents_give_nifti2(tmp_path: Path) -> None:
    for shape, header in (
        ((32768, 2), Header()),
        ((4, 4, 4, 2), formats.open_source(str(DATA / "mri" / "example_nifti2.nii.gz")).header),
    ):
        sink = nifti.sink(str(tmp_path / "block.nii"), shape, np.dtype("u1"), header)
        writing.write(sink, np.ones(shape, "u1"))
        image: Any = nib.load(sink.path)
        assert isinstance(image, nib.Nifti2Image)
        assert image.shape == shape


def test_scaling_is_kept_when_stored_values_are_written(tmp_path: Path) -> None:
    source = formats.open_source(str(DATA / "mri" / "functional.nii"))
    assert source.scaling is not None
    slab = Hyperslab((1, 2, 0, 3), (5, 6, 3, 4))
    stored = reading.read(source, slab, values="stored")
    sink = nifti.sink(
        str(tmp_path / "block.nii"),
        stored.shape,
        stored.dtype,
        source.header.for_slab(slab),
        source.scaling,
    )
    writing.write(sink, stored)
    image: Any = nib.load(sink.path)
    assert_same(np.asanyarray(image.dataobj), reading.read(source, slab))
    plain = nifti.sink(sink.path, stored.shape, stored.dtype, source.header.for_slab(slab))
    writing.write(plain, stored)
    assert_same(np.asanyarray(nib.load(sink.path).dataobj), stored)


@pytest.mark.parametrize("order", ["<", ">"])
def test_extensions_survive(tmp_path: Path, order: str) -> None:
    header = nib.Nifti1Header(endianness=order)
    header.set_data_dtype("i2")
    image: Any = nib.Nifti1Image(np.zeros((3, 3, 3), "i2"), np.eye(4), header)
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"cut from a whole"))
    path = tmp_path / "parent.nii"
    image.to_filename(path)
    source = formats.open_source(str(path))
    sink = nifti.sink(str(tmp_path / "block.nii"), (2, 2, 2), np.dtype("i2"), source.header)
    writing.write(sink, np.ones((2, 2, 2), "i2"))
    block: Any = nib.load(sink.path)
    assert [e.get_content().rstrip(b"\0") for e in block.header.extensions] == [b"cut from a whole"]
    assert_same(np.asanyarray(block.dataobj), np.ones((2, 2, 2), "i2"))


def test_the_scaling_record_holds_what_nibabel_reads() -> None:
    source = formats.open_source(str(DATA / "mri" / "functional.nii"))
    proxy: Any = nib.load(DATA / "mri" / "functional.nii").dataobj
    assert source.scaling == Scaling(proxy.slope, proxy.inter)


def test_every_order_of_writing_gives_the_same_file(tmp_path: Path) -> None:
    values = random_values((6, 5, 4), np.dtype("i2"))
    sink = nifti.sink(str(tmp_path / "block.nii"), values.shape, values.dtype, Header())
    checksums = {
        writing.write(
            sink, np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
        ).checksum
        for axes in itertools.permutations(range(3))
    }
    assert len(checksums) == 1
