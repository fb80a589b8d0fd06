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
    null = sorted(of(measured, part="growth", engine=engine), key=lambda m: m.tasks)
    more = null[-1].tasks - null[0].tasks
    per_task = (null[-1].makespan_s - null[0].makespan_s) / more
    per_record = (null[-1].records_s - null[0].records_s) / more
    fixed, per_gb = {}, {}
    for job in JOBS:
        large, small = (
            of(measured, part=part, job=job, engine=engine) for part in ("volume", "small")
        )
        runs = large, small
        seconds = [
            middle(one, lambda m: m.without_startup_s - m.tasks * (per_task + per_record))
            for one in runs
        ]
        nbytes = [one[0].nbytes for one in runs]
        per_byte = (seconds[0] - seconds[1]) / (nbytes[0] - nbytes[1])
        per_gb[job], fixed[job] = per_byte * GB, seconds[1] - nbytes[1] * per_byte
    startup = middle(
        [m for m in of(measured, engine=engine) if m.trial.part in ("volume", "small")], _startup
    )
    return Costs(engine, startup, per_task, per_record, fixed, per_gb)


def _startup(m: Measured) -> float:
    return m.startup_s
