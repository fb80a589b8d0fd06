"""A worker that is started ahead is a run's first one, or nobody's."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab import engines
from hyperslab.driver.result import Result
from hyperslab.engines.pool import ahead
from hyperslab.machine.host import Host
from tests.loaded import pid

ENDING_LIMIT_MS = 200_000
CPUS = engines.slot_cpus(Host.here(), 1, 1)
"Processors of the one slot that these runs have."
WAITING = """
import os, signal
from hyperslab.engines.pool import ahead
with ahead.waiting(1):
    print(ahead._waiting[0].process.pid, flush=True)
    signal.pause()
"""
NOT_THERE = "/not/there.so"


def _run(out: Path) -> Result:
    pipeline = hyperslab.Pipeline(np.ones((2, 8))).reduce(hyperslab.Fold(pid, set.union))
    return hyperslab.run(pipeline, blocks=1, workers=1, out=out, report=False)


def test_a_run_takes_the_worker_that_waits_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", NOT_THERE)  # of which the worker complains as it starts
    with ahead.waiting(CPUS):
        (waiting,) = ahead._waiting
        first = _run(tmp_path / "first")
        second = _run(tmp_path / "second")
    assert first.value == {waiting.process.pid}
    assert waiting.process.returncode is not None
    assert second.value != first.value
    for run in (first, second):
        log = (run.folder / "worker.log").read_text()
        assert (log.count(NOT_THERE), log.count("said by a function")) == (1, 1)


def test_a_worker_of_another_environment_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ahead.waiting(CPUS):
        (waiting,) = ahead._waiting
        monkeypatch.setenv("HYPERSLAB_AHEAD", "no")
        assert _run(tmp_path).value != {waiting.process.pid}
        assert waiting.process.returncode is not None


def test_a_worker_that_has_died_is_not_taken(tmp_path: Path) -> None:
    with ahead.waiting(CPUS):
        (waiting,) = ahead._waiting
        waiting.process.kill()
        waiting.process.wait()
        assert _run(tmp_path).value != {waiting.process.pid}


def test_a_worker_that_no_run_has_taken_ends_with_the_block() -> None:
    with ahead.waiting(CPUS):
        (waiting,) = ahead._waiting
    assert waiting.process.returncode is not None
    assert waiting.connection.closed


def test_a_worker_ends_whose_driver_was_killed_before_its_run() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        worker = os.pidfd_open(int(driver.stdout.readline()))
        driver.kill()
    ended = select.poll()
    ended.register(worker, select.POLLIN)
    assert ended.poll(ENDING_LIMIT_MS)
    os.close(worker)


def test_a_process_that_is_forked_leaves_the_worker_alone(tmp_path: Path) -> None:
    with ahead.waiting(CPUS):
        (waiting,) = ahead._waiting
        child = os.fork()
        if not child:
            os._exit(len(ahead._waiting))
        assert os.waitpid(child, 0)[1] == 0
        assert _run(tmp_path).value == {waiting.process.pid}
