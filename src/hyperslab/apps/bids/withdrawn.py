"""Withdrawn: who was done, and is not in the dataset any more, or has no image left.

Their results stay in the records of a run, so that names have one owner, and nobody begins with
them, whatever becomes of their files: nothing could make these again. Held by
tests/apps/bids/test_withdrawn.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hyperslab.apps.bids.dataset import Dataset, sessions
from hyperslab.apps.bids.earlier import participant_of
from hyperslab.apps.bids.group import named
from hyperslab.apps.bids.unit import Unit
from hyperslab.driver.prepare import Prepared
from hyperslab.driver.resume import Inherited
from hyperslab.plan.command import CommandTask

_NOBODY_RUNS = ("false",)


def kept(label: str) -> CommandTask:
    """The task of somebody who is done, which no slot runs."""
    return CommandTask(label, _NOBODY_RUNS, is_kept=True)


def without(prepared: Prepared, labels: Collection[str]) -> Prepared:
    """A run in which tasks of these labels do not begin, though their files may be gone, which are
    then no results of it.
    """
    ids = _ids(prepared, labels)
    gone = ids.keys() - prepared.done
    inherited = tuple(_less(one, gone) for one in prepared.inherited)
    return replace(prepared, done=prepared.done.union(ids), inherited=inherited)


def _less(one: Inherited, gone: Collection[int]) -> Inherited:
    """What a run inherits of another one, but for these tasks."""
    ids = {there: own for there, own in (one.ids or {}).items() if own not in gone}
    return replace(one, ids=ids)


def left(prepared: Prepared, labels: Collection[str]) -> list[str]:
    """Labels, among these, of tasks whose results are there."""
    return [label for number, label in _ids(prepared, labels).items() if number in prepared.done]


def _ids(prepared: Prepared, labels: Collection[str]) -> dict[int, str]:
    """Labels of the tasks that have one of these, by their ids."""
    commands = {task.id: task.command for task in prepared.plan.stages[0].tasks}
    known = {number: one.label for number, one in commands.items() if one is not None}
    return {number: label for number, label in known.items() if label in labels}


def not_in(datasets: Sequence[Dataset], labels: Iterable[str]) -> list[str]:
    """Labels, among these, of participants or sessions that no dataset has any more."""
    members = {one.name: one for dataset in datasets for one in dataset.participants}
    labels = list(labels)
    by_session = {participant_of(label) for label in labels if label != participant_of(label)}
    known = set(members)
    for name in by_session.intersection(members):
        own = members[name]
        known.update(Unit(own, one.label, ()).label for one in sessions(own))
    return [label for label in labels if label not in known]


def told(labels: Sequence[str], out: Path) -> str:
    """What people read of those whose results are there."""
    return (
        f"withdrawn  {named(labels)}: no longer in the dataset, or without an image there, and"
        f" results are still in {out}: remove those that no group level should find"
    )
