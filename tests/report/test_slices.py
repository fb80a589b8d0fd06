"""Slices of images: the right voxels the right way up, as nibabel's canonical orientation has
them.
"""

from __future__ import annotations

import itertools
import json
import math
import re
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
from hyperslab.report import pictures
from hyperslab.report import slices as shown_slices
from hyperslab.report.slices import MONTAGE_PX, MOST_PIXELS, Pictured, left_out, montage, slices
from tests.system.end_to_end.command import ANATOMICAL, FUNCTIONAL, call, save, succeed

QUICK = ("--engine", "serial", "-q", "--no-report")


def pixels(png: bytes) -> Array:
    """The greys of a PNG file, by its specification."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    place = png.index(b"IDAT") + 4
    length = struct.unpack(">I", png[place - 8 : place - 4])[0]
    raw = np.frombuffer(zlib.decompress(png[place : place + length]), np.uint8)
    return raw.reshape(height, width + 1)[:, 1:]


def test_slices_side_by_side(tmp_path: Path) -> None:
    """At one scale, whatever the sizes of voxels, with the edge of the mask in its colour."""
    values = np.zeros((20, 40, 10), np.uint8)
    values[5:15, 10:30, 2:8] = 100
    affine = np.diag([2.0, 1.0, 3.0, 1.0])
    image = formats.open_source(str(save(tmp_path / "image.nii", values, affine)))
    mask = formats.open_source(str(save(tmp_path / "mask.nii", values // 100, affine)))
    shown = pixels(montage(image, mask))
    assert shown.shape == (MONTAGE_PX, 160 + 160 + 160)
    yellow = shown == 255
    assert yellow.any()
    heights = [np.flatnonzero(part.any(axis=1)).size for part in np.hsplit(yellow, 3)]
    assert heights == [72, 72, 80]  # 6 voxels of 3 mm and 20 of 1 mm, of 40 mm in 160 pixels
    assert not (pixels(montage(image)) == shown).all()
    flat = formats.open_source(str(save(tmp_path / "flat.nii", np.zeros((1, 9, 9), "u1"))))
    assert montage(flat)[:4] == b"\x89PNG"


def expected_edge(inner: Array) -> Array:
    """Pixels inside with one of their four neighbours outside, pixel by pixel."""
    height, width = inner.shape
    found = np.zeros(inner.shape, bool)
    for y, x in zip(*np.nonzero(inner), strict=True):
        beside = ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
        found[y, x] = any(0 <= j < height and 0 <= i < width and not inner[j, i] for j, i in beside)
    return found


def palette(png: bytes) -> tuple[Array, Array]:
    """The bytes of a PNG file with a palette, and its colours."""
    assert png[24:26] == bytes([8, 3])
    length = struct.unpack(">I", png[33:37])[0]
    colours = np.frombuffer(png[41 : 41 + length], np.uint8).reshape(-1, 3)
    return pixels(png[:33] + png[41 + length + 4 :]), colours


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


@pytest.mark.parametrize("ndim", [3, 4])
def test_the_edge_of_a_mask(tmp_path: Path, ndim: int) -> None:
    """A mask in the image's own voxels, on top of the same greys."""
    numbers = np.random.default_rng(ndim)
    affine = np.array([[0, -2.0, 0, 9], [1.5, 0, 0, -7], [0, 0, 3, 1], [0, 0, 0, 1]])
    image = save(tmp_path / "image.nii", numbers.integers(0, 900, (13, 15, 17), "i2"), affine)
    values = np.zeros((13, 15, 17), "f4")
    values[2:9, 4:15, 3:12] = numbers.uniform(0.5, 2, (7, 11, 9))
    values[5, 7] = np.nan
    series = values
    if ndim == 4:
        series = np.stack([values, np.ones_like(values)], axis=3)
    mask = save(tmp_path / "mask.nii", series, affine)
    shown = slices(formats.open_source(str(image)), formats.open_source(str(mask)))
    plain = slices(formats.open_source(str(image)))
    inner = expected(save(tmp_path / "inner.nii", (values > 0).astype("u1"), affine))
    for one, before in zip(shown, plain, strict=True):
        numbered, colours = palette(one.png)
        edge = expected_edge(inner[one.plane] > 0)
        assert 10 < edge.sum() < edge.size / 2
        assert np.array_equal(numbered == 255, edge)
        assert tuple(colours[255]) == (0xF0, 0xE4, 0x42)
        greys = colours[numbered][~edge].astype(int)
        assert np.abs(greys - pixels(before.png)[~edge][:, None]).max() <= 1


