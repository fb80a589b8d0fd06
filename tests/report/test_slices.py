"""Slices of images: the right voxels the right way up, as nibabel's canonical orientation has
them.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.blocks import reading
from hyperslab.driver.pictured import pictured
from hyperslab.report import slices as shown_slices
from hyperslab.report.slices import MOST_PIXELS, slices
from tests.system.end_to_end.command import ANATOMICAL, FUNCTIONAL, call, save, succeed


def pixels(png: bytes) -> Array:
    """The greys of a PNG file, by its specification."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    length = struct.unpack(">I", png[33:37])[0]
    raw = np.frombuffer(zlib.decompress(png[41 : 41 + length]), np.uint8)
    return raw.reshape(height, width + 1)[:, 1:]


def expected(path: Path) -> dict[str, Array]:
    """The same slices of the image that nibabel has turned to RAS+, before they are made grey."""
    own: Any = nib.load(path)
    volume = np.asarray(own.dataobj)
    middle = tuple(n // 2 for n in volume.shape[:3])
    # The middle voxel is that of the file, so mark it and see where it comes to lie.
    marked = np.zeros(volume.shape[:3], np.int8)
    marked[middle] = 1
    turned: Any = nib.as_closest_canonical(nib.Nifti1Image(marked, own.affine))  # type: ignore[no-untyped-call]
    x, y, z = (int(i[0]) for i in np.nonzero(np.asarray(turned.dataobj)))
    first = volume.reshape(*volume.shape[:3], -1)[..., 0].astype("f8")
    ras: Any = nib.as_closest_canonical(nib.Nifti1Image(first, own.affine))  # type: ignore[no-untyped-call]
    values = np.asarray(ras.dataobj)
    found = {"sagittal": values[x], "coronal": values[:, y], "axial": values[:, :, z]}
    return {plane: view.T[::-1] for plane, view in found.items()}


def assert_is_shown(path: Path) -> None:
    shown = slices(formats.open_source(str(path)))
    assert [one.plane for one in shown] == ["sagittal", "coronal", "axial"]
    values = expected(path)
    low, high = np.percentile(np.concatenate([v.ravel() for v in values.values()]), (1, 99))
    for one in shown:
        grey = np.clip((values[one.plane] - low) / (high - low), 0, 1) * 255
        assert pixels(one.png).shape == grey.shape
        assert np.abs(pixels(one.png) - grey).max() <= 1


@pytest.mark.parametrize("path", [ANATOMICAL, FUNCTIONAL], ids=lambda path: path.stem)
def test_real_images(path: Path) -> None:
    assert_is_shown(path)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_axes_in_any_order_and_direction(tmp_path: Path, order: tuple[int, int, int]) -> None:
    numbers = np.random.default_rng(order)
    values = numbers.integers(0, 1000, (7, 9, 11), dtype="i2")
    for number, signs in enumerate(itertools.product((-1, 1), repeat=3)):
        affine = np.zeros((4, 4))
        affine[order, range(3)] = np.array(signs) * (1.0, 2.0, 3.0)
        affine[:, 3] = (4, 5, 6, 1)
        affine[:3, :3] += numbers.uniform(-0.05, 0.05, (3, 3))
        path = save(tmp_path / f"{number}.nii", values, affine)
        assert_is_shown(path)


def test_what_is_no_image_or_too_large_has_none(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((5, 5, 5))
    assert slices(formats.open_source(f"{tmp_path / 'a.h5'}::x")) == ()
    assert slices(formats.open_source(str(save(tmp_path / "flat.nii", np.zeros((5, 5)))))) == ()
    with (tmp_path / "huge.nii").open("wb") as sparse:
        header: Any = nib.Nifti1Header()  # type: ignore[no-untyped-call]
        header.set_data_shape((30_000, 20_000, 10_000))
        header.set_data_dtype(np.int16)
        header.set_sform(np.eye(4), 1)
        header["vox_offset"], header["magic"] = 352, b"n+1"
        sparse.write(header.binaryblock + bytes(4))
        sparse.truncate(352 + 2 * 30_000 * 20_000 * 10_000)
    assert slices(formats.open_source(str(tmp_path / "huge.nii"))) == ()


def test_a_long_axis_is_thinned_and_nan_is_black(tmp_path: Path) -> None:
    values = np.full((3 * MOST_PIXELS, 4, 4), 7.0, "f4")
    values[: MOST_PIXELS // 2] = np.nan
    shown = slices(formats.open_source(str(save(tmp_path / "long.nii", values))))
    assert pixels(shown[1].png).shape == (4, MOST_PIXELS)
    assert not pixels(shown[1].png)[:, :10].any()


def test_a_gzip_stream_is_inflated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = nib.Nifti1Image(
        np.arange(2 * 40 * 30 * 20).reshape(40, 30, 20, 2), np.diag((1, 2, 3, 1)), dtype="i4"
    )  # type: ignore[no-untyped-call]
    scaled.header.set_slope_inter(0.5, 7)  # type: ignore[no-untyped-call]
    paths = [tmp_path / "head.nii.gz", tmp_path / "head.nii"]
    for path in paths:
        nib.save(scaled, path)
    packed, plain = (formats.open_source(str(path)) for path in paths)
    read: list[Any] = []
    own = reading.read

    def counted(*args: Any, **options: Any) -> Array:
        read.append(args)
        return own(*args, **options)

    monkeypatch.setattr(reading, "read", counted)
    assert slices(packed) == slices(plain)
    assert len(read) == 1 + 3
    monkeypatch.setattr(shown_slices, "MOST_VOLUME_NBYTES", 1000)
    assert slices(packed) == slices(plain)
    assert len(read) == 4 + 6


def test_what_is_black_and_white_are_percentiles() -> None:
    values = np.random.default_rng(1).normal(size=1234)
    found = shown_slices._percentiles(values)
    assert np.allclose(found, np.percentile(values, shown_slices.WINDOW), rtol=1e-14)
    assert shown_slices._percentiles(np.full(7, 0.1)).tolist() == [0.1, 0.1]


def test_a_page_shows_what_went_in_and_what_came_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = ("run", "smooth", ANATOMICAL, "-o", out, "--engine", "serial", "-q", "--keep", "volume")
    succeed(*line)
    (run,) = (out / ".hyperslab").glob("run-*")
    plan = {"summary": {"sources": {"source": {"first": str(ANATOMICAL)}}}}
    assert [(one.what, Path(one.name).name) for one in pictured(run, plan)] == [
        ("input", "anatomical.nii"),
        ("output", "anatomical.nii"),
    ]
    (out / "anatomical.nii").write_bytes(b"no image any more")
    (out / ".hyperslab" / "manifest.json").write_text("no record any more")
    assert [one.what for one in pictured(run, plan)] == ["input"]


def test_a_page_to_pass_on_shows_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed("run", "stats", ANATOMICAL, "-o", out, "--engine", "serial", "-q")
    page = tmp_path / "page.html"
    succeed("report", out, "-o", page)
    assert page.read_text().count("data:image/png") == 3
    assert call("report", out, "-o", page, "--no-pictures").code == 0
    assert "data:image/png" not in page.read_text()
