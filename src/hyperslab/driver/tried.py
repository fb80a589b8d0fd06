"""Tried: which wholes a submission has tried, and done, by its journal; which it was asked for and
has found done; and which nobody misses any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome


def done_wholes(folder: Path, kept: Mapping[str, Any]) -> set[str]:
    """Names of the wholes that a submission has done a task of; `kept` is its plan."""
    return {name for name, is_done in tried_wholes(folder, kept).items() if is_done}


def tried_wholes(folder: Path, kept: Mapping[str, Any]) -> dict[str, bool]:
    """Names of the wholes that a submission has tried a task of, and whether one was done; `kept`
    is its plan.
    """
    return tried_of(Tail(folder).poll(), kept)


def tried_of(outcomes: Iterable[Outcome], kept: Mapping[str, Any]) -> dict[str, bool]:
    """The same of outcomes that were read already."""
    tried: set[int] = set()
    done: set[int] = set()
    for outcome in outcomes:
        tried.add(outcome.task)
        if outcome.status == "done":
            done.add(outcome.task)
    found: dict[str, bool] = {}
    for whole in kept["wholes"]:
        tasks = range(whole["first"], whole["first"] + whole["tasks"])
        if not tried.isdisjoint(tasks):
            found[whole["name"]] = not done.isdisjoint(tasks)
    return found


def ends_of(outcomes: Iterable[Outcome], kept: Mapping[str, Any]) -> dict[str, bool]:
    """The same, with the wholes that it was asked for: whatever had become of them before, results
    of those that it has found done are there, and no others count until it has come to them.
    """
    known = dict.fromkeys(not_found_done(kept), False) | dict.fromkeys(found_done(kept), True)
    return known | tried_of(outcomes, kept)


def found_done(kept: Mapping[str, Any]) -> list[str]:
    """Names of the wholes that a submission was asked for, and has found done."""
    found = set(kept.get("found", ()))  # which earlier versions did not record
    return [whole["name"] for whole in kept["wholes"] if whole["first"] in found]


def not_found_done(kept: Mapping[str, Any]) -> set[str]:
    """Names of the wholes that a submission was asked for, and has not found done: what was done of
    them before is of other inputs, or is gone. None where an earlier version has not recorded that.
    """
    if "found" not in kept:
        return set()
    return set(names_asked_for(kept)).difference(found_done(kept))


def left_out(plans: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the wholes that submissions, oldest first by their plans, were asked for, and not
    one over all that there is, nor any since.
    """
    known: set[str] = set()
    found: set[str] = set()
    for kept in plans:
        own = set(names_asked_for(kept))
        if kept["summary"].get("is_all", False):
            found |= known
        known |= own
        found -= own
    return found


def names_asked_for(kept: Mapping[str, Any]) -> list[str]:
    """Names of the wholes that a submission was to do, without those that only stay."""
    return [whole["name"] for whole in kept["wholes"] if not whole.get("kept")]
