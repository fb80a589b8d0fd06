"""Traces made by hand, and what the verdict says of them."""

from __future__ import annotations

from typing import Any

from hyperslab.report.summary import summarise
from hyperslab.report.verdict import Finding, Verdict, judge
from hyperslab.trace import Span, Trace

S = 10**9
MB = 10**6
RUN = {
    "engine": "processes",
    "workers": 2,
    "threads": 1,
    "cpus": 2,
    "memory_nbytes": 10**9,
    "granularity": "fused",
    "is_light": True,
}
LOAD = {
    "host": "h",
    "seconds": 10.0,
    "cpus": 2,
    "load_average": 2.0,
    "busy_share": 0.5,
    "own_share": 0.45,
}
LOAD |= {"others_share": 0.05, "stolen_share": 0.0, "stalled_shares": {}, "group": {}}


def span(
    slot: str,
    task: int,
    kind: str,
    start_s: float,
    length_s: float,
    nbytes: int = 0,
    *,
    cpu: float = 0.0,
    runq: float | None = 0.0,
    lost: bool = False,
    attempt: int = 0,
) -> Span:
    """A phase that uses the shares `cpu` and `runq` of its time; runq None: the kernel does not
    tell.
    """
    start, length = round(start_s * S), round(length_s * S)
    queued = -1 if runq is None else round(runq * length)
    return Span(
        task,
        attempt,
        f"h/{slot}",
        kind,
        start,
        start + length,
        nbytes,
        round(cpu * length),
        queued,
        lost,
    )


def trace(spans: list[Span], slots: tuple[str, ...] = ("w0/t0", "w1/t0"), **meta: Any) -> Trace:
    """A run from 0 s to the end of the last phase, unless `meta` says otherwise."""
    about = {
        "start_ns": 0,
        "ready_ns": 0,
        "end_ns": max((s.end_ns for s in spans), default=S),
        "run": RUN,
        "load": LOAD,
    }
    return Trace(spans, [f"h/{slot}" for slot in slots], meta={**about, **meta})


def of(trace: Trace) -> Verdict:
    return judge(trace, summarise(trace))


def rules(trace: Trace) -> list[str]:
    return [f.rule for f in of(trace).findings]


def found(trace: Trace, rule: str) -> Finding:
    return next(f for f in of(trace).findings if f.rule == rule)


def side_by_side(
    kind: str, tasks: int = 8, length_s: float = 1.0, nbytes: int = 0, **shares: Any
) -> list[Span]:
    """Tasks of one phase each, back to back on two workers."""
    slots = ("w0/t0", "w1/t0")
    return [
        span(slots[i % 2], i, kind, i // 2 * length_s, length_s, nbytes, **shares)
        for i in range(tasks)
    ]
