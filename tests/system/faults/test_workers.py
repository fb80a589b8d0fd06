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

from tests.repetitions import few
from tests.system.faults.command import (
    FUNCTIONS,
    Running,
    assert_failed_alone,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    running,
)

BY_DEED = {
    "leave": "exited with code 7 in the middle of the task",
    "fork": "exited with code 7 in the middle of the task",
    "die": "killed by SIGKILL (kill -9, or the kernel's out-of-memory killer)",
    "crash": "killed by SIGSEGV",
    "hang": "ran longer than --task-timeout 3 s",
    "raise": "ValueError: this block is not to my liking",
    "exit": "the function called sys.exit(3)",
    "shape": "misbehave returned a block of shape (1, 16, 1), not (16, 16, 1)",
    "dtype": "misbehave returned complex64, not uint16",
}
PLAYED = ("fork", "die", "hang")
"What a worker dies of, and how it does not end; `serial` plays the deeds of Python in EngineTests."


MOST_KILLS = 4


def kill_at_random(run: Running, seed: int) -> int:
    """Kill a worker again and again, at random moments, until the run has ended; how many were
    hit.
    """
    chance, killed = random.Random(seed), 0
    while not run.has_ended:
        time.sleep(chance.uniform(0.05, 0.4))
        workers = run.workers()
        if workers and killed < MOST_KILLS:
            with contextlib.suppress(psutil.NoSuchProcess):
                chance.choice(workers).kill()
                killed += 1
    return killed


def test_killed_workers_of_a_map(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = (
        "run",
        f"{FUNCTIONS}:add",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        "seconds=0.1",
        "--keep",
        "volume",
    )
    with running(*arguments, "--partition", "slabs", "--retries", 20, "--workers", 2) as run:
        killed = kill_at_random(run, seed=0)
        code, said = run.wait()
    assert code == 0, said
    assert killed >= 2
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert hyperslab("verify", out).returncode == 0
    assert no_part_left(out)


ATTEMPTS = "killed workers cost attempts: with threads, and of a map without"


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
    with running(*arguments, *options) as run:
        killed = kill_at_random(run, seed=threads)
        code, said = run.wait()
    assert code == 0, said
    assert killed >= 2
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
    limit_s = 3 if deed == "hang" else 60
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
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = (
        "run",
        f"{FUNCTIONS}:add",
        tmp_path / "in.nii",
        "-o",
        out,
        "-p",
        "seconds=0.1",
        "--keep",
        "volume",
    )
    with running(*arguments, "--partition", "slabs", "--retries", 1) as run:
        await_recorded(run, out, 4)
        time.sleep(0.05)  # those that have just recorded a task are in the middle of another
        workers = run.workers()
        assert len(workers) == 2
        for worker in workers:
            worker.kill()
        code, said = run.wait()
    assert code == 0, said
    assert "killed by SIGKILL" in said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
