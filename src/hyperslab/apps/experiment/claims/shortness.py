"""Shortness: trials so short that what an engine does around its tasks decides how long they take.

Engines take seconds to hand out the first tasks and to gather the last results, in a run of an hour
as in one of seconds. Where tasks compute for little longer than that, engines are told apart by
these seconds, of which a claim on long pipelines says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.claims.claim import Evidence, Judged
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.units import show_list, show_seconds

LONG = 10
"Time in which tasks compute over that around them, from which on trials are long."


def unless_short(evidence: Evidence, found: Judged) -> Judged:
    """What was found of the cells that were asked for, unless one of them is too short to tell."""
    short = list(_short(evidence))
    if found.outcome == "not tested" or not short:
        return found
    why = (
        f"Too short: {show_list(short)}, in all slots. What an engine does around tasks takes such"
        f" seconds in longer runs, too; tasks have to compute for {LONG} times as long to tell."
    )
    return found.instead("not tested", why)


def faster_by_computing(evidence: Evidence, engine: Level) -> str:
    """Sentence on an engine of which all that it does takes less than the computing alone of any
    other one that was asked for, beyond the margin: nothing around tasks makes it faster, and short
    trials tell that it is. '' where that is not so.
    """
    done = {one.cell.levels["engine"]: one for one in evidence.asked.values() if one.done}
    own = done.pop(engine, None)
    others_s = [one.mean("compute_s") for one in done.values()]
    if own is None or not others_s:
        return ""
    whole_s = own.mean("compute_s") + own.mean("overhead_s")
    if whole_s * (1 + evidence.margin) >= min(others_s):
        return ""
    return (
        f"Slots of {engine} are busy for {show_seconds(whole_s)} with tasks and all around them,"
        f" those of the others for {show_seconds(min(others_s))} at least with computing alone:"
        " that it is faster does not depend on the length of tasks."
    )


def _short(evidence: Evidence) -> Iterator[str]:
    """Cells that are too short, in words."""
    for result in evidence.asked.values():
        computing_s = result.mean("compute_s")
        around_s = result.mean("overhead_s")
        if result.done and computing_s < LONG * around_s:
            yield _words(result, computing_s, around_s)


def _words(result: CellResult, computing_s: float, around_s: float) -> str:
    return (
        f"tasks of {result.cell.name} compute for {show_seconds(computing_s)}, beside"
        f" {show_seconds(around_s)} around them"
    )
