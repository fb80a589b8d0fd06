"""The processes engine keeps the contract of engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.engines.environment import OOM_SCORE, program
from hyperslab.engines.pool import processes, worker_process
from hyperslab.engines.pool.worker_process import START_LIMIT_S, WorkerProcess
from hyperslab.testing import EngineTests
from tests.engines.chosen import BLOCKS, OWN
from tests.engines.images import IMAGES
from tests.repetitions import only

SCORE = Path("/proc/self/oom_score_adj")


@only(
    set(OWN)
    - {
        "test_a_bad_block_fails_alone",
        "test_a_resumed_run_repeats_only_what_is_missing[ctrl-c-map]",
    }
)  # which the real command shows: faults/test_workers.py, test_failures.py and test_driver.py
class TestProcesses(EngineTests):
    engine, images, stops_late_tasks = "processes", IMAGES, True


@only(BLOCKS[1:])
class TestProcessesWithThreads(EngineTests):
    engine, slots, stops_late_tasks = "processes", (2, 2), True


def test_workers_are_ended_before_the_driver_when_memory_is_short() -> None:
    before = SCORE.read_text()
    ask = hyperslab.Fold(lambda block: {int(SCORE.read_text())}, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((2, 8))).reduce(ask)
    assert hyperslab.run(pipeline, rule=hyperslab.Rule("blocks", (2,))).value == {
        max(int(before), OOM_SCORE)
    }
    assert SCORE.read_text() == before


def test_a_worker_collects_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "import gc\nloading = gc.isenabled()\n"
    (tmp_path / "asked.py").write_text(
        module + "def main(word):\n    print(word, loading, gc.isenabled())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = program("asked", ["said"])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "said False True\n"


def test_no_worker_is_started_that_would_have_no_task() -> None:
    pids = hyperslab.Fold(lambda block: {os.getpid()}, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((2, 8))).reduce(pids)
    own = WorkerProcess.__init__
    with mock.patch.object(WorkerProcess, "__init__", autospec=True, side_effect=own) as started:
        result = hyperslab.run(pipeline, blocks=2, workers=4)
    assert started.call_count == 2
    assert len(result.trace.slots) == 4
    assert len(result.value) in (1, 2)


def test_tasks_do_not_wait_for_a_worker_that_takes_long_to_start() -> None:
    own = WorkerProcess.__init__

    def stopped(worker: WorkerProcess, number: int, *rest: Any) -> None:
        own(worker, number, *rest)
        if number == 1:
            worker.process.send_signal(signal.SIGSTOP)

    pids = hyperslab.Fold(lambda block: {os.getpid()}, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((6, 8))).reduce(pids)
    with mock.patch.object(WorkerProcess, "__init__", stopped):
        result = hyperslab.run(pipeline, blocks=6, workers=2)
    assert len(result.value) == 1


def test_workers_that_die_as_they_start_are_no_matter_where_one_works() -> None:
    """One of them each time, and whoever takes the place of the first of them starts late."""
    own = WorkerProcess.__init__
    born: list[WorkerProcess] = []

    def killed(worker: WorkerProcess, number: int, *rest: Any) -> None:
        own(worker, number, *rest)
        born.append(worker)
        if 1 < len(born) <= 1 + processes.MOST_FUTILE + 1:
            worker.process.kill()
        elif number:
            worker.process.send_signal(signal.SIGSTOP)

    def work(block: Array) -> set[int]:
        time.sleep(0.1)
        return {os.getpid()}

    pids = hyperslab.Fold(work, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((8, 8))).reduce(pids)
    with mock.patch.object(WorkerProcess, "__init__", killed):
        result = hyperslab.run(pipeline, blocks=8, workers=processes.MOST_FUTILE + 2, trial=False)
    assert len(result.value) == 1
    assert len(born) > processes.MOST_FUTILE + 2, "dead ones have others in their place"


def test_a_worker_that_starts_late_takes_its_share(tmp_path: Path) -> None:
    """The first one holds its task until the second has one, too."""

    def meet(block: Array) -> set[int]:
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        return {os.getpid()}

    pipeline = hyperslab.Pipeline(np.ones((2, 8))).reduce(hyperslab.Fold(meet, lambda a, b: a | b))
    assert len(hyperslab.run(pipeline, blocks=2, workers=2, trial=False).value) == 2


def test_the_end_of_a_run_does_not_wait_for_workers_that_have_ended() -> None:
    waited: list[float] = []
    poll = Connection.poll

    def noted(connection: Connection, timeout: float = 0.0) -> bool:
        waited.append(timeout)
        return poll(connection, timeout)

    with mock.patch.object(Connection, "poll", noted):
        fold = hyperslab.Fold(len, lambda a, b: a + b)
        run = hyperslab.run(hyperslab.Pipeline(np.ones((2, 8))).reduce(fold), blocks=2, workers=2)
    assert run.value == 2
    assert set(waited) == {0.0, START_LIMIT_S}


def test_tasks_that_are_all_too_late_are_tried_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers that are stopped for them have begun something, and are not said to be killed."""
    monkeypatch.setattr(processes, "MOST_FUTILE", 2)
    tasks = processes.MOST_FUTILE + 2

    def sleep(block: Array) -> Array:
        time.sleep(600)
        return block

    pipeline = hyperslab.Pipeline(np.ones((tasks, 8))).map(sleep).reduce("stats")
    result = hyperslab.run(
        pipeline,
        rule=hyperslab.Rule("blocks", (tasks,)),
        workers=1,
        retries=0,
        task_timeout=0.2,
        check=False,
        fail_fast=False,
        trial=False,
    )
    said = [failure.message for failure in result.failures]
    assert len(said) == tasks
    assert all("the task ran longer than task_timeout=0.2 s" in one for one in said), said


def test_a_worker_imports_no_masked_arrays_to_look_for_them() -> None:
    has_them = hyperslab.Fold(lambda block: {"numpy.ma" in sys.modules}, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((2, 8))).map(lambda block: block + 1).reduce(has_them)
    assert hyperslab.run(pipeline).value == {False}


def test_a_worker_that_hangs_as_it_starts_does_not_end_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its limit has passed when the only one that works dies, and another takes the place of this
    one.
    """
    monkeypatch.setattr(worker_process, "START_LIMIT_S", 3.0)
    own = WorkerProcess.__init__

    def stopped(worker: WorkerProcess, number: int, *rest: Any) -> None:
        own(worker, number, *rest)
        if number == 1:
            worker.process.send_signal(signal.SIGSTOP)

    lost: list[float] = []
    began = time.monotonic()
    listen = WorkerProcess.listen

    def killed_once(worker: WorkerProcess) -> bool:
        if not lost and worker.running and time.monotonic() - began > 4:
            lost.append(time.monotonic())
            worker.process.kill()
        return listen(worker)

    def work(block: Array) -> int:
        time.sleep(0.5)
        return int(block.size)

    pipeline = hyperslab.Pipeline(np.ones((12, 8))).reduce(hyperslab.Fold(work, lambda a, b: a + b))
    with (
        mock.patch.object(WorkerProcess, "__init__", stopped),
        mock.patch.object(WorkerProcess, "listen", killed_once),
    ):
        result = hyperslab.run(pipeline, blocks=12, workers=2, retries=2, trial=False)
    assert lost
    assert result.value == 96
