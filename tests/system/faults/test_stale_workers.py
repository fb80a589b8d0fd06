"""Workers that outlive their run, or might: what a later run has made stays as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.driver import directory
from tests.repetitions import repeats
from tests.system.clusters import dask
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call
from tests.system.faults.command import (
    await_gone,
    await_recorded,
    await_that,
    hyperslab,
    load,
    make_volume,
    running,
)

STUCK = """
import ctypes, os, subprocess, time
from pathlib import Path

def stuck(block, slab, folder):
    "Adds the number in `folder`/k; is stuck once at slab 3 while the folder lacks a file 'go'."
    k = int(Path(folder, "k").read_text())
    if slab.start[2] == 3 and not Path(folder, "stuck").exists():
        Path(folder, "stuck").write_text(str(os.getpid()))
        {how}
    return block + block.dtype.type(k)
"""
WAITS = "while not Path(folder, 'go').exists(): time.sleep(0.01)"
HOLDS_THE_LOCK = """Path(folder, "tool").write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
        ctypes.PyDLL(None).sleep(1000)"""


def job(tmp_path: Path, how: str, *more: object) -> tuple[object, ...]:
    module = f"stuck_{tmp_path.name}"  # one that this process has not imported for another test
    (tmp_path / f"{module}.py").write_text(STUCK.format(how=how))
    (tmp_path / "runs").mkdir(exist_ok=True)
    (tmp_path / "runs" / "k").write_text("1")
    where = (f"{tmp_path}/{module}.py:stuck", tmp_path / "in.nii", "-o", tmp_path / "out")
    return (
        "run",
        *where,
        "-p",
        f"folder={tmp_path}/runs",
        "--partition",
        "slabs",
        "--keep",
        "volume",
        *more,
    )


def is_stuck(tmp_path: Path) -> bool:
    path = tmp_path / "runs" / "stuck"
    return path.exists() and path.read_text() != ""


def owner(tmp_path: Path) -> str:
    return (tmp_path / "out" / ".hyperslab" / "lock").read_text()


STUCK_ON = [
    pytest.param(
        "processes",
        False,
        id="holds-the-lock",
        marks=repeats("a worker that holds the lock ends: one that was stopped"),
    ),
    pytest.param("processes", True, id="stopped"),
    pytest.param(
        "gnu-parallel",
        True,
        id="stopped-job",
        marks=repeats("a worker that was stopped ends: of processes"),
    ),
]


@pytest.mark.parametrize(("engine", "is_stopped"), STUCK_ON)
def test_no_worker_outlives_its_driver(tmp_path: Path, engine: str, is_stopped: bool) -> None:
    """Not one that holds the interpreter's lock in C, nor one that was stopped, nor the tools that
    it has started.
    """
    values = make_volume(tmp_path / "in.nii")
    arguments = job(tmp_path, HOLDS_THE_LOCK, "--workers", 2, "--engine", engine)
    with running(*arguments) as run:
        await_that(
            "a worker is stuck",
            lambda: is_stuck(tmp_path) and (tmp_path / "runs" / "tool").exists(),
        )
        pid = int((tmp_path / "runs" / "stuck").read_text())
        left = [*run.workers(), psutil.Process(pid)]
        assert {process.name() for process in left} >= {"sleep"}
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        run.send(signal.SIGKILL)
        assert run.wait()[0] == -signal.SIGKILL
        await_gone(left)  # long before they end by themselves
    done = hyperslab(*arguments, "--resume", "--quiet")
    assert done.returncode == 0, done
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))


@pytest.mark.parametrize("engine", ["dask-bag"])
def test_a_resumed_run_waits_for_workers_of_a_cluster(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of somebody's cluster is at a task of a killed driver, and would write what is no
    longer right.
    """
    required(dask.missing())
    values, runs = make_volume(tmp_path / "in.nii"), tmp_path / "runs"
    arguments = job(tmp_path, WAITS)
    with dask.dask_cluster(tmp_path / "cluster", workers=1, nanny=False) as cluster:
        with running(*arguments, "--engine", engine, "--connect", cluster.address) as run:
            await_that("a worker is stuck", lambda: is_stuck(tmp_path))
            await_recorded(run, tmp_path / "out", 1)
            run.send(signal.SIGKILL)
            run.wait()
        monkeypatch.setattr(directory, "LEAVE_LIMIT_S", 0.5)
        refused = call("clean", "--all", tmp_path / "out")
        assert refused.code == 2, refused
        assert "still running tasks of an earlier run" in refused.err
        assert (runs / "stuck").read_text() in refused.err, "the worker is not named"
        (runs / "k").write_text("2")
        with running(*arguments, "--resume", "--engine", "threads", "--threads", 2) as run:
            assert run.process.stderr is not None
            waiting = f"waiting for worker {(runs / 'stuck').read_text()} on"
            said = next((line for line in run.process.stderr if waiting in line), "")
            assert f"pid {run.process.pid} " in owner(tmp_path)
            (runs / "go").touch()
            code, more = run.wait()
        assert code == 0, more
        assert said, more
        found = load(tmp_path / "out" / "in.nii")
        time.sleep(0.5)
        assert np.array_equal(load(tmp_path / "out" / "in.nii"), found)
        assert set(np.unique(found - values)) <= {1, 2}
        assert np.array_equal(found[:, :, 3], values[:, :, 3] + np.uint16(2)), (
            "the worker that was late has written"
        )
    assert call("verify", tmp_path / "out").code == 0


def test_a_thread_that_a_stopped_run_left_writes_nothing(tmp_path: Path) -> None:
    """A notebook goes on, in the same process, with a run that was stopped while a function did not
    return.
    """
    script = """
import functools, importlib, signal, sys, threading, time
from pathlib import Path
import hyperslab

stuck = importlib.import_module(f"stuck_{Path.cwd().name}").stuck

folder = Path(sys.argv[1])
def run(**more):
    function = functools.partial(stuck, folder=str(folder / "runs"))
    pipeline = hyperslab.Pipeline(folder / "in.nii").map(function).write(folder / "out")
    options = dict(engine="threads", workers=1, threads=2, rule=hyperslab.Rule("slabs"))
    return hyperslab.run(pipeline, **options, **more)

def interrupt():
    while not (folder / "runs" / "stuck").exists():
        time.sleep(0.01)
    signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests run
threading.Thread(target=interrupt, daemon=True).start()
try:
    run()
except KeyboardInterrupt:
    print("interrupted")
(folder / "runs" / "k").write_text("2")
threading.Timer(1, (folder / "runs" / "go").touch).start()
print(run(resume=True).state)
time.sleep(0.5)
"""
    values = make_volume(tmp_path / "in.nii")
    job(tmp_path, WAITS)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["interrupted", "done"]), done.stderr
    found = load(tmp_path / "out" / "in_00_00_03.nii")
    assert np.array_equal(found, values[:, :, 3:4] + np.uint16(2))