def test_a_mask_elsewhere_in_space_is_shown_where_it_lies(tmp_path: Path) -> None:
    """One of twice the voxels' size, moved, with axes in another order; and one that is away."""
    image = save(tmp_path / "image.nii", np.arange(1000, dtype="i2").reshape(10, 10, 10), np.eye(4))
    coarse = np.zeros((5, 5, 5), "u1")
    coarse[1:3, 1:4, 0:3] = 1
    affine = np.array([[0, 2.0, 0, 0.5], [2.0, 0, 0, 0.5], [0, 0, 2.0, 0.5], [0, 0, 0, 1]])
    fine = coarse.transpose(1, 0, 2).repeat(2, 0).repeat(2, 1).repeat(2, 2)
    same = save(tmp_path / "same.nii", fine, np.eye(4))
    moved = save(tmp_path / "moved.nii", coarse, affine)
    away = save(tmp_path / "away.nii", coarse, affine + np.eye(4, k=3) * 900)
    shown, alike, none = (
        slices(formats.open_source(str(image)), formats.open_source(str(each)))
        for each in (moved, same, away)
    )
    assert [one.png for one in shown] == [one.png for one in alike]
    assert all((palette(one.png)[0] == 255).any() for one in shown)
    assert not any((palette(one.png)[0] == 255).any() for one in none)


def test_a_mask_that_cannot_be_placed_is_not_shown(tmp_path: Path) -> None:
    image = formats.open_source(str(save(tmp_path / "image.nii", np.ones((5, 6, 7), "i2"))))
    flat = formats.open_source(str(save(tmp_path / "flat.nii", np.ones((5, 6), "u1"))))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["other"] = np.ones((5, 6, 8), "u1")
        file["same"] = np.tri(5)[:, :, None].repeat(2, 1)[:, :6, [0] * 7].astype("u1")
    other = formats.open_source(f"{tmp_path / 'a.h5'}::other")
    plain = [one.png for one in slices(image)]
    assert [one.png for one in slices(image, flat)] == plain
    assert [one.png for one in slices(image, other)] == plain
    same = formats.open_source(f"{tmp_path / 'a.h5'}::same")
    assert any((palette(one.png)[0] == 255).any() for one in slices(image, same))


def test_a_page_shows_the_mask_of_its_run(tmp_path: Path) -> None:
    image: Any = nib.load(ANATOMICAL)
    values = np.zeros(image.shape, "u1")
    values[8:20, 8:30, 5:20] = 1
    mask = save(tmp_path / "mask.nii", values, image.affine)
    out = tmp_path / "out"
    line = ("run", "hyperslab.testing.functions:masked", ANATOMICAL, "--mask", mask, "-o", out)
    succeed(*line, *QUICK, "--keep", "volume")
    (run,) = (out / ".hyperslab").glob("run-*")
    plan = json.loads((run / "plan.json").read_text())
    before, after = pictured(run, plan)
    for one in (*before.slices, *after.slices):
        assert (palette(one.png)[0] == 255).any()
    mask.unlink()
    assert [shown.slices[0].png[25] for shown in pictured(run, plan)] == [0, 0]


def test_a_page_shows_the_edge_above_the_number_that_was_asked_for(tmp_path: Path) -> None:
    image: Any = nib.load(ANATOMICAL)
    inner = np.zeros(image.shape, "f4")
    inner[8:20, 8:30, 5:20] = 1
    mask = save(tmp_path / "mask.nii", inner, image.affine)
    likely = save(tmp_path / "likely.nii", 0.3 + 0.4 * inner, image.affine)
    line = ("run", "stats", ANATOMICAL, *QUICK)
    succeed(*line, "--mask", mask, "-o", tmp_path / "a")
    succeed(*line, "--mask", likely, "-p", "mask_above=0.5", "-o", tmp_path / "b")
    found = []
    for run in (tmp_path / "a/.hyperslab/run-0001", tmp_path / "b/.hyperslab/run-0001"):
        (shown,) = pictured(run, json.loads((run / "plan.json").read_text()))
        found.append([one.png for one in shown.slices])
    assert found[0] == found[1]


