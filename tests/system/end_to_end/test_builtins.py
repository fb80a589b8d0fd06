"""`hyperslab run` with every built-in over real files, against NumPy, SciPy and nibabel on the
whole array.
"""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from hyperslab.arrays import Array
from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    BRAIN,
    EPI,
    FUNCTIONAL,
    affine_of,
    assembled,
    only_output,
    outputs,
    real_values_of,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real brain, unpacked, of every second voxel: uint8, 91 x 109 x 91."""
    path = tmp_path_factory.mktemp("brain") / "brain.nii"
    return save(path, values_of(BRAIN)[::2, ::2, ::2], affine_of(BRAIN) @ np.diag([2.0, 2, 2, 1]))


BOTH = ["fused", "stepwise"]


@pytest.mark.parametrize("granularity", few(BOTH[1:], BOTH, "fused, as all other runs are"))
def test_increment(brain: Path, tmp_path: Path, granularity: str) -> None:
    succeed(
        "run",
        "increment",
        brain,
        "-o",
        tmp_path / "out",
        "-p",
        "iterations=3",
        "-p",
        "delay=0.001",
        "--blocks",
        "2x3x2",
        "--granularity",
        granularity,
    )
    assert [path.name for path in outputs(tmp_path / "out")][::11] == [
        "brain_00_000_00.nii",
        "brain_45_072_45.nii",
    ]
    written = assembled(tmp_path / "out", brain)
    assert written.dtype == np.uint8
    assert np.array_equal(written, values_of(brain) + np.uint8(3))


def test_smooth(brain: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        "smooth",
        brain,
        "-o",
        tmp_path / "out",
        "-p",
        "sigma=1.5",
        "--blocks",
        "2x2x3",
        "--keep",
        "volume",
    )
    written = only_output(tmp_path / "out")
    expected = ndimage.gaussian_filter(values_of(brain).astype(np.float64), 1.5, mode="reflect")
    assert values_of(written).dtype == np.float32
    assert np.abs(values_of(written) - expected).max() < 1e-4
    assert np.array_equal(affine_of(written), affine_of(brain))


def test_smooth_with_a_constant_boundary(tmp_path: Path) -> None:
    succeed(
        "run",
        "smooth",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "-p",
        "sigma=1,0,2",
        "--boundary",
        "constant",
        "--block-shape",
        "9,10,11",
    )
    expected = ndimage.gaussian_filter(
        values_of(ANATOMICAL).astype(np.float64), (1, 0, 2), mode="constant"
    )
    assert (
        np.abs(assembled(tmp_path / "out", ANATOMICAL) - expected).max() < 0.05
    )  # float32 of numbers up to 30,393


def test_downsample(tmp_path: Path) -> None:
    succeed(
        "run",
        "downsample",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "-p",
        "factor=3,2,5",
        "--blocks",
        "4",
        "--keep",
        "volume",
    )
    written, whole = only_output(tmp_path / "out"), values_of(ANATOMICAL).astype(np.float64)
    assert values_of(written).shape == (11, 21, 5)
    for index in ((0, 0, 0), (10, 20, 4), (5, 7, 2)):
        group = tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, (3, 2, 5), strict=True))
        assert values_of(written)[index] == np.float32(whole[group].mean())
    complete = whole[:, :40].reshape(11, 3, 20, 2, 5, 5).mean((1, 3, 5))
    assert np.array_equal(values_of(written)[:, :20], complete.astype(np.float32))
    middle = affine_of(ANATOMICAL) @ [1, 0.5, 2, 1]  # of the first group
    assert np.allclose(affine_of(written)[:, 3], middle)


IMAGES = [ANATOMICAL, FUNCTIONAL, EPI, BRAIN]
SUMMED = [FUNCTIONAL, EPI]
"Of real values, and compressed."


@pytest.mark.parametrize(
    "source", few(SUMMED, IMAGES, "stats of an image"), ids=lambda path: path.name
)
def test_stats(source: Path, tmp_path: Path) -> None:
    printed = succeed("run", "stats", source, "-o", tmp_path / "out")
    found = json.loads(only_output(tmp_path / "out").read_text())
    whole = real_values_of(source).astype(np.float64)
    assert found["count"] == whole.size
    assert (found["min"], found["max"]) == (whole.min(), whole.max())
    assert found["mean"] == pytest.approx(whole.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(whole.std(), rel=1e-12)
    assert found["sum"] == pytest.approx(whole.sum(), rel=1e-12)
    assert (found["nan"], found["infinite"]) == (0, 0)
    assert f"mean       {found['mean']}" in printed


def test_histogram_of_uint16_has_a_bin_for_each_of_65536_values(tmp_path: Path) -> None:
    values = np.random.default_rng(7).integers(0, 65536, (40, 30, 20), dtype=np.uint16)
    values[:2] = 65535
    values[2] = 65534
    source = save(tmp_path / "in" / "image.nii", values)
    succeed("run", "histogram", source, "-o", tmp_path / "out", "--blocks", "3")
    rows = per_value(tmp_path / "out")
    assert list(rows) == list(range(65536))
    assert np.array_equal(list(rows.values()), np.bincount(values.ravel(), minlength=65536))
    with np.load(tmp_path / "out" / "histogram.npz") as saved:
        assert np.array_equal(saved["counts"], list(rows.values()))
        assert np.array_equal(saved["values"], np.arange(65536))
        assert saved["edges"].shape == (65537,)
        assert (saved["below"], saved["above"], saved["nan"]) == (0, 0, 0)
    assert "24,000 values in 65,536 bins" in words_of_picture(tmp_path / "out")


def test_histogram_of_int16(tmp_path: Path) -> None:
    succeed("run", "histogram", ANATOMICAL, "-o", tmp_path / "out")
    counted = {value: count for value, count in per_value(tmp_path / "out").items() if count}
    values, counts = np.unique(values_of(ANATOMICAL), return_counts=True)
    assert counted == dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert len(per_value(tmp_path / "out")) == 65536
    assert min(per_value(tmp_path / "out")) == -32768


def test_histogram_of_floats_counts_nan_apart(tmp_path: Path) -> None:
    values = np.random.default_rng(8).normal(size=(30, 20, 10)).astype(np.float32)
    values[0, 0, :7] = np.nan
    values[1, 1, :2] = np.inf
    source = save(tmp_path / "in" / "image.nii", values)
    succeed("run", "histogram", source, "-o", tmp_path / "out", "-p", "bins=50", "--blocks", "4")
    counts, edges = np.histogram(values[np.isfinite(values)], bins=50)
    rows = list(csv.DictReader((tmp_path / "out" / "histogram.csv").read_text().splitlines()))
    assert [int(row["count"]) for row in rows] == counts.tolist()
    assert np.array_equal([np.float32(row["low"]) for row in rows], edges[:-1].astype(np.float32))
    assert np.float32(rows[-1]["high"]) == np.float32(edges[-1])
    with np.load(tmp_path / "out" / "histogram.npz") as saved:
        assert np.array_equal(saved["counts"], counts)
        assert (saved["below"], saved["above"], saved["nan"]) == (0, 2, 7)
    assert "5,991 values in 50 bins (7 NaN, 2 above)" in words_of_picture(tmp_path / "out")


def test_histogram_in_a_range(tmp_path: Path) -> None:
    succeed(
        "run",
        "histogram",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "-p",
        "bins=16",
        "-p",
        "range=0,16000",
    )
    whole = values_of(ANATOMICAL)
    with np.load(tmp_path / "out" / "histogram.npz") as saved:
        assert np.array_equal(saved["counts"], np.histogram(whole, bins=16, range=(0, 16000))[0])
        assert (saved["below"], saved["above"]) == ((whole < 0).sum(), (whole > 16000).sum())


def test_histogram_python_counts_the_same(tmp_path: Path) -> None:
    succeed("run", "histogram", ANATOMICAL, "-o", tmp_path / "fast")
    succeed("run", "histogram-python", ANATOMICAL, "-o", tmp_path / "slow", "--blocks", "3")
    assert (tmp_path / "slow/histogram.csv").read_bytes() == (
        tmp_path / "fast/histogram.csv"
    ).read_bytes()


@pytest.mark.parametrize("values", ["real", "stored"])
def test_histogram_of_scaled_values(tmp_path: Path, values: str) -> None:
    succeed("run", "histogram", FUNCTIONAL, "-o", tmp_path / "out", "--values", values)
    stored = values_of(FUNCTIONAL)
    whole: Array = stored if values == "stored" else real_values_of(FUNCTIONAL)
    with np.load(tmp_path / "out" / "histogram.npz") as saved:
        if values == "stored":
            assert np.array_equal(
                saved["counts"], np.bincount(whole.ravel().astype(int) + 32768, minlength=65536)
            )
        else:
            assert np.array_equal(saved["counts"], np.histogram(whole, bins=1024)[0])


def per_value(folder: Path) -> dict[int, int]:
    """value -> count, from the CSV."""
    rows = csv.DictReader((folder / "histogram.csv").read_text().splitlines())
    return {int(row["value"]): int(row["count"]) for row in rows}


def words_of_picture(folder: Path) -> str:
    """The text of the SVG, which must have something drawn, too."""
    root = ET.parse(folder / "histogram.svg").getroot()
    assert root.tag.endswith("svg")
    assert any(
        element.tag.endswith(("path", "rect", "polygon", "polyline")) for element in root.iter()
    )
    return " ".join(text for element in root.iter() for text in (element.text or "").split("\n"))
