"""Ends of jobs, in words."""

from __future__ import annotations

WHY = {
    "BOOT_FAIL": "was lost, as its node did not start",
    "CANCELLED": "was cancelled",
    "DEADLINE": "reached its deadline",
    "JobLaunchFailure": (
        "was killed as a whole, as where it takes more memory than --slurm-option mem=... gives"
    ),
    "NODE_FAIL": "was lost with its node",
    "OUT_OF_MEMORY": "ran out of memory; --slurm-option mem=... gives more",
    "PREEMPTED": "was pre-empted",
    "REQUEUED": "was put back into the queue",
    "TIMEOUT": "ran out of time; --slurm-option time=... gives more",
}
"""What became of a job, by its state, or by Slurm's reason why it failed: JobLaunchFailure is said
of jobs whose script was ended by a signal, too.
"""


def died(job: str, word: str) -> str:
    """How a job died, as part of a sentence; '' for words that tell nothing."""
    if word not in WHY:
        return ""
    return f"died (Slurm job {job} {WHY[word]})"
