"""Jobs, GNU Parallel, hosts and drivers that die: a result, or a reason, and no orphan."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.plan.journal import Tail
from hyperslab.testing.holding import begun, hold, let_go
from tests.repetitions import repeats
from tests.system.clusters import sshd
from tests.system.clusters.processes import line
from tests.system.clusters.required import required
from tests.system.faults.command import (
    Running,
    await_gone,
    await_recorded,
    await_that,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    running,
)
from tests.system.faults.resumption import job, killed_and_resumed, stopped_and_resumed

ENGINE = "gnu-parallel"
PYTHON = "hyperslab.engines.batches.launcher"
SCRIPT = ".pickle.sh"
PERL = "/parallel --profile"
VOLUME = ("--keep", "volume")


@pytest.fixture(autouse=True)
def _enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("parallel") is None:
        required("there is no GNU Parallel here: install the Debian package parallel")
    monkeypatch.setenv("PARALLEL_HOME", str(tmp_path / "parallel"))


@contextmanager
def host(tmp_path: Path) -> Iterator[sshd.Hosts]:
    required(sshd.missing())
    with sshd.hosts(tmp_path / "ssh", ["node"]) as found:
        yield found


def the(run: Running, words: str) -> psutil.Process:
    """The first process of a run with these words in its command line, once it is there."""

    def find() -> list[psutil.Process]:
        return [process for process in run.workers() if words in line(process)]

    await_that(words, find)
    return find()[0]


def at_a_task(run: Running, out: Path) -> psutil.Process:
    """The script of a job that has begun a task, once there is one."""

    def find() -> list[psutil.Process]:
        scripts = [process for process in run.workers() if SCRIPT in line(process)]
        return [script for script in scripts if marks(out, line(script).split(" ")[2])]

    await_that("a job at a task", find)
    return find()[0]


def marks(out: Path, number: str) -> list[Path]:
    """The mark of the batch of this number, if it has begun a task."""
    found = out.glob(f".hyperslab/run-0001/running/*/*.b{number}")
    return [path for path in found if path.stat().st_size]


def test_killed_jobs(tmp_path: Path) -> None:
    """The process that runs tasks, then all of a job: its task has failed once, and is done."""
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    once = ("--workers", 1, "--retries", 3)
    arguments = job(tmp_path, ENGINE, "counted", *VOLUME, *once, seconds=0.1)
    runs = tmp_path / "runs"
    gone_on = hold(runs, 0)
    with running(*arguments) as run:
        await_that("a task", lambda: begun(runs) > gone_on)
        at_a_task(run, out).children()[0].kill()
        hold(runs, 8)
        await_recorded(run, out, 8)
        gone_on = hold(runs, 0)
        await_that("another task", lambda: begun(runs) > gone_on)
        os.killpg(at_a_task(run, out).pid, signal.SIGKILL)
        let_go(runs)
        code, said = run.wait()
    assert code == 0, said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert no_part_left(out)
    assert hyperslab("verify", out).returncode == 0
    lost = [o.failure for o in Tail(out / ".hyperslab" / "run-0001").poll() if o.status == "lost"]
    assert len(lost) == 2
    for failure in lost:
        assert failure is not None
        assert "was killed by SIGKILL (kill -9" in failure.message
        assert failure.message.endswith("in the middle of the task")


@repeats("a driver that dies leaves no process: on other hosts, and on this one test_driver.py")
def test_a_killed_driver_leaves_a_resumable_run_and_no_process(tmp_path: Path) -> None:
    lines = killed_and_resumed(tmp_path, ENGINE)
    assert {PERL in line for line in lines} == {True, False}


def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    arguments = job(tmp_path, ENGINE, "counted", *VOLUME)
    hold(tmp_path / "runs")
    with running(*arguments) as run:
        await_recorded(run, tmp_path / "out", 4)
        left = run.workers()
        os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does
        code, said = run.wait()
        await_gone(left)
    assert code == 130, said
    assert "Traceback" not in said


def test_a_killed_gnu_parallel_stops_the_run(tmp_path: Path) -> None:
    left: list[psutil.Process] = []

    def kill(run: Running) -> None:
        left.extend(run.workers())
        the(run, PERL).kill()

    said = "GNU Parallel was killed by SIGKILL"
    stopped_and_resumed(tmp_path, ENGINE, (), kill, said)
    await_gone(left)


def test_a_killed_keeper_stops_the_run(tmp_path: Path) -> None:
    def kill(run: Running) -> None:
        left = the(run, PERL)
        the(run, "keeper.py").kill()
        await_gone([left])

    said = "GNU Parallel was killed by SIGKILL"
    stopped_and_resumed(tmp_path, ENGINE, (), kill, said)


def test_a_killed_driver_ends_its_jobs_on_other_hosts(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    place = ("--connect", "ssh:2/node")
    arguments = job(tmp_path, ENGINE, "counted", *VOLUME, *place)
    runs = tmp_path / "runs"
    hold(runs, 1)
    with host(tmp_path) as there, running(*arguments, environment=there.environment) as run:
        await_recorded(run, tmp_path / "out", 1)
        gone_on = hold(runs, 0)
        await_that("two jobs at a task", lambda: begun(runs) == gone_on + 2)
        left = [p for p in there.household.left() if PYTHON in line(p)]
        assert len(left) >= 2
        run.send(signal.SIGKILL)
        run.wait()
        await_gone(left)


@repeats("hosts that answer no more stop a run: engines/test_gnu_parallel.py, of a silent one")
def test_a_host_that_is_lost_stops_the_run(tmp_path: Path) -> None:
    with host(tmp_path) as there:
        place = ("--connect", "ssh:2/node")
        said = "no host of ssh:2/node answers any more"
        stopped_and_resumed(
            tmp_path, ENGINE, place, lambda _: there.vanish(), said, there.environment
        )
