"""The measured trace of a run: what its slots recorded, on one time axis, beside what the engine
itself recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hyperslab.driver import lanes
from hyperslab.plan.journal import Merging, Tail
from hyperslab.plan.task import Outcome
from hyperslab.trace import (
    NO_TASK,
    OwnTime,
    Phase,
    Slot,
    Span,
    Trace,
    is_of_staging,
    measure_span_cost_ns,
)


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of a run, on this host's monotonic clock."""

    start_ns: int
    ready_ns: int
    end_ns: int

    def ready_at(self, moment_ns: int) -> Moments:
        """The same of a run that could not begin its tasks before another moment."""
        return replace(self, ready_ns=max(self.ready_ns, min(moment_ns, self.end_ns)))


def build_trace(
    outcomes: Sequence[Outcome],
    slots: Sequence[str],
    tail: Tail,
    moments: Moments,
    meta: Mapping[str, Any],
) -> Trace:
    """All phases of all attempts, with the slots of the engine and what a reader needs to know of
    the run.
    """
    spans, names = _numbered(outcomes, slots, tail.merging)
    about = {
        **asdict(moments),
        "wall_anchor": {"monotonic_ns": time.monotonic_ns(), "time_ns": time.time_ns()},
        "span_cost_ns": measure_span_cost_ns(),
        "max_rss": _max_rss(outcomes, names),
        "clocks": {
            host: {k: v for k, v in asdict(c).items() if k != "host"}
            for host, c in tail.clocks.items()
        },
    }
    return Trace(spans, _lanes(slots, names), meta={**about, **meta})


def trace_so_far(
    outcomes: Sequence[Outcome],
    slots: Sequence[str],
    merging: Sequence[Merging],
    moments: Moments,
    meta: Mapping[str, Any],
) -> Trace:
    """What the charts show of a run that has not ended, of what its slots have recorded."""
    spans, names = _numbered(outcomes, slots, merging)
    return Trace(spans, _lanes(slots, names), meta={**asdict(moments), **meta})


def _numbered(
    outcomes: Sequence[Outcome], slots: Sequence[str], merging: Sequence[Merging]
) -> tuple[list[Span], dict[str, str]]:
    """All spans, on slots that are numbered, and what the others are called now."""
    first_done = {o.task: o.attempt for o in reversed(outcomes) if o.status == "done"}
    spans = [
        _span(o.task, o.attempt, o.slot, phase, first_done.get(o.task) != o.attempt)
        for o in outcomes
        for phase in o.phases
    ]
    spans += [
        _span(NO_TASK, 0, each.slot, phase, False) for each in merging for phase in each.phases
    ]
    names = _names(spans, slots)
    return [_moved(span, names) for span in spans], names


def _lanes(slots: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The slots of the engine, and those of workers that joined when the run had begun."""
    return [*slots, *sorted(set(names.values()) - set(slots))]


def _span(task: int, attempt: int, slot: str, phase: Phase, lost: bool) -> Span:
    p = phase
    return Span(
        task,
        attempt,
        p.slot or slot,
        p.kind,
        p.start_ns,
        p.end_ns,
        p.nbytes,
        p.cpu_ns,
        p.runq_ns,
        lost=lost,
    )


def _names(spans: Iterable[Span], slots: Sequence[str]) -> dict[str, str]:
    """Slots that name a process and a thread -> the engine's slots, which are numbered."""
    unknown = {text: Slot.parse(text) for text in {span.slot for span in spans} - set(slots)}
    times = ((unknown.get(span.slot), span.start_ns, span.end_ns) for span in spans)
    seen = [(slot, start, end) for slot, start, end in times if slot is not None]
    return {str(slot): str(lane) for slot, lane in lanes.number(seen).items()}


def _moved(span: Span, names: Mapping[str, str]) -> Span:
    values = {name: getattr(span, name) for name in Span.__slots__}
    return Span(**values | {"slot": names[span.slot]}) if span.slot in names else span


def _max_rss(outcomes: Sequence[Outcome], names: Mapping[str, str]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for outcome in outcomes:
        worker = names.get(outcome.slot, outcome.slot).rpartition("/")[0]
        if outcome.max_rss:
            largest[worker] = max(largest.get(worker, 0), outcome.max_rss)
    return largest


def agreement(trace: Trace, source: str, own: Sequence[OwnTime]) -> dict[str, Any]:
    """The engine's own task times beside ours: how much they add up to, and how far any attempt
    lies outside them.

    `source` names the engine's record.
    """
    attempts: dict[tuple[int, int, str], tuple[int, int]] = {}
    for span in trace.spans:
        if span.task != NO_TASK and not span.lost and not is_of_staging(span.slot):
            start, end = attempts.get(
                (span.task, span.attempt, span.slot), (span.start_ns, span.end_ns)
            )
            key = span.task, span.attempt, span.slot
            attempts[key] = min(start, span.start_ns), max(end, span.end_ns)
    return {
        "source": source,
        "tasks": len(own),
        "engine_s": sum(t.end_ns - t.start_ns for t in own) / 1e9,
        "ours_s": sum(end - start for start, end in attempts.values()) / 1e9,
        "worst_outside_ms": max((_outside_ns(a, own) for a in attempts.values()), default=0) / 1e6,
    }


def _outside_ns(attempt: tuple[int, int], own: Sequence[OwnTime]) -> int:
    """How far an attempt reaches out of the engine's interval that holds it best."""
    start, end = attempt
    return min(max(t.start_ns - start, 0) + max(end - t.end_ns, 0) for t in own)
