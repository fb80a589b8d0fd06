"""Asleep: tasks that do little but sleep.

A delay in a pipeline stands for computing, and takes neither processors nor storage. Where tasks do
little else, further workers bring something and fewer blocks save something by that alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.units import show_share

MOST = 0.5
"Share of the time of tasks for which they sleep, from which on that decides."
BLOCKS = ("files", "blocks")
"Factors whose levels are numbers of blocks, each of which sleeps."


def sleep_s(levels: Mapping[str, Level]) -> float:
    """Seconds for which each block sleeps, by the levels of a cell."""
    return float(levels.get("delay", 0)) * float(levels.get("iterations", 1))


def is_more_sleep(factor: str, levels: Mapping[str, Level]) -> bool:
    """Whether levels of a factor are other work, as each further block sleeps."""
    return factor in BLOCKS and sleep_s(levels) > 0


def asleep(results: Sequence[CellResult]) -> Iterator[str]:
    """Say for how much of their time the tasks of the baseline sleep, where that is most of it."""
    if not results:
        return
    levels = results[0].cell.levels
    asleep_s = sleep_s(levels) * float(levels.get("files", 1))
    busy_s = results[0].mean("busy_s")
    if asleep_s and busy_s and asleep_s >= MOST * busy_s:
        share = show_share(min(1.0, asleep_s / busy_s))
        yield (
            f"Tasks sleep for {share} of their time, on every engine alike, which takes neither"
            " processors nor storage."
        )
