"""A run that an earlier version began, and that was killed, goes on: what it did is neither lost
nor done again.
"""

from __future__ import annotations

import pickle
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import xxhash

import hyperslab
from hyperslab.arrays import Array
from hyperslab.plan.function import refer
from hyperslab.plan.journal import Tail, load_partial
from tests.system.faults.command import PATIENCE_S, command

ARCHIVES = Path(__file__).parents[2] / "data" / "earlier"
MAP = ("run", "increment", "in", "-o", "out", "--blocks", "8", "-p", "iterations=2")


def unpacked(name: str, folder: Path) -> Path:
    """The directory of a run, as its process left it."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def resumed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, "--resume", "--quiet", "--engine", "serial"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def sources(folder: Path) -> list[Array]:
    paths = sorted((folder / "in").glob("*.nii"))
    assert len(paths) == 2
    return [values_of(path) for path in paths]


def values_of(path: Path) -> Array:
    return np.asanyarray(nib.load(path).dataobj)  # type: ignore[attr-defined]


def tasks_run(folder: Path) -> int:
    """Tasks that the resumed run did itself."""
    outcomes = Tail(folder / "out" / ".hyperslab" / "run-0002").poll()
    assert {outcome.status for outcome in outcomes} == {"done"}
    return len(outcomes)


def states(paths: Sequence[Path]) -> list[tuple[int, int]]:
    assert paths
    return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in paths]


def test_a_map(tmp_path: Path) -> None:
    folder = unpacked("map", tmp_path)
    before = sorted((folder / "out").glob("*.nii"))
    kept = states(before)
    done = resumed(folder, *MAP)
    assert done.returncode == 0, done.stderr
    assert states(before) == kept
    assert tasks_run(folder) == 16 - 4
    for number, values in enumerate(sources(folder)):
        found = sorted((folder / "out").glob(f"v_{number}_*.nii"))
        assert len(found) == 8
        for path in found:
            block = values_of(path)
            corner = [int(text) for text in path.stem.split("_")[2:]]
            region = tuple(slice(a, a + n) for a, n in zip(corner, block.shape, strict=True))
            np.testing.assert_array_equal(block, values[region] + 2)


def test_a_volume_that_several_tasks_write(tmp_path: Path) -> None:
    folder = unpacked("volume", tmp_path)
    done = resumed(
        folder, "run", "downsample", "in", "-o", "out", "--blocks", "8", "--keep", "volume"
    )
    assert done.returncode == 0, done.stderr
    assert tasks_run(folder) == 8 - 6
    for number, values in enumerate(sources(folder)):
        means = values.reshape(6, 2, 5, 2, 4, 2).mean(axis=(1, 3, 5))
        np.testing.assert_allclose(values_of(folder / "out" / f"v_{number}.nii"), means)
    assert not list((folder / "out").glob(".*.part"))


def test_a_reduction_in_its_second_stage(tmp_path: Path) -> None:
    folder = unpacked("reduction", tmp_path)
    done = resumed(folder, "run", "histogram", "in", "-o", "out", "--blocks", "8")
    assert done.returncode == 0, done.stderr
    assert tasks_run(folder) == 32 - 21
    everything = np.concatenate([values.ravel() for values in sources(folder)])
    expected, edges = np.histogram(everything, 1024, (everything.min(), everything.max()))
    with np.load(folder / "out" / "histogram.npz") as saved:
        np.testing.assert_array_equal(saved["counts"], expected)
        np.testing.assert_array_equal(saved["edges"], edges)


def test_a_conversion(tmp_path: Path) -> None:
    folder = unpacked("convert", tmp_path)
    done = resumed(folder, "convert", "in", "out", "--format", "nii", "--dtype", "float64")
    assert done.returncode == 0, done.stderr
    assert tasks_run(folder) == 1
    for number, values in enumerate(sources(folder)):
        made = values_of(folder / "out" / f"v_{number}.nii")
        assert made.dtype == np.float64
        np.testing.assert_array_equal(made, values)


def test_other_parameters_are_refused_as_ever(tmp_path: Path) -> None:
    folder = unpacked("map", tmp_path)
    refused = resumed(folder, *MAP[:-1], "iterations=3")
    assert refused.returncode == 2
    assert "differ in" in refused.stderr


@pytest.mark.parametrize("name", ["increment:increment", "stats:FOLD", "cast:cast"])
def test_a_built_in_of_other_results_is_another_function(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"hyperslab.workloads.{name}"
    before = refer(target)
    assert before.earlier_digest
    monkeypatch.setattr(f"{target.partition(':')[0]}.VERSION", 2)
    after = refer(target)
    assert after.digest != before.digest
    assert not after.earlier_digest


def test_values_of_a_fold_that_hold_hyperslabs(tmp_path: Path) -> None:
    """A function may keep the `slab` it is given, a class whose module has moved."""
    place = hyperslab.Hyperslab((1, 2), (3, 4))
    value: Any = ([5], {"brightest": place})
    body = pickle.dumps(value, protocol=2).replace(b"hyperslab.arrays.slab\n", b"hyperslab.slab\n")
    assert b"arrays" not in body
    (tmp_path / "p.pickle").write_bytes(xxhash.xxh3_128_digest(body) + body)
    partial = load_partial(tmp_path / "p.pickle")
    assert partial is not None
    assert (partial.tasks, partial.value) == value
