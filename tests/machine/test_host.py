"""Defaults respect affinity, cgroups and Slurm allocations; workers get their share of the
processors.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.engines import default_workers
from hyperslab.engines.environment import THREAD_VARIABLES, environment
from hyperslab.machine.host import Host, peak_rss_bytes
from tests.loaded import blas_threads

SELF_CGROUP = Path("/proc/self/cgroup")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_the_affinity_counts(tmp_path: Path) -> None:
    host = Host.here({}, tmp_path)
    assert (host.cpus, host.cpus_from) == (len(os.sched_getaffinity(0)), "affinity")
    assert host.memory_from == "available memory"
    assert host.memory_bytes > 0


@pytest.mark.parametrize(
    "quota",
    [
        {"cpu.max": "100000 100000"},
        {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_a_cgroup_quota_limits_the_processors(tmp_path: Path, quota: dict[str, str]) -> None:
    for name, text in quota.items():
        write(tmp_path / name, text)
    assert (Host.here({}, tmp_path).cpus, Host.here({}, tmp_path).cpus_from) == (1, "cgroup")


@pytest.mark.parametrize(
    "unlimited",
    [{"cpu.max": "max 100000"}, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}],
)
def test_no_quota_is_no_limit(tmp_path: Path, unlimited: dict[str, str]) -> None:
    for name, text in unlimited.items():
        write(tmp_path / name, text)
    assert Host.here({}, tmp_path).cpus_from == "affinity"


def test_a_cgroup_limits_the_memory_that_is_left_in_it(tmp_path: Path) -> None:
    write(tmp_path / "memory.max", "1000000000")
    write(tmp_path / "memory.current", "400000000")
    host = Host.here({}, tmp_path)
    assert (host.memory_bytes, host.memory_from) == (600_000_000, "cgroup")


def test_the_group_of_this_process_counts_not_only_the_root(tmp_path: Path) -> None:
    if not SELF_CGROUP.exists():
        pytest.skip("no /proc/self/cgroup here: run the tests on Linux with cgroups")
    line = SELF_CGROUP.read_text().splitlines()[-1]
    number, controllers, path = line.split(":", 2)
    folder = tmp_path / ("" if number == "0" else controllers) / path.lstrip("/")
    write(folder / "memory.max", "5000000")
    write(folder / "memory.current", "0")
    if number == "0" or "memory" in controllers.split(","):
        assert Host.here({}, tmp_path).memory_bytes == 5_000_000


def test_a_slurm_allocation_counts(tmp_path: Path) -> None:
    host = Host.here({"SLURM_CPUS_PER_TASK": "1", "SLURM_MEM_PER_CPU": "100"}, tmp_path)
    assert (host.cpus, host.cpus_from) == (1, "slurm")
    assert (host.memory_bytes, host.memory_from) == (100 * 2**20, "slurm")
    assert (
        Host.here({"SLURM_CPUS_ON_NODE": "1", "SLURM_MEM_PER_NODE": "7"}, tmp_path).memory_bytes
        == 7 * 2**20
    )


def test_every_processor_is_a_slot_by_default() -> None:
    host = Host("here", 6, "affinity", 1, "available memory")
    assert default_workers("serial", host) == (1, 1)
    assert default_workers("threads", host) == (1, 6)
    assert default_workers("processes", host) == (6, 1)


def test_workers_are_told_their_share_of_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:  # Dask's nannies leave some in the process that starts them
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MKL_NUM_THREADS", "64")
    variables = environment(slot_cpus=3)
    assert variables["OMP_NUM_THREADS"] == "2", "what the user asked for, if it is less"
    assert {variables[name] for name in THREAD_VARIABLES} == {"2", "3"}


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_blas_has_one_thread_where_every_processor_is_a_slot(engine: str) -> None:
    fold = hyperslab.Fold(lift=blas_threads, merge=max)
    cpus = Host.here().cpus
    result = hyperslab.run(
        hyperslab.Pipeline(np.zeros((8, 8))).reduce(fold), engine=engine, workers=cpus
    )
    assert result.value == 1


def test_the_peak_of_a_worker_is_not_that_of_its_parent() -> None:
    ballast = np.ones(64 * 2**20, np.uint8)
    assert peak_rss_bytes() > ballast.nbytes
    fold = hyperslab.Fold(lift=lambda block: peak_rss_bytes(), merge=max)
    result = hyperslab.run(
        hyperslab.Pipeline(np.zeros((8, 8))).reduce(fold), engine="processes", workers=1
    )
    worker = int(result.value)
    assert 10 * 2**20 < worker < peak_rss_bytes()


def test_tracing_costs_under_one_percent(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(
        (16, 256, 256)
    )  # blocks that take some tens of milliseconds to sort
    pipeline = hyperslab.Pipeline(values).map(
        lambda block: np.sort(block, axis=None).reshape(block.shape)
    )
    costs = (
        _tracing_cost(pipeline.write(tmp_path / name)) for name in ("once", "again", "at last")
    )
    assert any(0 < cost < 0.01 for cost in costs), "others of this machine make it look larger"


def _tracing_cost(pipeline: hyperslab.Pipeline) -> float:
    result = hyperslab.run(pipeline, workers=2, rule=hyperslab.Rule("blocks", (4,)))
    assert result.summary.tracing_cost is not None
    return result.summary.tracing_cost
