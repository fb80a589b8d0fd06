"""Planning: which measurements there is time for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NEEDED, WANTED, EXTRA = range(3)
"How much a step is missed: what every probe has to say; more clients; all else."


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement, which is made in every repetition."""

    act: Callable[[], None]
    rank: int
    "NEEDED, WANTED or EXTRA."
    cost_s: float
    "Time that it takes, by a look at it."


class Chosen(NamedTuple):
    """What is measured."""

    steps: list[Step]
    repetitions: int
    "Repetitions that there is time for."
    left_out: int
    "Number of steps that there is no time for."


def chosen(steps: Sequence[Step], repetitions: int, least: int, time_s: float) -> Chosen:
    """Choose as many steps as can be repeated `least` times, those that would be missed most first;
    what is needed is measured once at least, however long it takes.
    """
    kept: list[Step] = []
    spent_s = 0.0
    for step in sorted(steps, key=lambda one: one.rank):
        if step.rank == NEEDED or (spent_s + step.cost_s) * least <= time_s:
            kept.append(step)
            spent_s += step.cost_s
    possible = repetitions
    if spent_s * repetitions > time_s:
        possible = max(1, int(time_s / spent_s))
    return Chosen(kept, possible, len(steps) - len(kept))
