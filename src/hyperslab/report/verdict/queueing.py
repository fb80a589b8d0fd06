"""Rule about the queue of a batch system: time that a run waited for jobs of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.report.summary import Summary
from hyperslab.report.verdict.evidence import Evidence
from hyperslab.report.verdict.finding import NOTABLE, Finding
from hyperslab.units import show_count, show_seconds, show_share

RULE = "queueing"
NOTICED_S = 5.0
"A queue that took less is nobody's concern, and batch systems tell whole seconds."
GAPS = ("engine-overhead", "between-tasks", "unfed-slots")
"Rules about slots without a task, which say less than the queue does where it explains them."


def waited_s(evidence: Evidence) -> float:
    """Time until the first job of the run began."""
    return float(_queue(evidence).get("waited_s", 0.0))


def queueing(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Time before the first job began, and later time of slots whose jobs waited."""
    queue = _queue(evidence)
    if not queue or not summary.makespan_s:
        return []
    later_s = queue["missing_s"] / max(1, len(evidence.slots))
    seconds = waited_s(evidence) + later_s
    share = min(1.0, seconds / summary.makespan_s)
    if share < NOTABLE or seconds < NOTICED_S:
        return []
    return [
        Finding(
            RULE,
            f"Waiting in {queue['system']}'s queue took {show_seconds(seconds)},"
            f" {show_share(share)} of the makespan.",
            f"The first of {show_count(queue['jobs'], 'job')} began after"
            f" {show_seconds(waited_s(evidence))}; later jobs kept each slot waiting for"
            f" {show_seconds(later_s)} on average.",
            "Ask for less time and memory per job (--slurm-option), for another partition, or for"
            " fewer jobs at a time (--throttle); what others have asked for comes first.",
            share,
        )
    ]


def is_explained(finding: Finding, evidence: Evidence, findings: Sequence[Finding]) -> bool:
    """Whether the queue explains what another rule says of slots without a task, and is one of the
    findings itself.
    """
    if finding.rule not in GAPS or RULE not in {found.rule for found in findings}:
        return False
    missing_ns = _queue(evidence).get("missing_s", 0.0) * 1e9
    return finding.share <= evidence.share(missing_ns)


def _queue(evidence: Evidence) -> Mapping[str, Any]:
    """What the run waited for in a queue; empty where it had none."""
    return evidence.meta.get("queue") or {}
