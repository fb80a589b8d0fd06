"""Runs whose jobs are Slurm's, and whose drivers are gone: left on purpose, or killed."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import hyperslab as hyperslab_
from hyperslab.driver import manage
from hyperslab.driver.continuing import Submitted
from hyperslab.driver.submission import load_records
from hyperslab.engines.slurm import commands, submitted
from hyperslab.report.progress import Quiet
from hyperslab.testing.functions import executions
from hyperslab.testing.holding import begun, hold, let_go
from tests.repetitions import few, repeats
from tests.system.clusters import slurm
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call, save
from tests.system.faults.command import (
    FUNCTIONS,
    PATIENCE_S,
    SHAPE,
    await_recorded,
    await_that,
    command,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    recorded,
    running,
)

TASKS = 4
PICKY = """
def picky(block):
    if block.min() == 2**16 - 1:
        raise ValueError("not to my liking")
    return block
"""
SUBMISSION = ".hyperslab/run-0001"
PLACE = ("--engine", "slurm", "--throttle", 2, "--slurm-option", "mem=512M")


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    required(slurm.missing())
    with slurm.in_reach(tmp_path_factory.mktemp("slurm")) as up:
        yield up


def job(tmp_path: Path, function: str, *more: object) -> tuple[object, ...]:
    where = (f"{FUNCTIONS}:{function}", tmp_path / "in.nii", "-o", tmp_path / "out")
    return ("run", *where, "--block-shape", "16,16,8", *PLACE, *more)


def counted(tmp_path: Path, *more: object) -> tuple[object, ...]:
    """A map that leaves a file per execution in tmp_path/runs."""
    (tmp_path / "runs").mkdir(exist_ok=True)
    params = ("-p", f"folder={tmp_path}/runs", "--keep", "volume")
    return job(tmp_path, "counted", *params, *more)


def on_this_host(tmp_path: Path) -> list[object]:
    """The same, by threads of ours."""
    there = [argument for argument in counted(tmp_path) if argument not in PLACE]
    return [*there, "--engine", "threads"]


def held(tmp_path: Path, *more: object) -> tuple[object, ...]:
    """The same, of which two jobs stay at their tasks when two have ended."""
    arguments = counted(tmp_path, *more)
    hold(tmp_path / "runs", TASKS // 2)
    return arguments


def in_the_queue(cluster: slurm.Slurm) -> str:
    return cluster.command("squeue", "--noheader", "--states=running,pending,completing").strip()


class Counting(Quiet):
    """Progress as a number of tasks that are left."""

    has_begun = False

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        self.has_begun = True
        self.left = tasks

    def advance(self, nbytes: int) -> None:
        self.left -= 1


def test_a_detached_run_outlives_its_shell(tmp_path: Path, cluster: slurm.Slurm) -> None:
    """Its last job submits again what has failed, and another one ends the run."""
    values = make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    bad = ("-p", "deed=raise", "-p", "at=0,0,8", "-p", f"once={tmp_path}/marker")
    line = command(*job(tmp_path, "misbehave", *bad, "--detach", "--keep", "volume"))
    cluster.command("scontrol", "update", "partitionname=all", "state=down")  # no job begins yet
    shell = subprocess.Popen(
        ["sh", "-c", 'status=1; "$@" && status=0; echo "status $status"; kill -9 0', "sh", *line],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said, _ = shell.communicate(timeout=PATIENCE_S)
    assert "status 0" in said
    assert f"hyperslab wait {out}" in said
    given = submitted.load(out / SUBMISSION)
    assert given is not None
    assert given.cluster == "loopback"
    with mock.patch.object(commands, "named", wraps=commands.named) as asked:
        told = call("status", out)
    assert asked.call_count == 1, "the queue is others', too"
    assert told.code == 0
    assert "state      running" in told.out
    assert "jobs       " in told.out
    cluster.command("scontrol", "update", "partitionname=all", "state=up")
    done = hyperslab("wait", out)
    assert done.returncode == 0, done
    assert f"{TASKS} of {TASKS} done" in done.stdout
    assert np.array_equal(load(out / "in.nii"), values)
    assert no_part_left(out)
    assert call("verify", out).code == 0
    records = load_records(out)
    assert records.state == "done"
    assert {s.task for s in records.trace.spans} == set(range(TASKS))
    assert {(s.task, s.attempt) for s in records.trace.spans if s.lost} == {(1, 0)}
    assert len(records.trace.slots) == 2
    meta = records.trace.meta
    assert meta["start_ns"] <= meta["ready_ns"] < meta["end_ns"]
    assert "--detach" in records.facts["command"]
    assert all(
        meta["start_ns"] <= s.start_ns <= s.end_ns <= meta["end_ns"] for s in records.trace.spans
    )
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")


def test_complete_files_of_a_detached_run_that_failed(tmp_path: Path) -> None:
    """Its last driver names them, and says in its log which are missing."""
    (tmp_path / "mine.py").write_text(PICKY)
    values = make_volume(tmp_path / "in" / "a.nii")
    save(tmp_path / "in" / "b.nii", np.full(SHAPE, 2**16 - 1, np.uint16))
    out = tmp_path / "out"
    where = (f"{tmp_path}/mine.py:picky", tmp_path / "in", "-o", out, "--keep", "volume")
    more = ("--retries", 0, "--no-trial", "--blocks", 1, "--detach")
    assert hyperslab("run", *where, *PLACE, *more).returncode == 0
    assert hyperslab("wait", out).returncode == 1
    log = (out / SUBMISSION / "driver.log").read_text()
    assert "1 of 2 files are written; missing: b.nii\n" in log
    assert np.array_equal(load(out / "a.nii"), values)
    assert not (out / "b.nii").exists()


def test_stages_of_a_detached_reduction_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions by value go with the run. The first driver still holds the directory when the next
    one begins, as one does that has got no answer about that job.
    """
    values = make_volume(tmp_path / "in.nii")
    submit_last = submitted._submit_last

    def answered_late(*given: Any) -> str:
        number = submit_last(*given)
        log = tmp_path / "out" / SUBMISSION / "driver.log"
        await_that("the next driver", lambda: log.exists() and log.stat().st_size)
        return number

    monkeypatch.setattr(submitted, "_submit_last", answered_late)
    factor = 0.5
    pipeline = hyperslab_.Pipeline(str(tmp_path / "in.nii")).map(lambda block: block * factor)
    left = hyperslab_.submit(
        pipeline.reduce("histogram", {"bins": 16}),
        out=tmp_path / "out",
        engine="slurm",
        throttle=2,
        slurm_option="mem=512M",
        blocks=2,
    )
    assert isinstance(left, Submitted)
    assert left.tasks == 4, "two of each stage"
    asked = manage.status
    counting = Counting()

    def told_late(out: Path) -> manage.Status:
        """What was so before the run went on."""
        now = asked(out)
        if not counting.has_begun:
            await_that("a further task", lambda: recorded(out) > now.done or now.done == 4)
        return now

    monkeypatch.setattr(manage, "status", told_late)
    ended = manage.wait(tmp_path / "out", counting)
    assert counting.left == 0, "progress comes to its end"
    assert ended.state == "done", (left.folder / "driver.log").read_text()
    counts, _ = np.histogram(values * factor, 16)
    rows = (tmp_path / "out" / "histogram.csv").read_text().splitlines()[1:]
    assert [int(row.rpartition(",")[2]) for row in rows] == counts.tolist()


