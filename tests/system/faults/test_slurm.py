"""Jobs of Slurm that end before their tasks: each is named, and its tasks are done again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hyperslab.engines.slurm import submitted
from hyperslab.plan.journal import Tail
from hyperslab.trace import Slot
from tests.repetitions import few
from tests.system.clusters import slurm
from tests.system.clusters.processes import ClusterFailed
from tests.system.clusters.required import required
from tests.system.faults.command import await_that, hyperslab, load, make_volume, running

TASKS = 4
BLOCK = 8
"Planes of a task."
MEMORY = "mem=400M"
SUBMISSION = ".hyperslab/run-0001"
HOW = re.compile(r"that served \S+ (.+) in the middle of the task")
FUNCTIONS = """
import os, pathlib, time
import numpy as np

def once(folder, slab):
    "Whether a block is at its first attempt in a job; the driver tries the function, too."
    if "SLURM_JOB_ID" not in os.environ:
        return False
    mark = pathlib.Path(folder, f"{slab.start[2]}")
    is_first = not mark.exists()
    mark.touch()
    return is_first

def hang(block, slab, folder):
    if once(folder, slab):
        time.sleep(600)
    return block + block.dtype.type(1)

def eat(block, slab, folder):
    if once(folder, slab) and slab.start[2] == 8:
        eaten = np.ones(2**30, np.uint8)
        time.sleep(600)
    return block + block.dtype.type(1)
"""


def job(tmp_path: Path, function: str) -> tuple[object, ...]:
    """A run of four jobs at a time, with a task each, which leaves a file for each block."""
    (tmp_path / "own.py").write_text(FUNCTIONS)
    (tmp_path / "begun").mkdir()
    place = (tmp_path / "in.nii", "-o", tmp_path / "out", "--block-shape", f"16,16,{BLOCK}")
    jobs = ("--engine", "slurm", "--throttle", TASKS, "--slurm-option", MEMORY)
    more = ("-p", f"folder={tmp_path}/begun", "--keep", "volume", "--retries", 1)
    return ("run", f"{tmp_path}/own.py:{function}", *place, *jobs, *more)


def the_array(tmp_path: Path) -> str:
    """The number of the jobs' array, once all of them are at their tasks."""
    begun = tmp_path / "begun"
    await_that("four tasks under way", lambda: len(list(begun.iterdir())) == TASKS)
    given = submitted.load(tmp_path / "out" / SUBMISSION)
    assert given is not None
    (number,) = given.numbers
    return number


def state(cluster: slurm.Slurm, element: str) -> str:
    """What Slurm says of a job."""
    line = ("squeue", "--noheader", "--array", "--states=all", "--format=%T", f"--jobs={element}")
    return cluster.command(*line).strip()


def lost(tmp_path: Path) -> dict[int, str]:
    """How the process of every task that was lost ended."""
    outcomes = Tail(tmp_path / "out" / SUBMISSION).poll()
    said = {o.task: o.failure.message for o in outcomes if o.failure is not None}
    return {task: HOW.findall(message)[0] for task, message in said.items()}


def test_jobs_without_time_or_place_are_named_and_their_tasks_done_again(tmp_path: Path) -> None:
    """Of four jobs that hang one is put back into the queue, as an administrator can, one runs out
    of time, and others need the places of the rest.
    """
    required(slurm.missing())
    values = make_volume(tmp_path / "in.nii")
    requeued = {"SBATCH_REQUEUE": "1"}
    with (
        slurm.in_reach(tmp_path / "slurm") as cluster,
        running(*job(tmp_path, "hang"), environment=requeued) as run,
    ):
        array = the_array(tmp_path)
        cluster.command("scontrol", "update", f"jobid={array}_1", "endtime=now+1")
        with pytest.raises(ClusterFailed, match="Requested operation is presently disabled"):
            cluster.command("scontrol", "requeue", f"{array}_0")
        cluster.command("scontrol", "update", f"jobid={array}_0", "requeue=1")
        cluster.command("scontrol", "requeue", f"{array}_0")
        await_that("the end of its time", lambda: state(cluster, f"{array}_1") == "TIMEOUT")
        await_that("a second start", lambda: state(cluster, f"{array}_0") == "COMPLETED")
        urgent = ("--exclusive", "--mem=100", "--output=/dev/null", "--wrap=true")
        cluster.command("sbatch", f"--partition={slurm.URGENT}", *urgent)
        code, said = run.wait()
    assert code == 0, said
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))
    assert lost(tmp_path) == {
        0: f"died (Slurm job {array}_0 was put back into the queue)",
        1: f"died (Slurm job {array}_1 ran out of time; --slurm-option time=... gives more)",
        2: f"died (Slurm job {array}_2 was pre-empted)",
        3: f"died (Slurm job {array}_3 was pre-empted)",
    }


WHY = {
    slurm.BY_KERNEL: "ran out of memory; --slurm-option mem=... gives more",
    slurm.BY_SLURM: "was killed as a whole, as where it takes more memory than --slurm-option mem=",
}
"What is said of a job by who ends it: the kernel ends what takes the memory, Slurm all of it."


@pytest.mark.parametrize("memory", few([slurm.BY_SLURM], WHY, "a job without memory is named"))
def test_a_job_that_takes_too_much_memory_is_named(tmp_path: Path, memory: str) -> None:
    required(slurm.missing())
    if memory == slurm.BY_KERNEL and slurm.missing_groups():
        pytest.skip(slurm.missing_groups())
    values = make_volume(tmp_path / "in.nii")
    with slurm.in_reach(tmp_path / "slurm", memory):
        done = hyperslab(*job(tmp_path, "eat"))
    assert done.returncode == 0, done
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))
    (message,) = lost(tmp_path).values()
    assert f"_1 {WHY[memory]}" in message
    slots = {Slot.parse(o.slot) for o in Tail(tmp_path / "out" / SUBMISSION).poll()}
    workers = {slot.worker for slot in slots if slot is not None}
    assert len(workers) == TASKS + 1, "one of each job, also of that which has begun again"
