"""Remedies that a run leaves room for: what its plan, its array and its slots allow to change."""

from __future__ import annotations

from hyperslab.report.verdict.agreement import FEWER, LARGER, MORE, SMALLER
from hyperslab.report.verdict.evidence import Evidence

COSTLY_S = 1.0
"""A usual task of at least this length on automatic blocks: the planner knows bytes, not what a
function does with them.
"""


def is_automatic(evidence: Evidence) -> bool:
    """Whether the planner chose the blocks."""
    return str(evidence.run.get("rule", "")).startswith("auto")


def tasks(evidence: Evidence) -> int:
    """Tasks that ran."""
    return len({attempt.task for attempt in evidence.attempts})


def larger(evidence: Evidence, wanted: float) -> int:
    """How many times larger blocks may be, and should, that every slot still has one; 1 where they
    are as large as the array, or as the planner wants them, or nothing is to be larger.
    """
    if is_automatic(evidence) or LARGER in evidence.ruled_out:
        return 1
    blocks = int(evidence.run.get("blocks") or tasks(evidence))
    arrays = int(evidence.run.get("arrays") or 1)
    most = blocks // max(arrays, len(evidence.slots), 1)
    return max(1, min(round(wanted), most))


def more_blocks(evidence: Evidence, wanted: int, usual_s: float) -> int:
    """How many blocks each array may have, of those wanted in all; 0 where that makes no more than
    there are, or the planner chose them and they do not take long, or nothing is to be smaller.
    """
    if SMALLER in evidence.ruled_out or (is_automatic(evidence) and usual_s < COSTLY_S):
        return 0
    blocks = int(evidence.run.get("blocks") or tasks(evidence))
    arrays = max(1, int(evidence.run.get("arrays") or 1))
    most = int(evidence.run.get("most_blocks") or evidence.run.get("elements") or wanted)
    possible = min(-(-wanted // arrays), most // arrays)
    if possible * arrays <= blocks:
        return 0
    return possible


def can_use_more(evidence: Evidence) -> bool:
    """Whether further slots would get tasks, and nothing speaks against them."""
    return MORE not in evidence.ruled_out and tasks(evidence) > len(evidence.slots)


def can_use_fewer(evidence: Evidence) -> bool:
    """Whether there are slots to do without, and nothing speaks for them."""
    return FEWER not in evidence.ruled_out and len(evidence.slots) > 1


def takes_slots(evidence: Evidence) -> bool:
    """Whether the user says how many slots there are, not a cluster that runs already."""
    return bool(evidence.run.get("takes_slots", not evidence.run.get("connect")))


def are_workers_jobs(evidence: Evidence) -> bool:
    """Whether a batch system has started the workers, that of --connect."""
    return bool(evidence.run.get("connect")) and takes_slots(evidence)


def other_engine(evidence: Evidence) -> str:
    """Flag of an engine that takes --workers, with a space behind it; '' where this one does."""
    if evidence.run.get("has_one_slot"):
        return "--engine processes "
    return ""


def more_slots(evidence: Evidence) -> str:
    """More slots, in words that say how to get them."""
    if not takes_slots(evidence):
        return "a cluster with more slots"
    if engine := other_engine(evidence):
        return f"more slots ({engine}--workers)"
    return "more slots (--workers, --threads)"


def fewer_slots(evidence: Evidence) -> str:
    """Fewer slots, in words that say how to get them."""
    if takes_slots(evidence):
        return "fewer --workers"
    return "a smaller cluster"


def workers(evidence: Evidence) -> str:
    """What there may be half of."""
    if takes_slots(evidence):
        return "the --workers"
    return "the cluster's workers"
