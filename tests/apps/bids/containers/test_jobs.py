"""Containers as jobs of Slurm: of a participant each, and of the group level; none is left when the
driver is interrupted.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.apps.bids.containers.podman import IMAGE, Podman
from tests.apps.bids.datasets import make
from tests.system.clusters import slurm
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call
from tests.system.faults.command import await_that, running

MEMORY = "mem=512M"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, podman: Podman) -> Iterator[slurm.Slurm]:
    """A Slurm whose jobs see the images of the tests."""
    required(slurm.missing())
    with slurm.in_reach(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def line_of(home: Path, out: Path, level: str) -> tuple[object, ...]:
    engine = ("--engine", "slurm", "--workers", 2, "--slurm-option", MEMORY, "--no-report")
    return ("bids", home, out, level, "--container", IMAGE, "--runtime", "podman", *engine)


def test_both_levels_as_jobs(
    podman: Podman, cluster: slurm.Slurm, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = call(*line_of(home, out, "both"))
    assert done.code == 0, done
    assert (out / "sub-10" / "head.txt").read_text() == "head\n"
    assert (out / "group.tsv").read_text() == "head\nhead\n"
    by_itself = call(*line_of(home, out, "group"))
    assert (by_itself.code, "group      2 files in" in by_itself.out) == (0, True), by_itself
    assert podman.containers() == []


def test_scratch_of_each_node(cluster: slurm.Slurm, home: Path, tmp_path: Path) -> None:
    """It is where the job's own variables say, and gone afterwards."""
    engine = ("--engine", "slurm", "--workers", 1, "--slurm-option", MEMORY, "--no-report")
    app = "sh -c 'touch {work}/made; echo {work} > {out}/place.txt'"
    line = ("bids", home, tmp_path / "out", "participant", *engine, "--app", app)
    scratch = tmp_path / "job-$SLURM_ARRAY_TASK_ID"
    done = call(*line, "--work-tier", scratch)
    assert done.code == 0, done
    place = Path((tmp_path / "out" / "sub-1" / "place.txt").read_text().strip())
    assert place.parent.parent == tmp_path
    assert place.parent.name.removeprefix("job-").isdecimal()
    assert place.name.startswith("hyperslab-")
    assert not place.exists()
    refused = call(*line, "--work-tier", "scratch")
    assert (refused.code, "give the path that scratch has on each" in refused.err) == (2, True)


def test_jobs_of_containers_that_are_interrupted(
    podman: Podman, cluster: slurm.Slurm, home: Path, tmp_path: Path
) -> None:
    seconds = f"6{os.getpid()}"
    make(home, "asleep", content=seconds.encode())

    def asleep() -> int:
        found = psutil.process_iter(["cmdline"])
        return sum(one.info["cmdline"] == ["sleep", seconds] for one in found)

    with running(*line_of(home, tmp_path / "out", "participant")) as run:
        await_that("two containers", lambda: asleep() == 2 or run.has_ended)
        assert not run.has_ended, run.wait()
        run.send(signal.SIGINT)
        status, said = run.wait()
    assert status == 130, said
    await_that("the end of containers", lambda: not podman.containers() and not asleep())
