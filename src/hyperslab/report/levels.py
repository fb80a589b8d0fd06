"""Levels: commands that begin when all those of the level before have ended, and the barrier that
this makes.

Section III.M of Dugré, Hayot-Sasson and Glatard, A performance comparison of Dask and Apache Spark
for data-intensive neuroimaging pipelines (2019), sees most of the overhead of a BIDS App there, and
draws both levels in two colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hyperslab.trace import Span, Trace

META = "levels"
"Name of the record of levels in the meta of a trace: name and number of tasks of each, in order."


@dataclass(frozen=True, slots=True)
class Level:
    """Tasks of a run that wait for those of the level before."""

    name: str
    tasks: range


def levels_of(trace: Trace) -> list[Level]:
    """The levels of a run; [] where no task waits for all others."""
    found = []
    first = 0
    for name, count in trace.meta.get(META, ()):
        found.append(Level(str(name), range(first, first + count)))
        first += count
    return found


def named(span: Span, levels: Iterable[Level]) -> Span:
    """A span of computing as one of the kind of its level; any other one as it is."""
    if span.kind != "compute":
        return span
    for level in levels:
        if span.task in level.tasks:
            return replace(span, kind=level.name)
    return span


def barriers_ns(
    by_slot: Mapping[str, Sequence[Span]], levels: Sequence[Level], ready_ns: int
) -> int:
    """Time of all slots from their last task of a level, or from ready, to the first task of the
    next one.
    """
    total = 0
    for before, after in pairwise(levels):
        starts = [s.start_ns for spans in by_slot.values() for s in spans if s.task in after.tasks]
        if not starts:
            continue
        for spans in by_slot.values():
            ends = [span.end_ns for span in spans if span.task in before.tasks]
            total += max(0, min(starts) - max(ends, default=ready_ns))
    return total
