"""Element: a batch in a job of Slurm's, which knows what has befallen the job so far."""

from __future__ import annotations

import os
import signal

from hyperslab.engines import environment
from hyperslab.engines.batches import launcher
from hyperslab.engines.batches.orders import serve_worker
from hyperslab.engines.slurm.ends import died
from hyperslab.machine import pressure

KILLED = environment.FIRST_SIGNAL + signal.SIGKILL


def main() -> None:
    """Run one batch, as `launcher.main` does; all processes of a job are one worker."""
    serve_worker(int(os.environ["SLURM_JOB_ID"]))
    launcher.main(how_it_ended)


def how_it_ended(status: int) -> str:
    """How the process ended that began the batch before, in words: of a job that begins once more,
    or whose processes the kernel ends when they take more memory than the job may have.
    """
    if status == 0 and "SLURM_RESTART_COUNT" in os.environ:
        return died(_job(), "REQUEUED")
    if status == KILLED and pressure.sample()["group"].get("oom_kill"):
        return died(_job(), "OUT_OF_MEMORY")
    return environment.how_it_ended(status)


def _job() -> str:
    """The number of this job in its array, as `squeue` has it."""
    return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
