"""`stats` and `histogram` within masks, labels and regions, against NumPy over nibabel's arrays."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from nibabel.processing import resample_from_to

import hyperslab
from hyperslab import Pipeline, workloads
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from tests.repetitions import each_value, few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    FUNCTIONAL,
    affine_of,
    call,
    image_of,
    only_output,
    real_values_of,
    save,
    succeed,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

QUICK = ("--engine", "serial", "--no-report", "-q")


def statistics(out: Path) -> Any:
    return json.loads((out / "stats.json").read_text())


def require_stats_of(found: dict[str, Any], values: Array) -> None:
    """Compare with NumPy's numbers over what it was of."""
    finite = values[np.isfinite(values)].astype(np.float64)
    assert found["count"] == finite.size
    assert found["nan"] == np.count_nonzero(np.isnan(values))
    assert found["min"] == finite.min()
    assert found["max"] == finite.max()
    assert found["mean"] == pytest.approx(finite.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(finite.std(), rel=1e-10)


def masks(shape: tuple[int, ...], affine: Array, folder: Path) -> Iterator[tuple[Path, Array]]:
    """Files of masks in several dtypes, and where they are inside."""
    rng = np.random.default_rng(8)
    whole = rng.integers(0, 2, shape).astype(np.uint8)
    yield save(folder / "uint8.nii", whole, affine), whole > 0
    real = rng.normal(size=shape).astype(np.float32)
    real[real < 0.2] = 0
    real[rng.random(shape) < 0.1] = np.nan
    yield save(folder / "float32.nii.gz", real, affine), (real != 0) & ~np.isnan(real)
    image: Any = nib.Nifti1Image((whole * 3).astype(np.int16), affine)  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(0.5, -1.5)  # 1.5 * 2 - 1.5 is 0: inside is what is stored as 0
    image.to_filename(folder / "scaled.nii")
    yield folder / "scaled.nii", whole == 0


@pytest.mark.parametrize("source", [ANATOMICAL, FUNCTIONAL], ids=["volume", "scaled series"])
def test_stats_within_masks(tmp_path: Path, source: Path) -> None:
    values = real_values_of(source)
    for path, inside in masks(values.shape[:3], affine_of(source), tmp_path):
        out = tmp_path / f"of-{path.name.partition('.')[0]}"
        succeed("run", "stats", source, "-o", out, "--mask", path, "--blocks", "5", *QUICK)
        require_stats_of(statistics(out), values[inside])
    out = tmp_path / "h"
    succeed("run", "histogram", source, "-o", out, "--mask", path, "--blocks", "5", *QUICK)
    with np.load(out / "histogram.npz") as found:
        counts, _ = np.histogram(values[inside], found["edges"])
        assert np.array_equal(counts, found["counts"])


DTYPES = ["u1", "i4", "f4"]


@pytest.mark.parametrize("dtype", few(["u1", "f4"], DTYPES, "labels are whole numbers: of u1"))
def test_a_row_for_each_label(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(3).normal(size=(12, 11, 10)).astype(np.float32)
    values[values > 2] = np.nan
    affine = np.diag([2.0, 2, 2, 1])
    source = save(tmp_path / "in.nii", values, affine)
    labels = np.random.default_rng(4).choice([0, 1, 2, 17], (12, 11, 10)).astype(dtype)
    labels[:4, :4, :4] = 101
    atlas = save(tmp_path / "atlas.nii.gz", labels, affine)
    mask = np.zeros(labels.shape, np.uint8)
    mask[2:] = 1
    masking = ("--mask", save(tmp_path / "mask.nii", mask, affine))
    out = tmp_path / "out"
    given = ("--labels", atlas, *masking, "--blocks", "2x2x1", *QUICK)
    succeed("run", "stats", source, "-o", out, *given)
    rows = statistics(out)
    assert [row["label"] for row in rows] == [1, 2, 17, 101]
    for row in rows:
        require_stats_of(row, values[(labels == row["label"]) & (mask > 0)])
    with (out / "stats.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items()} for row in table] == rows
    succeed("run", "histogram", source, "-o", tmp_path / "h", *given, "-p", "bins=20")
    with np.load(tmp_path / "h" / "histogram.npz") as found:
        assert found["labels"].tolist() == [1, 2, 17, 101]
        for label, counts in zip(found["labels"], found["counts"], strict=True):
            of_label = values[(labels == label) & (mask > 0)]
            assert np.array_equal(counts, np.histogram(of_label, found["edges"])[0])
    lines = (tmp_path / "h" / "histogram.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["label", "1", "2", "17", "101"]
    assert {line.count(",") for line in lines} == {23}


def test_histograms_of_labels_count_whole_numbers(tmp_path: Path) -> None:
    values = real_values_of(ANATOMICAL)
    labels = (values > 9000).astype(np.uint8) + 1
    atlas = save(tmp_path / "atlas.nii", labels, affine_of(ANATOMICAL))
    succeed("run", "histogram", ANATOMICAL, "-o", tmp_path / "h", "--labels", atlas, *QUICK)
    with np.load(tmp_path / "h" / "histogram.npz") as found:
        assert found["values"].tolist() == list(range(values.min(), values.max() + 1))
        for label, counts in zip((1, 2), found["counts"], strict=True):
            of_label = values[labels == label] - values.min()
            assert np.array_equal(counts, np.bincount(of_label.ravel(), minlength=len(counts)))


def test_a_mask_in_another_space(tmp_path: Path) -> None:
    affine = affine_of(ANATOMICAL) @ np.diag([1.5, 1.5, 1.5, 1])
    mask = save(tmp_path / "mask.nii", np.ones((15, 20, 12), np.uint8), affine)
    refused = call("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--mask", mask)
    assert refused.code == 2
    assert "voxels of 3 x 3 x 3 and 2 x 2 x 2 mm" in refused.err
    given = ("--mask", mask, "--resample", "nearest", "--blocks", "3", *QUICK)
    succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "out", *given)
    here: Any = resample_from_to(image_of(mask), image_of(ANATOMICAL), order=0)  # type: ignore[no-untyped-call]
    inside = np.asarray(here.dataobj) > 0
    assert 0 < inside.mean() < 1
    require_stats_of(statistics(tmp_path / "out"), real_values_of(ANATOMICAL)[inside])


def test_nothing_inside(tmp_path: Path) -> None:
    empty = save(tmp_path / "no.nii", np.zeros((33, 41, 25), np.uint8), affine_of(ANATOMICAL))
    said = succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "a", "--mask", empty)
    assert statistics(tmp_path / "a")["count"] == 0
    assert "nothing was measured: a mask is 0 wherever the source has voxels" in said
    said = succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "b", "--labels", empty)
    assert statistics(tmp_path / "b") == []
    assert "nothing was measured: labels are 0 wherever the source has voxels" in said
    for name, flag, why in (("c", "--labels", "labels are 0"), ("d", "--mask", "a mask is 0")):
        order = ("run", "histogram", ANATOMICAL, flag, empty, "--engine", "serial", "--no-report")
        said = succeed(*order, "-o", tmp_path / name)
        assert f"warning    nothing was measured: {why} wherever the source has voxels" in said
        assert "fullest" not in said
        quiet = call(*order, "-o", tmp_path / f"quiet-{name}", "-q")
        assert (quiet.code, quiet.out) == (0, "")
        assert quiet.err.count("\n") == 1
        assert f"warning    nothing was measured: {why}" in quiet.err
    assert (tmp_path / "c" / "histogram.csv").read_text() == "label,below,above,nan\n"


def test_labels_that_are_none(tmp_path: Path) -> None:
    odd = save(tmp_path / "odd.nii", np.full((33, 41, 25), 2.5), affine_of(ANATOMICAL))
    done = call("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--labels", odd, *QUICK)
    assert (done.code, "the label 2.5 is no whole number" in done.err) == (1, True), done.err
    pipeline = Pipeline(ANATOMICAL, labels=odd, resample={"labels": "linear"})
    with pytest.raises(UsageError, match="masks and labels are not interpolated"):
        workloads.build("stats", pipeline, {})


REGIONS = [
    (ANATOMICAL, "10:30,5:41,3:20", np.s_[10:30, 5:41, 3:20]),
    (ANATOMICAL, ":,-10:", np.s_[:, -10:]),
    (FUNCTIONAL, "3:9,:,1:2,5:15", np.s_[3:9, :, 1:2, 5:15]),
    # 2 mm voxels, x from 32 to -32, y from -40 to 40, z from -16 to 32
    (ANATOMICAL, "mm:-10:8,-40:0", np.s_[12:22, :21]),
    (ANATOMICAL, "mm:-10.9:8.9,:,31:99", np.s_[12:22, :, 24:]),
]


@each_value("every region, and both ways to cut it")
@pytest.mark.parametrize(("source", "region", "part"), REGIONS, ids=lambda x: str(x)[:24])
@pytest.mark.parametrize("cut", [["--blocks", "6"], ["--partition", "bytes=2000"]], ids=str)
def test_regions(tmp_path: Path, source: Path, region: str, part: Any, cut: list[str]) -> None:
    out = tmp_path / "out"
    succeed("run", "stats", source, "-o", out, "--region", region, *cut, *QUICK)
    require_stats_of(statistics(out), real_values_of(source)[part])


def test_a_region_of_a_chunked_array_within_a_mask(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(20, 21, 22))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("image", data=values, chunks=(6, 6, 6))
        file.create_dataset("mask", data=values > 0.5)
    for number, rule in enumerate(["chunks", "slabs", "auto"]):
        out = tmp_path / f"out{number}"
        place = f"{tmp_path}/in.h5::"
        given = ("--mask", f"{place}mask", "--region", "3:17,:,9:10", "--partition", rule)
        succeed("run", "stats", f"{place}image", "-o", out, *given, *QUICK)
        part = values[3:17, :, 9:10]
        require_stats_of(statistics(out), part[part > 0.5])


def test_a_region_of_what_is_written(tmp_path: Path) -> None:
    """The filter sees what lies around the region, and the block lies where it did."""
    given = ("--region", "10:20,10:30,5:15", "--blocks", "1", "--values", "stored")
    succeed("run", "smooth", ANATOMICAL, "-o", tmp_path / "whole", "--keep", "volume", *QUICK)
    succeed("run", "smooth", ANATOMICAL, "-o", tmp_path / "part", *given, *QUICK)
    succeed("run", "smooth", ANATOMICAL, "-o", tmp_path / "o", *given, "--keep", "volume", *QUICK)
    whole, part, volume = (
        image_of(only_output(tmp_path / name)) for name in ("whole", "part", "o")
    )
    for one in (part, volume):
        assert np.array_equal(one.dataobj, np.asarray(whole.dataobj)[10:20, 10:30, 5:15])
        assert np.allclose(one.affine, whole.slicer[10:20, 10:30, 5:15].affine)


@pytest.mark.parametrize(
    ("region", "told"),
    [
        ("...,1:2,...", "'...' is not a range"),
        ("10-20", "'10-20' is not a range: write it as 10:40,20:60,5:25"),
        ("1:2,3:4,5:6,7:8", "names 4 axes, but anatomical has 3"),
        ("10:99", "reaches beyond axis 0 of anatomical, which has 33 elements"),
        ("20:10", "holds nothing"),
        ("mm:1:2,3:4,5:6,7:8", "millimetres are for x, y and z"),
        ("mm:500:600", "holds no voxel along x of anatomical, which reaches from (-32, -40, -16)"),
        ("mm:0.5:1.5", "holds no voxel along x"),
    ],
)
def test_wrong_regions(tmp_path: Path, region: str, told: str) -> None:
    done = call("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--region", region)
    assert (done.code, told in done.err) == (2, True), done.err
    assert not (tmp_path / "out").exists()


def test_millimetres_of_a_turned_image_are_refused(tmp_path: Path) -> None:
    affine = affine_of(ANATOMICAL).copy()
    affine[1, 0] = 0.2
    turned = save(tmp_path / "turned.nii", real_values_of(ANATOMICAL), affine)
    done = call("run", "stats", turned, "-o", tmp_path / "out", "--region", "mm:-9:9")
    assert "turned by 5.7 degrees against x, y and z" in done.err, done.err


def test_regions_in_python() -> None:
    values = np.random.default_rng(2).normal(size=(9, 8, 7))
    pipeline = workloads.build("stats", Pipeline(values, region=np.s_[2:5, :, 1:]), {})
    result = hyperslab.run(pipeline, engine="serial")
    require_stats_of(dataclasses.asdict(result.value), values[2:5, :, 1:])
    with pytest.raises(UsageError, match="give slices of step 1"):
        Pipeline(values, region=(slice(None, None, 2),))


@pytest.mark.parametrize(
    "region", [np.s_[..., 0:3], np.s_[1:3, ..., 2:], np.s_[4:, ...], np.s_[...]], ids=str
)
def test_a_region_names_its_last_axes_behind_an_ellipsis(region: Any) -> None:
    values = np.random.default_rng(3).normal(size=(6, 5, 4))
    summed = Pipeline(values, region=region).reduce(hyperslab.Fold(np.sum, np.add))
    result = hyperslab.run(summed, engine="serial", report=False)
    assert result.value == pytest.approx(values[region].sum())


def test_a_mask_of_fractions_is_told_and_inside_above_a_number(tmp_path: Path) -> None:
    values = real_values_of(ANATOMICAL)
    chance = np.random.default_rng(4).uniform(0, 1, values.shape).astype("f4")
    chance[values < values.mean()] = 0
    path = save(tmp_path / "chance.nii.gz", chance, affine_of(ANATOMICAL))
    line = ("run", "stats", ANATOMICAL, "--mask", path, "--engine", "serial", "--no-report")
    told = call(*line, "-o", tmp_path / "a")
    assert "chance.nii.gz holds fractions, such as 0." in told.out + told.err
    assert "holds fractions" in call(*line, "-o", tmp_path / "d", "--dry-run").out
    require_stats_of(statistics(tmp_path / "a"), values[chance != 0])
    done = call(*line, "-o", tmp_path / "b", "-p", "mask_above=0.5")
    assert (done.code, "holds fractions" in done.out + done.err) == (0, False), done
    require_stats_of(statistics(tmp_path / "b"), values[chance > 0.5])


@pytest.mark.parametrize("labels", [False, True])
def test_bins_are_those_of_values_above_a_number(tmp_path: Path, labels: bool) -> None:
    values = np.random.default_rng(5).normal(size=(9, 8, 7))
    chance = np.random.default_rng(6).uniform(0, 1, values.shape)
    more: dict[str, Any] = {"labels": np.ones(values.shape, "u1")} if labels else {}
    pipeline = Pipeline(values, mask=chance, **more)
    found = pipeline.reduce("histogram", bins=5, mask_above=0.7).compute(engine="serial")
    if labels:
        found = found.rows[1]
    counts, edges = np.histogram(values[chance > 0.7], 5)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_array_equal(found.edges, edges)


def test_a_number_for_a_mask_needs_a_mask() -> None:
    with pytest.raises(UsageError, match="there is no mask"):
        Pipeline(np.zeros((3, 4, 5))).reduce("stats", mask_above=0.5)
    with pytest.raises(UsageError, match="finite"):
        Pipeline(np.zeros(3), mask=np.zeros(3)).reduce("stats", mask_above=float("nan"))
