"""A run that an earlier version began, and that was killed, goes on: what it did is neither lost
nor done again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
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
from hyperslab.errors import UsageError
from hyperslab.plan.function import refer
from hyperslab.plan.journal import Tail, load_partial
from tests.system.end_to_end.command import Finished, call

ARCHIVES = Path(__file__).parents[2] / "data" / "earlier"
MTIME = "HYPERSLAB.mtime_ns"
"Exact time of a file in an archive, by which a run knows its own outputs."
QUICKLY = ("--quiet", "--no-report", "--engine", "serial")
MAP = ("run", "increment", "in", "-o", "out", "--blocks", "8", "-p", "iterations=2")


def unpacked(name: str, folder: Path) -> Path:
    """The directory of a run, as its process left it."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
        archive.extractall(folder)
        for entry in archive:
            exact = entry.pax_headers.get(MTIME)
            if exact is not None:
                os.utime(folder / entry.name, ns=(int(exact), int(exact)))
    return folder


def called(folder: Path, *arguments: str) -> Finished:
    """Run a command in a folder."""
    with contextlib.chdir(folder):
        return call(*arguments)


def resumed(folder: Path, *arguments: str) -> Finished:
    return called(folder, *arguments, "--resume", *QUICKLY)


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
    assert done.code == 0, done.err
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


DOWNSAMPLE = ("run", "downsample", "in", "-o", "out", "--blocks", "8", "--keep", "volume")
CHUNKS = ("--chunks", "6x5x1")


@pytest.mark.parametrize(
    ("archive", "suffix", "arguments", "tasks"),
    [
        ("volume", "nii", (), 8 - 6),
        ("pieces", "nii.gz", ("--format", "nii.gz"), 8 - 6),
        ("store", "zarr", ("--format", "zarr", *CHUNKS), 8),
        ("hdf5", "h5", ("--format", "h5", *CHUNKS), 8),
    ],
)
def test_a_volume_that_several_tasks_write(
    archive: str, suffix: str, arguments: tuple[str, ...], tasks: int, tmp_path: Path
) -> None:
    """HDF5 files and Zarr stores hold more than before, so that unfinished ones are not gone on
    with.
    """
    folder = unpacked(archive, tmp_path)
    done = resumed(folder, *DOWNSAMPLE, *arguments)
    assert done.code == 0, done.err
    assert tasks_run(folder) == tasks
    for number, values in enumerate(sources(folder)):
        means = values.reshape(6, 2, 5, 2, 4, 2).mean(axis=(1, 3, 5))
        found = hyperslab.open(folder / "out" / f"v_{number}.{suffix}")
        np.testing.assert_allclose(found[...], means)
    assert not list((folder / "out").glob(".*.part"))


def test_a_reduction_in_its_second_stage(tmp_path: Path) -> None:
    folder = unpacked("reduction", tmp_path)
    done = resumed(folder, "run", "histogram", "in", "-o", "out", "--blocks", "8")
    assert done.code == 0, done.err
    assert tasks_run(folder) == 32 - 21
    everything = np.concatenate([values.ravel() for values in sources(folder)])
    expected, edges = np.histogram(everything, 1024, (everything.min(), everything.max()))
    with np.load(folder / "out" / "histogram.npz") as saved:
        np.testing.assert_array_equal(saved["counts"], expected)
        np.testing.assert_array_equal(saved["edges"], edges)


def test_a_conversion(tmp_path: Path) -> None:
    folder = unpacked("convert", tmp_path)
    done = resumed(folder, "convert", "in", "out", "--format", "nii", "--dtype", "float64")
    assert done.code == 0, done.err
    assert tasks_run(folder) == 1
    for number, values in enumerate(sources(folder)):
        made = values_of(folder / "out" / f"v_{number}.nii")
        assert made.dtype == np.float64
        np.testing.assert_array_equal(made, values)


