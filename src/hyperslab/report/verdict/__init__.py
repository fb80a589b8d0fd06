"""Verdict: what limited a run, with the evidence, and what to change. Rules with thresholds, each
with its reason.

A rule claims a share of the slots' time and says which numbers it rests on. What a kernel or an
engine does not tell is left out of the evidence, and a rule that would need it stays silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.report.measures import split
from hyperslab.report.summary import Summary
from hyperslab.report.verdict import memory, processors, storage, tasks
from hyperslab.report.verdict.evidence import Evidence, collect
from hyperslab.report.verdict.finding import NOTABLE, Finding, Verdict
from hyperslab.trace import Trace
from hyperslab.units import show_seconds, show_share

__all__ = ["Finding", "Verdict", "judge"]

CIRCUMSTANCES = ("cpu-starved",)
"Findings that do not compete with the others: they say how much to trust them."
MAKESPAN_RULES = ("start-up",)
"Findings whose share is of the makespan."
SOUND = ("compute-bound",)
"Findings that call for no change, and so are told only where they come first."
ALSO = 2
"Findings beside the first that the paragraph mentions."


def judge(trace: Trace, summary: Summary) -> Verdict:
    """Say what limited a run.

    Besides the spans it reads of `trace.meta`, each where there: run, load, labels, probe
    (read_nbytes_per_s and write_nbytes_per_s of the device). Never raises for a trace that can be
    summarised.
    """
    evidence = collect(trace)
    if not evidence.attempts:
        return Verdict("No task ran, so there is nothing to judge.", ())
    found = list(_findings(evidence, summary))
    limits = sorted(
        (f for f in found if f.rule not in CIRCUMSTANCES),
        key=lambda f: _rank(f, summary),
        reverse=True,
    )
    circumstances = [f for f in found if f.rule in CIRCUMSTANCES]
    return Verdict(_paragraph(limits, circumstances, summary), (*limits, *circumstances))


def _findings(evidence: Evidence, summary: Summary) -> Iterator[Finding]:
    """Findings of all rules; where two claim as much, what can be changed comes before what is as
    it should be.
    """
    yield from storage.bandwidth(evidence)
    yield from storage.metadata(evidence)
    yield from tasks.overhead(evidence, summary)
    yield from processors.gil(evidence)
    yield from tasks.few(evidence)
    yield from tasks.straggling(evidence)
    yield from memory.pressure(evidence, summary)
    yield from tasks.losing(evidence, summary)
    yield from tasks.unfed(evidence)
    yield from tasks.starting(evidence, summary)
    yield from tasks.closing(evidence)
    yield from processors.waiting_function(evidence)
    yield from processors.bound(evidence)
    yield from processors.starved(evidence)


def _rank(finding: Finding, summary: Summary) -> float:
    """The share as one of the whole makespan."""
    if finding.rule in MAKESPAN_RULES or not summary.makespan_s:
        return finding.share
    return finding.share * summary.makespan_without_startup_s / summary.makespan_s


def _paragraph(limits: list[Finding], circumstances: list[Finding], summary: Summary) -> str:
    parts = [_nothing(summary)]
    if limits:
        parts = [limits[0].text]
    others = [f for f in limits[1:] if f.rule not in SOUND][:ALSO]
    parts += [f"Also: {f.sentence} {f.advice}".rstrip() for f in others]
    return " ".join([*parts, *(f.text for f in circumstances)])


def _nothing(summary: Summary) -> str:
    """What can be said when no rule applies."""
    total = summary.slots * summary.makespan_without_startup_s
    parts = [
        f"{p.noun} {show_share(p.seconds / total)}" for p in split(summary) if total and p.seconds
    ]
    where = ""
    if parts:
        where = f": {', '.join(parts)}"
    return (
        f"What limited this run of {show_seconds(summary.makespan_s)} cannot be told from its"
        f" trace: no cause that can be seen explains {show_share(NOTABLE)} of the slots'"
        f" time{where}."
    )
