"""Later: commands that begin when all others have ended, as those of a group level, and which of
their results count in a run that is resumed.

They rest on all that the others have made: once one of these was done again, by whatever run, they
are done again, too. What they have made stays theirs until then. Held by
tests/apps/bids/test_gathering.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.plan.journal import Tail


def matching(kept: Mapping[str, Any], now: Mapping[str, Any], do_count: bool) -> dict[int, int]:
    """Ids there -> ids here of later tasks, by their labels, whatever the order of the others is.
    Where they do not count they are done again, and what they have made is theirs: ~id.
    """
    here = {label: number for number, label in enumerate(now["then"], now["tasks"])}
    found = {}
    for there, label in enumerate(kept.get("then", ()), kept["tasks"]):
        if label in here:
            own = here[label]
            found[there] = own if do_count else ~own
    return found


def resting(
    of_each: Sequence[dict[int, int]], counted: Sequence[tuple[Path, Mapping[str, Any]]]
) -> list[dict[int, int]]:
    """Ids there -> ids here of submissions, oldest first as their folders and plans are, of which
    no later task counts that was done before one of the others was.
    """
    rest: list[dict[int, int]] = []
    is_done_since = False
    for ids, (folder, kept) in zip(reversed(of_each), reversed(counted), strict=True):
        own = ids
        if is_done_since:
            own = _without_later(ids, kept["tasks"])
        rest.append(own)
        is_done_since = is_done_since or _has_done(folder, kept["tasks"])
    rest.reverse()
    return rest


def _without_later(ids: Mapping[int, int], first_tasks: int) -> dict[int, int]:
    later = {there: ~own for there, own in ids.items() if there >= first_tasks and own >= 0}
    return {**ids, **later}


def _has_done(folder: Path, first_tasks: int) -> bool:
    """Whether a submission has done one of the tasks that others wait for."""
    outcomes = Tail(folder).poll()
    return any(one.status == "done" and one.task < first_tasks for one in outcomes)
