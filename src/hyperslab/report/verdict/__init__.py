"""Verdict: what limited a run, with the evidence, and what to change. Rules with thresholds, each
with its reason.

A rule claims a share of the slots' time and says which numbers it rests on. What a kernel or an
engine does not tell is left out of the evidence, and a rule that would need it stays silent.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hyperslab.report.summary import Summary, split
from hyperslab.report.verdict.agreement import Pull, agreed
from hyperslab.report.verdict.evidence import Evidence, collect
from hyperslab.report.verdict.finding import NOTABLE, SHORT_S, STARVED, Finding, Verdict
from hyperslab.trace import Trace
from hyperslab.units import show_count, show_seconds, show_share

__all__ = ["Finding", "Verdict", "judge"]

CIRCUMSTANCES = (STARVED, "staging-degraded")
"Findings that do not compete with the others: they say how much to trust them."
MAKESPAN_RULES = ("start-up", "queueing")
"Findings whose share is of the makespan."
SOUND = ("compute-bound",)
"Findings that call for no change, and so are shown only if they come first."
COUNTED = ("compute-bound", "inflating", "lost-attempts", "memory-pressure", "queueing")
"""Findings whose time others have counted, as the kernel counts that of a processor: a lack of
processors does not make it longer.
"""
DOUBT = "This makes it less certain what limited the run."
_ANY = ("read", "compute", "write", "other", "overhead", "idle")
_TRANSFERS = ("read", "write")
_WAITING = ("overhead", "idle")
EXPLAINS = {
    "storage-bandwidth": _TRANSFERS,
    "storage-latency": _TRANSFERS,
    "storage-wait": _TRANSFERS,
    "metadata-latency": _TRANSFERS,
    "inflating": ("read",),
    "gil": ("compute",),
    "waiting-function": ("compute",),
    "compute-bound": ("read", "compute", "write", "other"),
    "engine-overhead": _WAITING,
    "between-tasks": _WAITING,
    "too-few-partitions": _WAITING,
    "unfed-slots": _WAITING,
    "start-up": _WAITING,
    "queueing": _WAITING,
    "slow-scratch": ("other", *_WAITING),
    "network": ("compute", *_WAITING),
    "network-distance": _WAITING,
    "closing": _WAITING,
    "stragglers": _ANY,
    "memory-pressure": _ANY,
    "lost-attempts": _ANY,
}
"Parts of the slots' time that a rule speaks of."
ALSO = 2
"Findings beside the first that the paragraph mentions."


def judge(trace: Trace, summary: Summary) -> Verdict:
    """Say what limited a run.

    Runs that took less than SHORT_S are not judged. Besides the spans it reads of `trace.meta`,
    each where there: run, load, labels, probe (read_nbytes_per_s and write_nbytes_per_s of the
    device), network (links of its laboratory), transfers (between workers). Never raises for a
    trace that can be summarised.
    """
    evidence = collect(trace)
    if not evidence.attempts:
        return Verdict("No task ran, so there is nothing to judge.", ())
    if summary.makespan_s < SHORT_S:
        return Verdict(_too_short(summary), ())
    from hyperslab.report.verdict import rules  # which runs that are not judged do without

    everything = rules.findings(evidence, summary)
    found = [one for one in everything if not rules.is_explained(one, evidence, everything)]
    if summary.makespan_without_startup_s < SHORT_S:
        found = [finding for finding in found if finding.rule in MAKESPAN_RULES]
    limits = sorted(
        (f for f in found if f.rule not in CIRCUMSTANCES),
        key=lambda f: _rank(f, summary),
        reverse=True,
    )
    if summary.makespan_without_startup_s >= SHORT_S:
        limits = [*_unexplained(limits, summary), *limits]
    if not limits:
        return Verdict(_too_short(summary), ())
    circumstances = [f for f in found if f.rule in CIRCUMSTANCES]
    all_found = agreed([*limits, *circumstances], partial(_again, evidence, summary))
    limits = all_found[: len(limits)]
    circumstances = all_found[len(limits) :]
    is_doubtful = _is_doubtful(limits, circumstances)
    if is_doubtful:
        circumstances = list(map(_doubting, circumstances))
    told = _paragraph(limits, circumstances)
    return Verdict(told, (*limits, *circumstances), is_doubtful)


def _is_doubtful(limits: list[Finding], circumstances: list[Finding]) -> bool:
    """Whether the first cause may owe its place to a lack of processors: that took more time than
    the cause is ahead of the next one, or of what is not worth a change.
    """
    lost = max((f.share for f in circumstances if f.rule == STARVED), default=0.0)
    first = limits[0]
    if first.rule in COUNTED:
        return False
    others = [f.share for f in limits[1:]]
    return lost > first.share - max([NOTABLE, *others])


def _doubting(finding: Finding) -> Finding:
    if finding.rule != STARVED:
        return finding
    return replace(finding, sentence=f"{finding.sentence} {DOUBT}")


def _again(evidence: Evidence, summary: Summary, ruled_out: frozenset[Pull]) -> list[Finding]:
    """Findings of all rules, whose advice leaves out what another cause rules out."""
    from hyperslab.report.verdict import rules

    return rules.findings(replace(evidence, ruled_out=ruled_out), summary)


def _rank(finding: Finding, summary: Summary) -> float:
    """The share as one of the whole makespan."""
    if finding.rule in MAKESPAN_RULES or not summary.makespan_s:
        return finding.share
    return finding.share * summary.makespan_without_startup_s / summary.makespan_s


def _unexplained(limits: list[Finding], summary: Summary) -> list[Finding]:
    """The largest part of the slots' time, where no rule that claims as much speaks of it."""
    total = summary.slots * summary.makespan_without_startup_s
    part = max(split(summary), key=lambda part: part.seconds)
    if not part.seconds:
        return []
    share = part.seconds / total
    if limits:
        first = limits[0]
        of_makespan = share * summary.makespan_without_startup_s / summary.makespan_s
        speaks_of_it = part.label in EXPLAINS.get(first.rule, (part.label,))
        if speaks_of_it or _rank(first, summary) >= of_makespan:
            return []
    others = [
        f"{p.noun} {show_share(p.seconds / total)}"
        for p in split(summary)
        if p.seconds and p.label != part.label
    ]
    evidence = "Its trace does not say why."
    if others:
        evidence = f"The rest: {', '.join(others)}."
    sentence = f"{show_share(share)} of the slots' time went to {part.noun}."
    if part.label == "idle":
        tasks = show_count(summary.tasks, "task")
        sentence = f"Slots had no task for {show_share(share)} of their time."
        evidence = f"{tasks} on {show_count(summary.slots, 'slot')}. {evidence}"
    return [Finding("largest-part", sentence, evidence, "", share)]


def _paragraph(limits: list[Finding], circumstances: list[Finding]) -> str:
    parts = [limits[0].text]
    others = [f for f in limits[1:] if f.rule not in SOUND][:ALSO]
    parts += [f"Also: {f.sentence} {f.advice}".rstrip() for f in others]
    return " ".join([*parts, *(f.text for f in circumstances)])


def _too_short(summary: Summary) -> str:
    took = f"The run took {show_seconds(summary.makespan_s)}"
    if summary.makespan_s >= SHORT_S:
        took = f"After its start-up the run took {show_seconds(summary.makespan_without_startup_s)}"
    return f"{took}, too short to tell what limited it: that takes {show_seconds(SHORT_S)} or more."
