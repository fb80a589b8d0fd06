"""Headers of NIfTI images with a byte or a field that is wrong: what nibabel reads is read, and all
else is refused.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.reading import read
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats import nifti
from hyperslab.testing.formats import assert_same
from tests.formats.nifti_made import save
from tests.repetitions import each_value

nib: Any = nibabel
"Its functions carry no types."

SHAPE = (4, 3, 2, 2)
HEADERS = {1: 348, 2: 540}
MOSTLY_READ = 0.8
"Share of the changes with which an image is still one."


@pytest.fixture(params=HEADERS)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = save(
        tmp_path / "image.nii",
        np.arange(48, dtype="i2").reshape(SHAPE),
        request.param,
        slope=2,
        inter=1,
    )
    made = nib.load(path)
    made.header.set_xyzt_units("mm", "sec")
    made.header["qform_code"] = 1
    made.to_filename(path)
    return path


def by_nibabel(path: Path) -> tuple[Array, Array] | None:
    """Values and affine; None for what nibabel does not read, or reads as no array at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = nib.load(path)
            if (
                found.dataobj.offset + math.prod(found.shape) * found.dataobj.dtype.itemsize
                > path.stat().st_size
            ):
                return None
            values = np.asanyarray(found.dataobj)
        except Exception:  # noqa: BLE001  # nibabel foresees no list of them
            return None
    starts_in_header = found.dataobj.offset < found.header.sizeof_hdr
    return None if not found.shape or starts_in_header else (values, found.affine)


@each_value("every byte may be any, in both kinds of header")
@pytest.mark.parametrize("value", [7, 255])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_byte_of_a_header_may_be_any(
    image: Path, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nib.imageglobals.logger, "disabled", True)
    good, changed = image.read_bytes(), 0
    nibytes = HEADERS[1 if nib.load(image).header["sizeof_hdr"] == HEADERS[1] else 2] + 4
    for place in range(nibytes):
        image.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
        expected = by_nibabel(image)
        try:
            source = formats.open_source(str(image))
            found = read(source, Hyperslab.full(source.shape))
        except HyperslabError:
            assert expected is None, place
            continue
        if expected is not None:
            assert_same(found, expected[0])
            np.testing.assert_array_equal(source.header.affine, expected[1])
            changed += 1
    assert changed > MOSTLY_READ * nibytes


def change(path: Path, **fields: Any) -> None:
    """Write fields of a header as they are given."""
    raw = bytearray(path.read_bytes())
    kind = type(nib.load(path).header)
    header = np.frombuffer(raw, kind.template_dtype, count=1)
    for name, value in fields.items():
        header[name] = value
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("code", "units"),
    [
        (10, ("mm", "sec")),
        (12, ("unknown code 4", "sec")),
        (66, ("mm", "unknown code 64")),
        (255, ("unknown code 7", "unknown code 248")),
    ],
)
def test_units_that_the_standard_does_not_name_are_numbers(
    image: Path, code: int, units: tuple[str, str]
) -> None:
    change(image, xyzt_units=code)
    source = formats.open_source(str(image))
    assert source.header.attributes["units"] == units
    assert_same(read(source, Hyperslab.full(SHAPE)), np.asanyarray(nib.load(image).dataobj))
    with HyperslabBackend().open_dataset(image) as found:
        assert (found["image"].attrs["space_units"], found["image"].attrs["time_units"]) == units


def test_an_image_that_begins_within_its_header_is_refused(image: Path) -> None:
    """nibabel gives bytes of the header for its voxels."""
    change(image, vox_offset=0)
    with pytest.raises(FormatError, match="its data would begin at byte 0, within the header"):
        formats.open_source(str(image))


def test_the_mark_of_nifti2_in_a_field_of_nifti1_means_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "image.nii", np.arange(48, dtype="i2").reshape(SHAPE))
    change(path, data_type=b"n+2\0")
    assert_same(
        read(formats.open_source(str(path)), Hyperslab.full(SHAPE), values="stored"),
        np.asanyarray(nib.load(path).dataobj.get_unscaled()),
    )


@pytest.mark.parametrize("fields", [{"quatern_b": 9}, {"qoffset_x": np.nan}, {"quatern_c": np.inf}])
def test_a_qform_that_is_no_rotation_does_not_keep_blocks_from_being_written(
    image: Path, fields: dict[str, float]
) -> None:
    change(image, qform_code=1, **fields)
    source = formats.open_source(str(image))
    slab = Hyperslab((1, 0, 0, 0), (2, 3, 2, 2))
    sink = nifti.sink(
        str(image.with_name("block.nii")), slab.count, np.dtype("i2"), source.header.for_slab(slab)
    )
    assert sink.head is not None
    block = nib.Nifti1Header if len(sink.head) < HEADERS[2] else nib.Nifti2Header
    written = block(sink.head[: block.sizeof_hdr])
    affine = source.header.for_slab(slab).affine
    assert affine is not None
    np.testing.assert_allclose(written.get_best_affine(), affine)
    assert int(written["qform_code"]) == 0