def test_a_detached_run_is_cancelled_from_anywhere(tmp_path: Path, cluster: slurm.Slurm) -> None:
    values = make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    arguments = held(tmp_path)
    assert hyperslab(*arguments, "--detach").returncode == 0
    await_that("a task", lambda: recorded(out) >= 1)
    for busy in (call(*arguments, "--resume"), call("clean", out)):
        assert busy.code == 2
        assert "is in use by a run that was left to jobs" in busy.err
    gone = call("cancel", out)
    assert (gone.code, gone.err) == (0, "")
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")
    told = call("status", out)
    assert (told.code, "state      cancelled" in told.out) == (1, True)
    assert call("wait", out).code == 1
    let_go(tmp_path / "runs")
    before = sum(executions(tmp_path / "runs").values())
    left = recorded(out)
    done = hyperslab(*on_this_host(tmp_path), "--resume")
    assert done.returncode == 0, done
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert sum(executions(tmp_path / "runs").values()) - before <= TASKS - left


def test_a_detached_run_whose_jobs_are_gone_has_died(tmp_path: Path, cluster: slurm.Slurm) -> None:
    values = make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    assert hyperslab(*held(tmp_path), "--detach").returncode == 0
    await_that("a task", lambda: recorded(out) >= 1)
    cluster.command("scancel", "--user=root")
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")
    let_go(tmp_path / "runs")
    waited = call("wait", out)
    assert waited.code == 1
    assert "state      died" in waited.out
    assert f"because    the job that was to go on with it is gone without a word in {out}" in (
        waited.out
    )
    (out / SUBMISSION / "driver.log").write_text("so far so good\nbang\n")
    assert "go on with it has ended: bang (see " in call("status", out).out
    (begun,) = (path for path in out.iterdir() if path.name != ".hyperslab")
    begun.unlink()
    late = f"from hyperslab.driver.continuing import main; main({str(out)!r} + '/{SUBMISSION}')"
    last = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, check=False)
    assert last.returncode == 1
    assert "of the run wrote is gone, or was changed" in last.stderr
    done = hyperslab(*on_this_host(tmp_path), "--resume")
    assert done.returncode == 0, done
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_jobs_that_will_never_begin_are_not_waited_for(
    tmp_path: Path, cluster: slurm.Slurm
) -> None:
    make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    later = ("--slurm-option", "begin=now+1hour")
    assert hyperslab(*job(tmp_path, "add", "--detach", *later)).returncode == 0
    given = submitted.load(out / SUBMISSION)
    assert given is not None
    cluster.command("scontrol", "hold", *given.numbers)
    waited = call("wait", out)
    assert waited.code == 1
    assert f"none of its jobs will begin (JobHeldAdmin): 'hyperslab cancel {out}'" in waited.out
    assert call("cancel", out).code == 0
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")