def test_what_is_no_image_or_too_large_has_none(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((5, 5, 5))
    assert slices(formats.open_source(f"{tmp_path / 'a.h5'}::x")) == ()
    assert slices(formats.open_source(str(save(tmp_path / "flat.nii", np.zeros((5, 5)))))) == ()
    nowhere = save(tmp_path / "nowhere.nii", np.zeros((5, 5, 5)))
    with nowhere.open("r+b") as file:
        file.seek(280)  # srow_x, srow_y and srow_z
        file.write(bytes(48))
    assert slices(formats.open_source(str(nowhere))) == ()
    with (tmp_path / "huge.nii").open("wb") as sparse:
        header: Any = nib.Nifti1Header()  # type: ignore[no-untyped-call]
        header.set_data_shape((30_000, 20_000, 10_000))
        header.set_data_dtype(np.int16)
        header.set_sform(np.eye(4), 1)
        header["vox_offset"], header["magic"] = 352, b"n+1"
        sparse.write(header.binaryblock + bytes(4))
        sparse.truncate(352 + 2 * 30_000 * 20_000 * 10_000)
    huge = formats.open_source(str(tmp_path / "huge.nii"))
    shown = slices(huge)
    assert [one.plane for one in shown] == ["coronal", "axial"]
    assert left_out(huge, shown).startswith("no sagittal slice, which takes ")


def test_a_series_is_shown_by_the_front_of_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gzip stream that takes long to inflate holds its first volume near its start."""
    numbers = np.random.default_rng(0)
    values = numbers.integers(0, 999, (20, 30, 10, 8), "i2")
    packed = formats.open_source(str(save(tmp_path / "series.nii.gz", values)))
    volume = formats.open_source(str(save(tmp_path / "one.nii.gz", values[..., 0])))
    expected_slices = slices(packed)
    monkeypatch.setattr(shown_slices, "MOST_NBYTES", 20_000)
    assert packed.file_size > 30_000
    assert slices(packed) == expected_slices
    monkeypatch.setattr(shown_slices, "MOST_NBYTES", 5000)
    assert slices(packed) == slices(volume) == ()
    assert left_out(packed, ()).startswith("no sagittal or coronal or axial slice, which takes ")
    page = pictures.pictures_html([Pictured("input", "series.nii.gz", (), left_out(packed, ()))])
    assert "<figcaption>input: series.nii.gz (no sagittal or coronal or axial slice" in page


@pytest.mark.parametrize(
    ("shape", "planes"),
    [
        ((64, 64, 2), ["axial"]),
        ((64, 64, 1), ["axial"]),
        ((2, 2, 64), ["axial"]),
        ((2, 3, 2), ["sagittal", "coronal", "axial"]),
    ],
)
def test_slices_are_large_enough_to_be_seen(
    tmp_path: Path, shape: tuple[int, int, int], planes: list[str]
) -> None:
    """Slivers, as a block of two layers has, are left out with a word; small ones are enlarged."""
    values = np.arange(math.prod(shape), dtype="i2").reshape(shape)
    path = save(tmp_path / "block.nii", values, np.eye(4))
    source = formats.open_source(str(path))
    shown = slices(source)
    assert [one.plane for one in shown] == planes
    assert ("too thin to see" in left_out(source, shown)) == (len(planes) < 3)
    sizes = re.findall(r"width:(\d+)px;aspect-ratio:(\d+)/(\d+)", pictures._slices(shown))
    for one, (width, *ratio) in zip(shown, sizes, strict=True):
        columns, rows = map(int, ratio)
        assert int(width) == columns
        assert max(columns, rows) >= 96
        assert min(columns, rows) >= 12
        assert columns / rows == pytest.approx(one.size_mm[0] / one.size_mm[1], rel=0.1)


def test_a_long_axis_is_thinned_and_nan_is_black(tmp_path: Path) -> None:
    values = np.full((3 * MOST_PIXELS, 60, 60), 7.0, "f4")
    values[: MOST_PIXELS // 2] = np.nan
    shown = slices(formats.open_source(str(save(tmp_path / "long.nii", values))))
    assert pixels(shown[1].png).shape == (60, MOST_PIXELS)
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
    line = ("run", "smooth", ANATOMICAL, "-o", out, *QUICK, "--keep", "volume")
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
    succeed("run", "stats", ANATOMICAL, "-o", out, *QUICK)
    page = tmp_path / "page.html"
    succeed("report", out, "-o", page)
    assert page.read_text().count("data:image/png") == 3
    assert page.stat().st_size < 110_000
    assert call("report", out, "-o", page, "--no-pictures").code == 0
    assert "data:image/png" not in page.read_text()
