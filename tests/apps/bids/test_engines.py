"""The brain of a real head, found by commands on every engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.engines.facts import ENGINES
from tests.apps.bids.datasets import t1w
from tests.apps.bids.heads import two_millimetres
from tests.apps.bids.test_running import files_of
from tests.repetitions import repeats
from tests.system.clusters import dask, mpi, slurm, spark
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call

Made = dict[str, bytes]


def without_parallel() -> str:
    if shutil.which("parallel") is None:
        return "there is no GNU Parallel here: install the Debian package parallel"
    return ""


def nothing() -> str:
    return ""


MISSING: dict[str, Callable[[], str]] = {
    "processes": nothing,
    "threads": nothing,
    "dask-bag": dask.missing,
    "dask-delayed": dask.missing,
    "dask-futures": dask.missing,
    "gnu-parallel": without_parallel,
    "mpi": mpi.missing,
    "slurm": slurm.missing,
    "spark": spark.missing,
}
"What is missing here for each."
OPTIONS: dict[str, tuple[str, ...]] = {"slurm": ("--slurm-option", "mem=1G")}


def extracted(home: Path, out: Path, engine: str) -> Made:
    """What an engine makes of a dataset, by the names of the files."""
    line = ("bids", home, out, "participant", "--brain-extractor", "builtin", "--no-report")
    done = call(*line, "--engine", engine, "--workers", 1, *OPTIONS.get(engine, ()))
    assert done.code == 0, done
    return {name: (out / name).read_bytes() for name in files_of(out)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    image = folder / "data" / t1w("1").removesuffix(".gz")
    image.parent.mkdir(parents=True)
    image.symlink_to(two_millimetres(folder).path)
    return folder / "data"


@pytest.fixture(scope="module")
def reference(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return extracted(home, tmp_path_factory.mktemp("made") / "serial", "serial")


def test_no_engine_is_left_out() -> None:
    assert {*MISSING, "serial"} == set(ENGINES)


@pytest.fixture
def cluster(engine: str, tmp_path: Path) -> Iterator[None]:
    """What an engine needs beside its programs."""
    required(MISSING[engine]())
    if engine != "slurm":
        yield
        return
    with slurm.in_reach(tmp_path / "slurm"):
        yield


@pytest.mark.usefixtures("cluster")
@repeats(
    "brains of a dataset are found, and files of a dataset are equal on engines: test_running.py"
)
@pytest.mark.parametrize("engine", MISSING)
def test_equal_brains(home: Path, reference: Made, tmp_path: Path, engine: str) -> None:
    made = extracted(home, tmp_path / "out", engine)
    assert "sub-1/anat/sub-1_desc-brain_mask.nii.gz" in made
    assert made == reference
