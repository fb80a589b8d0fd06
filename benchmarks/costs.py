"""Costs: what a run takes on an engine, taken apart, as medians over rounds.

    time without start-up = every run + tasks x per task + bytes x per byte

Null tasks in different numbers give what a task costs; two volumes in equally many blocks what a
byte costs; what then remains of the small volume's time is what every run of the job costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.schedule import JOBS
from benchmarks.trial import HAND, Measured

GB = 1e9


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds, on two slots."""

    engine: str
    startup_s: float
    per_task_s: float
    "Of the makespan: handing out, journal, merging."
    per_task_records_s: float
    "After it: trace and report page."
    fixed_s: dict[str, float]
    "By job: of every run after start-up, whatever its tasks and bytes."
    per_gb_s: dict[str, float]
    "By job."


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median, smallest and largest over rounds."""

    middle: float
    low: float
    high: float


Value = Callable[[Measured], float]


def of(measured: Sequence[Measured], **asked: str | int) -> list[Measured]:
    """Those whose trials have these values."""
    return [
        m for m in measured if all(getattr(m.trial, name) == value for name, value in asked.items())
    ]


def middle(measured: Sequence[Measured], value: Value) -> float:
    return median(map(value, measured))


def ratio(measured: Sequence[Measured], job: str, engine: str, value: Value) -> Ratio:
    """An engine's time over that of the hand-written loop in the same round."""
    by_hand = {m.trial.round: m.total_s for m in of(measured, part="volume", job=job, engine=HAND)}
    ratios = [
        value(m) / by_hand[m.trial.round]
        for m in of(measured, part="volume", job=job, engine=engine)
    ]
    return Ratio(median(ratios), min(ratios), max(ratios))


def separate(measured: Sequence[Measured], engine: str) -> Costs:
    """Solve for the costs of an engine."""
    per_task = _slope(measured, engine, lambda m: m.makespan_s)
    per_record = _slope(measured, engine, lambda m: m.records_s)
    fixed, per_gb = {}, {}
    for job in JOBS:
        large, small = (
            of(measured, part=part, job=job, engine=engine) for part in ("volume", "small")
        )
        large_s, small_s = (
            [m.without_startup_s - m.tasks * (per_task + per_record) for m in one]
            for one in (large, small)
        )
        per_byte = _per_byte(large_s, small_s, large[0].nbytes - small[0].nbytes)
        per_gb[job], fixed[job] = per_byte * GB, median(small_s) - small[0].nbytes * per_byte
    startup = middle(
        [m for m in of(measured, engine=engine) if m.trial.part in ("volume", "small")], _startup
    )
    return Costs(engine, startup, per_task, per_record, fixed, per_gb)


def _per_byte(large_s: Sequence[float], small_s: Sequence[float], more_nbytes: int) -> float:
    """What a byte adds; 0 where the noise is larger: a round of the small volume took as long as
    one of the large.
    """
    if max(small_s) >= min(large_s):
        return 0.0
    return (median(large_s) - median(small_s)) / more_nbytes


def _slope(measured: Sequence[Measured], engine: str, value: Value) -> float:
    """What a null task adds to a value."""
    fewest, *_, most = null_tasks(measured, engine)
    added = middle(most, value) - middle(fewest, value)
    return added / (most[0].tasks - fewest[0].tasks)


def null_tasks(measured: Sequence[Measured], engine: str) -> list[list[Measured]]:
    """An engine's trials with null tasks, those of as many together, the fewest first."""
    runs = of(measured, part="growth", engine=engine)
    sizes = sorted({m.tasks for m in runs})
    return [[m for m in runs if m.tasks == size] for size in sizes]


def _startup(m: Measured) -> float:
    return m.startup_s
