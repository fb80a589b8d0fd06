"""Unnamed: what commands have made that a killed driver had not named yet.

Their slots have recorded it with checksums, and it lies in their private folders. The driver that
goes on takes it as what its own slots have staged: it is brought to storage, read back, and named
where it is as it was written; what is not is done again. Of commands that wait for others nothing
is taken, as what they have read may be made again. Held by tests/driver/test_unnamed.py.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hyperslab.driver.prepare import Prepared
from hyperslab.driver.resume import Inherited
from hyperslab.plan.command import LOGS, PRIVATE, Execute
from hyperslab.plan.journal import SlotJournal, Tail
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.task import Outcome


def unnamed(prepared: Prepared, done: Container[int]) -> dict[Path, Outcome]:
    """Attempts of earlier submissions at tasks that are not done, numbered as here, by the private
    folders that they have left.
    """
    wanted = {task.id for task in prepared.plan.stages[0].tasks if task.id not in done}
    found: dict[int, tuple[Path, Outcome]] = {}
    for submission in prepared.inherited:
        for outcome in _left(submission):
            task = outcome.task
            if submission.ids is not None:
                task = submission.ids.get(task, -1)
            if task in wanted:
                assert outcome.ran is not None
                found[task] = Path(outcome.ran.place), _as_here(submission, outcome, task)
    return dict(found.values())


def take_over(outcomes: Collection[Outcome], folder: Path) -> None:
    """Record in a submission what earlier ones have left. Raises RunStopped."""
    if not outcomes:
        return
    with closing(SlotJournal(folder, "driver", "unnamed")) as journal:
        for outcome in outcomes:
            assert outcome.ran is not None
            log = os.path.relpath(outcome.ran.log, folder / LOGS)
            journal.record(replace(outcome, ran=replace(outcome.ran, log=log)))


def in_hand(prepared: Prepared, pipeline: Pipeline) -> dict[Path, Container[int]] | None:
    """Tasks of earlier submissions that nobody else takes over, now or later; None: all of them."""
    assert prepared.directory is not None
    if isinstance(pipeline.end, Execute) and pipeline.end.only_gathers:
        first = len(prepared.plan.stages[0].tasks)
        return {earlier.folder: _later(earlier, first) for earlier in prepared.inherited}
    if not prepared.directory.call:
        return None
    return {earlier.folder: earlier.ids or () for earlier in prepared.inherited}


def _later(submission: Inherited, first: int) -> set[int]:
    """Tasks of a submission that wait for others here, whose numbers are below `first`."""
    ids = submission.ids or {}
    return {there for there, own in ids.items() if max(own, ~own) >= first}


def _left(submission: Inherited) -> Iterator[Outcome]:
    """What slots of a submission have staged beside its records, as far as it is there."""
    private = submission.folder / PRIVATE
    if not private.is_dir():
        return
    for outcome in Tail(submission.folder).poll():
        ran = outcome.ran
        if outcome.status != "staged" or ran is None:
            continue
        is_here = submission.is_sure or ran.is_synced  # what another kernel has in memory is not
        if is_here and Path(ran.place).parent == private.absolute() and os.path.isdir(ran.place):
            yield outcome


def _as_here(submission: Inherited, outcome: Outcome, task: int) -> Outcome:
    """An attempt as one of another submission, whose time is not that of this one, with the path of
    its log.
    """
    assert outcome.ran is not None
    log = os.path.abspath(submission.folder / LOGS / outcome.ran.log)
    ran = replace(outcome.ran, log=log)
    return replace(outcome, task=task, phases=(), slot="driver", ran=ran)
