"""No worker needs more memory than planned, on volumes several times larger than what the run may
use.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from hyperslab import workloads
from hyperslab.arrays.partition import Rule
from hyperslab.driver import run
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.errors import DoesNotFit
from hyperslab.machine.host import WORKER_BASE_BYTES
from hyperslab.plan.pipeline import Pipeline
from hyperslab.testing import functions
from tests.repetitions import repeats

MIB = 2**20
MEMORY = 96 * MIB
VOLUME_NBYTES = 256 * MIB
SCALED_NBYTES = 64 * MIB
WORKERS = 2
SLACK = 8 * MIB
"For pages that the allocator keeps."


def make(path: Path, nbytes: int, slope: float = 1.0) -> Path:
    """A uint16 image of this size: noise, repeated, so that it is made fast."""
    plane = (1024, 512)
    header: Any = nib.Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_dtype(np.uint16)
    header.set_data_shape((*plane, nbytes // MIB))
    header.set_slope_inter(slope, 0)
    header["vox_offset"], header["magic"] = 352, b"n+1"
    noise = np.random.default_rng(0).integers(0, 60000, (8, MIB // 2), dtype=np.uint16)
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        for number in range(nbytes // MIB):
            file.write(noise[number % 8].tobytes())
    return path


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Nearly three times what a run may use."""
    folder = tmp_path_factory.mktemp("volume")
    yield str(make(folder / "volume.nii", VOLUME_NBYTES))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its real values, of float64, take four times its bytes: as many as the volume has."""
    folder = tmp_path_factory.mktemp("scaled")
    yield str(make(folder / "scaled.nii", SCALED_NBYTES, slope=0.37))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def base_nbytes(tmp_path_factory: pytest.TempPathFactory) -> int:
    """What a worker needs for a task of next to nothing."""
    folder = tmp_path_factory.mktemp("base")
    path = make(folder / "little.nii", MIB)
    pipeline = workloads.build("smooth", Pipeline(str(path)), {"sigma": 0.5})
    result = run.run(pipeline.write(folder / "out"), workers=1, rule=Rule("bytes", (2**16,)))
    return int(max(result.trace.meta["max_rss"].values()))


def check(
    pipeline: Pipeline, out: Path, base: int, rule: Rule | None = None, threads: int = 1
) -> None:
    """Run it within MEMORY, and compare the memory that each worker came to use with the plan."""
    options = Options(workers=WORKERS, threads=threads, memory_bytes=MEMORY, rule=rule or Rule())
    needs = prepare(pipeline, options, out).needs
    assert needs.bytes_peak * WORKERS * threads <= MEMORY
    result = run.run(pipeline, options, out=out)
    shutil.rmtree(out)
    assert result.ok, result.failures
    used = result.trace.meta["max_rss"]
    print(
        f"planned {needs.bytes_peak / MIB:.1f} MiB a task, {threads} at a time; workers used"
        f" {', '.join(f'{n / MIB:.1f}' for n in used.values())} MiB, {base / MIB:.1f} MiB of it"
        " without tasks"
    )
    assert len(used) == WORKERS
    planned = threads * needs.bytes_peak
    assert all(0 < nbytes <= planned + WORKER_BASE_BYTES for nbytes in used.values())
    assert all(nbytes <= planned + base + SLACK for nbytes in used.values())
    assert sum(span.nbytes for span in result.trace.spans if span.kind == "read") >= (SCALED_NBYTES)


@repeats("memory of a map: on threads of workers, and of real values, below")
def test_a_map(volume: str, base_nbytes: int, tmp_path: Path) -> None:
    check(
        workloads.build("increment", Pipeline(volume), {}).write(tmp_path / "out"),
        tmp_path / "out",
        base_nbytes,
    )


def test_a_map_into_a_volume_on_threads_of_workers(
    volume: str, base_nbytes: int, tmp_path: Path
) -> None:
    pipeline = Pipeline(volume).map(functions.add).write(tmp_path / "out", keep="volume")
    check(pipeline, tmp_path / "out", base_nbytes, threads=2)


def test_real_values(scaled: str, base_nbytes: int, tmp_path: Path) -> None:
    check(
        Pipeline(scaled).map(functions.add).write(tmp_path / "out"), tmp_path / "out", base_nbytes
    )


@repeats("a halo is planned: around all axes")
def test_a_halo(scaled: str, base_nbytes: int, tmp_path: Path) -> None:
    pipeline = workloads.build(
        "smooth", Pipeline(scaled, values="stored"), {"sigma": 0.5, "truncate": 2.0}
    )
    check(pipeline.write(tmp_path / "out"), tmp_path / "out", base_nbytes)


def test_a_halo_around_all_axes(scaled: str, base_nbytes: int, tmp_path: Path) -> None:
    pipeline = Pipeline(scaled, values="stored").map(
        functions.neighbourhood, dtype="int64", halo=1, temporaries=4
    )
    check(
        pipeline.write(tmp_path / "out"),
        tmp_path / "out",
        base_nbytes,
        Rule("block-shape", (64, 512, 8)),
    )


def test_a_reduction(volume: str, base_nbytes: int, tmp_path: Path) -> None:
    check(workloads.build("histogram", Pipeline(volume), {}), tmp_path / "out", base_nbytes)


def test_what_does_not_fit_is_refused_with_the_number(volume: str, tmp_path: Path) -> None:
    options = Options(workers=WORKERS, memory_bytes=MEMORY, rule=Rule("blocks", (4,)))
    with pytest.raises(
        DoesNotFit, match=r"a task needs \d+ MB of memory but its slot has 50.3 MB .* workers=1"
    ):
        run.run(Pipeline(volume).map(functions.add).write(tmp_path / "out"), options)
    assert not (tmp_path / "out").exists()
