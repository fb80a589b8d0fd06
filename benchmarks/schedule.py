"""Which trials are run, in rounds: every round holds each trial once, in an order of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.trial import HAND, Trial

DASK = ("dask-bag", "dask-delayed", "dask-futures")
ENGINES = ("threads", "processes", *DASK, "spark", "gnu-parallel", "mpi", "slurm")
JOBS = ("increment", "histogram")
LOCK_JOBS = ("histogram-python", "histogram")
LAYOUTS = {"1 x 2": (1, 2), "2 x 1": (2, 1)}
"Processes x threads."
WARM_TASKS = 1_000


def layout(engine: str) -> tuple[int, int]:
    """(workers, threads) for two slots."""
    return (1, 2) if engine == "threads" else (2, 1)


def warm_up(engines: Sequence[str]) -> list[Trial]:
    """What is not counted: it brings the volume, and the files of each library, into the page
    cache.
    """
    first = [Trial("volume", job, HAND) for job in JOBS]
    return [
        *first,
        *(Trial("growth", "null", engine, *layout(engine), WARM_TASKS) for engine in engines),
    ]


def one_round(number: int, engines: Sequence[str], most: int, seed: int) -> list[Trial]:
    """Every engine and the hand-written loop at both volumes, and at a quarter, half and all of
    `most` null tasks; what the lock is about on the engines it is about.
    """
    each = [(HAND, 2, 1), *((engine, *layout(engine)) for engine in engines)]
    trials = [
        Trial(part, job, *one, round=number)
        for part in ("volume", "small")
        for job in JOBS
        for one in each
    ]
    trials += [
        Trial("growth", "null", *one, tasks, number)
        for tasks in (most // 4, most // 2, most)
        for one in each
    ]
    trials += [
        Trial("lock", job, engine, *slots, round=number)
        for job in LOCK_JOBS
        for engine in engines
        for name, slots in LAYOUTS.items()
        if (engine in DASK or (engine == "spark" and name == "2 x 1"))
        and (job not in JOBS or slots != layout(engine))  # which is a trial of the volume already
    ]
    random.Random(f"{seed} {number}").shuffle(trials)
    return trials