def test_a_folder_that_jobs_do_not_see_is_told(tmp_path: Path) -> None:
    """Of a run that waits, and of one that is left to its jobs."""
    make_volume(tmp_path / "in.nii")
    unseen = tmp_path / "unseen"
    unseen.mkdir()
    line = ("run", "increment", tmp_path / "in.nii", *PLACE, "--blocks", "1", "-o")
    script = [
        f"mount -t tmpfs none {unseen} && cd {unseen}",
        shlex.join(command(*line, "waiting")),
        shlex.join(command(*line, "left", "--detach")),
        shlex.join(command("wait", "left")),
    ]
    told = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "; ".join(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert "jobs ended before their first task (FAILED on " in told.stderr
    assert "unless they do not see that folder: then choose an output" in told.stderr
    assert "state      died" in told.stdout
    assert "does not see that folder" in told.stdout


@repeats("jobs of a driver that is interrupted are given back: TestSlurm, of one that is cancelled")
def test_ctrl_c_gives_the_jobs_back(tmp_path: Path, cluster: slurm.Slurm) -> None:
    make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    with running(*held(tmp_path)) as driver:
        await_recorded(driver, out, 1)
        driver.send(signal.SIGINT)
        code, said = driver.wait()
    assert code == 130, said
    assert "Traceback" not in said
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")
    assert not (out / SUBMISSION / "jobs.json").exists()


GIVEN_BACK = "jobs are given back: by who goes on, and by who cancels, above"


@pytest.mark.parametrize("is_cancelled", few([False], [False, True], GIVEN_BACK))
def test_jobs_of_a_killed_driver_are_given_back(
    tmp_path: Path, cluster: slurm.Slurm, is_cancelled: bool
) -> None:
    """Whoever cancels the run, or goes on with it, ends them; what they have done is kept."""
    values = make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    with running(*held(tmp_path)) as driver:
        await_recorded(driver, out, 1)
        driver.send(signal.SIGKILL)
        assert driver.wait()[0] == -signal.SIGKILL
    assert in_the_queue(cluster) != ""
    if is_cancelled:
        assert call("cancel", out).code == 0
        await_that("the end of the jobs", lambda: in_the_queue(cluster) == "")
        assert "state      cancelled" in call("status", out).out
    left = recorded(out)
    before = sum(executions(tmp_path / "runs").values())
    let_go(tmp_path / "runs")
    done = hyperslab(*counted(tmp_path, "--resume"))
    assert done.returncode == 0, done
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    # those that were under way when the jobs were given back are done again
    assert sum(executions(tmp_path / "runs").values()) - before <= TASKS - left + 2
    assert call("verify", out).code == 0


def test_who_has_no_slurm_waits_and_cancels_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: slurm.Slurm
) -> None:
    make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    runs = tmp_path / "runs"
    arguments = counted(tmp_path)
    hold(runs, 0)
    assert hyperslab(*arguments, "--detach").returncode == 0
    await_that("two jobs at their tasks", lambda: begun(runs) == TASKS // 2)
    given = submitted.load(out / SUBMISSION)
    assert given is not None
    (number,) = given.numbers
    waiting = [f"{number}_{task}" for task in range(TASKS // 2, TASKS)]
    cluster.command("scontrol", "hold", *waiting)
    let_go(runs)
    await_that("two tasks", lambda: recorded(out) == TASKS // 2)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PATH", str(tmp_path))
        told = call("status", out)
        assert "jobs       Slurm cannot be asked here: there is no squeue here" in told.out
        assert told.code == 0
        assert call("cancel", out).code == 0
    cluster.command("scontrol", "release", *waiting)
    await_that("an empty queue", lambda: in_the_queue(cluster) == "")
    assert recorded(out) == TASKS // 2, "jobs that begin now find the run ended"
    assert call("status", out).code == 1