def test_an_overwriting_conversion_that_was_about_to_tidy(tmp_path: Path) -> None:
    folder = unpacked("overwrite", tmp_path)
    done = resumed(folder, "convert", "in", "out", "--format", "nii.gz", "--dtype", "float64")
    assert done.code == 0, done.err
    assert_converted(folder, "nii.gz")


def test_an_overwriting_conversion_that_begins_anew(tmp_path: Path) -> None:
    folder = unpacked("overwrite", tmp_path)
    anew = ("convert", "in", "out", "--format", "nii.gz", "--dtype", "float64", "--overwrite")
    done = called(folder, *anew, *QUICKLY)
    assert done.code == 0, done.err
    assert_converted(folder, "nii.gz")


def test_an_overwriting_conversion_that_is_cleaned(tmp_path: Path) -> None:
    folder = unpacked("overwrite", tmp_path)
    done = called(folder, "clean", "--all", "out")
    assert done.code == 0, done.err
    assert not list((folder / "out").iterdir())


def assert_converted(folder: Path, suffix: str) -> None:
    """Nothing is there but the volumes of the last conversion, which are right."""
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == {".hyperslab", f"v_0.{suffix}", f"v_1.{suffix}"}
    for number, values in enumerate(sources(folder)):
        np.testing.assert_array_equal(values_of(folder / "out" / f"v_{number}.{suffix}"), values)


def test_a_finished_run_is_told_of(tmp_path: Path) -> None:
    folder = unpacked("finished", tmp_path)
    status = called(folder, "status", "out")
    assert status.code == 0, status.err
    assert "8 of 8 done\n" in status.out
    verified = called(folder, "verify", "out")
    assert (verified.code, verified.out) == (
        0,
        "2 of 2 outputs unchanged since the run\n",
    )
    report = called(folder, "report", "out", "-o", "page.html", "--compare", "out")
    assert report.code == 0, report.err
    assert (folder / "page.html").stat().st_size > 0


def test_a_failed_run_is_told_of(tmp_path: Path) -> None:
    folder = unpacked("failed", tmp_path)
    status = called(folder, "status", "out")
    assert status.code == 1, status.err
    assert status.out.count("2 tasks: ValueError: too bright") == 1
    verified = called(folder, "verify", "out")
    assert verified.code == 1
    assert "14 of 16 tasks done" in verified.out
    assert "14 of 14 outputs unchanged since the run" in verified.out
    report = called(folder, "report", "out", "-o", "page.html")
    assert report.code == 0, report.err
    assert "ValueError: too bright" in (folder / "page.html").read_text()


def test_other_parameters_are_refused_as_ever(tmp_path: Path) -> None:
    folder = unpacked("map", tmp_path)
    refused = resumed(folder, *MAP[:-1], "iterations=3")
    assert refused.code == 2
    assert "differs in" in refused.err


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


def test_results_of_another_version_are_not_told_as_an_edited_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversion has no flag to accept them."""
    source = np.arange(24, dtype="i2").reshape(2, 3, 4)
    pipeline = hyperslab.Pipeline(source).map("increment").write(tmp_path / "out")
    hyperslab.run(pipeline, engine="serial", report=False)
    image = nib.Nifti1Image(source, np.eye(4))  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "a.nii")
    order = ("convert", "a.nii", "new", "--dtype", "float32", "--format", "h5", "--no-report")
    assert called(tmp_path, *order).code == 0
    for name in ("increment", "cast"):
        monkeypatch.setattr(f"hyperslab.workloads.{name}.VERSION", 2)
    pipeline = hyperslab.Pipeline(source).map("increment").write(tmp_path / "out")
    why = "was begun by another version of hyperslab, which makes other results; add accept_changed"
    with pytest.raises(UsageError, match=why):
        hyperslab.run(pipeline, engine="serial", report=False, resume=True)
    refused = called(tmp_path, *order, "--resume")
    assert refused.code == 2
    assert "another version of hyperslab, which makes other results; choose" in refused.err


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
