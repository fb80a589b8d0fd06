"""Workers that die or hang, whoever is to blame: the result is exact, or the block at fault fails
with the reason.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.testing.holding import begun, hold, let_go
from tests.repetitions import few, repeats
from tests.system.faults.command import (
    FUNCTIONS,
    Running,
    assert_failed_alone,
    await_that,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    running,
)

LATE_S = 8
"Longer than a task takes that returns a block at once, whatever else its machine does."
BY_DEED = {
    "leave": "exited with code 7 in the middle of the task",
    "fork": "exited with code 7 in the middle of the task",
    "die": "killed by SIGKILL (kill -9, or the kernel's out-of-memory killer)",
    "crash": "killed by SIGSEGV",
    "hang": f"ran longer than --task-timeout {LATE_S} s",
    "raise": "ValueError: this block is not to my liking",
    "exit": "the function called sys.exit(3)",
    "shape": "misbehave returned a block of shape (1, 16, 1), not (16, 16, 1)",
    "dtype": "misbehave returned complex64, not uint16",
}
PLAYED = ("fork",)
"""What a worker dies of; in EngineTests `serial` plays the deeds of Python, and `processes` one
that hangs.
"""


KILLS = 2


def kill_at_random(run: Running, runs: Path, seed: int) -> None:
    """Kill a worker again and again, at random moments of a run that goes on for as long as that
    takes.
    """
    chance, killed = random.Random(seed), 0
    while killed < KILLS:
        assert not run.has_ended, run.wait()
        time.sleep(chance.uniform(0.05, 0.4))
        workers = run.workers()
        if workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                chance.choice(workers).kill()
                killed += 1
    let_go(runs)


def test_killed_workers_of_a_map(tmp_path: Path) -> None:
    values, out, runs = make_volume(tmp_path / "in.nii"), tmp_path / "out", tmp_path / "runs"
    runs.mkdir()
    arguments = (
        "run",
        f"{FUNCTIONS}:counted",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        f"folder={runs}",
        "-p",
        "seconds=0.1",
        "--keep",
        "volume",
    )
    hold(runs)
    with running(*arguments, "--partition", "slabs", "--retries", 20, "--workers", 2) as run:
        kill_at_random(run, runs, seed=0)
        code, said = run.wait()
    assert code == 0, said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert hyperslab("verify", out).returncode == 0
    assert no_part_left(out)


ATTEMPTS = "killed workers cost attempts: with threads, and of a map without"


@repeats("workers that are killed cost attempts: of a map, above; merges: engines/test_twice.py")
@pytest.mark.parametrize("threads", few([2], [1, 2], ATTEMPTS))
def test_killed_workers_of_a_reduction(tmp_path: Path, threads: int) -> None:
    values, out, runs = make_volume(tmp_path / "in.nii"), tmp_path / "out", tmp_path / "runs"
    runs.mkdir()
    arguments = (
        "run",
        f"{FUNCTIONS}:COUNTED_TOTAL",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        f"folder={runs}",
    )
    options = (
        "-p",
        "seconds=0.1",
        "--partition",
        "slabs",
        "--retries",
        20,
        "--workers",
        2,
        "--threads",
        threads,
    )
    hold(runs)
    with running(*arguments, *options) as run:
        kill_at_random(run, runs, seed=threads)
        code, said = run.wait()
    assert code == 0, said
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))


@pytest.mark.parametrize("deed", few(PLAYED, BY_DEED, "a bad block fails alone"))
def test_a_bad_block_fails_and_the_others_finish(tmp_path: Path, deed: str) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = (
        "run",
        f"{FUNCTIONS}:misbehave",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        f"deed={deed}",
        "-p",
        "at=0,0,5",
    )
    limit_s = LATE_S if deed == "hang" else 100
    done = hyperslab(
        *arguments, "--partition", "slabs", "--retries", 0, "--task-timeout", limit_s,
        "--workers", 2,
    )  # fmt: skip
    assert done.returncode == 1
    assert_failed_alone(done, tmp_path / "in.nii", out, values, BY_DEED[deed])


def test_a_worker_that_dies_once_is_forgiven(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    bad = ("-p", "deed=die", "-p", "at=0,0,5", "-p", f"once={tmp_path}/marker")
    done = hyperslab(
        "run",
        f"{FUNCTIONS}:misbehave",
        tmp_path / "in.nii",
        "-o",
        out,
        *bad,
        "--partition",
        "slabs",
        "--keep",
        "volume",
    )
    assert done.returncode == 0, done.stderr
    assert "(it will be tried again)" in done.stderr
    assert np.array_equal(load(out / "in.nii"), values)


@repeats("workers that die as they start have others in their place: engines/test_processes.py")
def test_workers_killed_as_they_start(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = (
        "run",
        f"{FUNCTIONS}:add",
        tmp_path / "in.nii",
        "-o",
        out,
        "--keep",
        "volume",
        "--blocks",
        4,
        "--retries",
        3,  # they may have begun a task each time
    )
    with running(*arguments, "-p", "seconds=0.2") as run:
        for _ in range(3):
            while not run.workers() and not run.has_ended:
                time.sleep(0.001)
            for worker in run.workers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
        code, said = run.wait()
    assert code == 0, said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_all_workers_killed_at_once(tmp_path: Path) -> None:
    values, out, runs = make_volume(tmp_path / "in.nii"), tmp_path / "out", tmp_path / "runs"
    runs.mkdir()
    arguments = (
        "run",
        f"{FUNCTIONS}:counted",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        f"folder={runs}",
        "--keep",
        "volume",
    )
    gone_on = hold(runs, 4)
    with running(*arguments, "--partition", "slabs", "--retries", 1, "--workers", 2) as run:
        await_that("both in the middle of a task", lambda: begun(runs) == gone_on + 2)
        workers = run.workers()
        assert len(workers) == 2
        for worker in workers:
            worker.kill()
        let_go(runs)
        code, said = run.wait()
    assert code == 0, said
    assert "killed by SIGKILL" in said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
