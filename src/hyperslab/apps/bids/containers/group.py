"""The group level of an app in a container: one container for each dataset.

- it sees what the participants have left read-only, and writes to a folder that nobody else sees
- of the description of the dataset it has a copy, which it may change or write anew, as apps do;
  what it has said itself at an earlier time is not in it

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import (
    Container,
    Mount,
    app_words,
    folders,
)
from hyperslab.apps.bids.containers.shown import Results, shown
from hyperslab.apps.bids.dataset import SUBJECT, Dataset
from hyperslab.apps.bids.described import without_group
from hyperslab.apps.bids.description import FILE
from hyperslab.apps.bids.earlier import gathered_outside, recorded
from hyperslab.apps.bids.running import Selection
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.statements import text_of
from hyperslab.plan.placeholders import literal


@dataclass(frozen=True, slots=True)
class Level:
    """The group level of one dataset."""

    dataset: Dataset
    home: Path
    "Folder of its derivatives."
    private: Path
    "Folder that the container writes to."
    work: Path
    "Scratch of the container."
    labels: tuple[str, ...]
    "Labels of the participants that are asked for; () for all."


def levels(selection: Selection, out: Path, made: Path, scratch: Path) -> Iterator[Level]:
    """The group levels that are asked for, of datasets of which anything is there; their folders
    are made below `made` and `scratch`.
    """
    for number, dataset in enumerate(selection.datasets):
        home = out / dataset.site
        if not _has_results(home):
            continue
        own = made / dataset.site
        work = scratch / f"work-{number}"
        own.mkdir(parents=True, exist_ok=True)
        work.mkdir()
        yield Level(dataset, home.absolute(), own, work, _labels(selection, dataset))


def _has_results(home: Path) -> bool:
    """Whether there is anything beside what describes a dataset."""
    if not home.is_dir():
        return False
    return any(name != FILE and not name.startswith(".") for name in os.listdir(home))


def _labels(selection: Selection, dataset: Dataset) -> tuple[str, ...]:
    """Labels of the participants of a dataset whom its app is told; () for all."""
    asked = selection.asked
    if not asked.excluded_labels:
        return tuple(one.removeprefix(SUBJECT) for one in asked.participant_labels)
    units = (*selection.units, *selection.without_images)
    people = dict.fromkeys(unit.participant for unit in units)
    return tuple(one.label for one in people if one.site == dataset.site)


@contextmanager
def among_results(
    level: Level, asked: Container, directory: RunDirectory
) -> Iterator[tuple[str, ...]]:
    """The command that runs the container of a level, with the placeholders of commands, and what
    it finds in its folder as long as the block lasts: results, and a description of the dataset
    without what an earlier group level has said, as an app may add itself only where it is not.
    """
    lent = without_group(directory, level.dataset.site)
    here = level.private / FILE
    if lent is not None:
        here.write_text(lent, encoding="utf-8")
    words = app_words("group", level.labels)
    with shown(_results(level, directory)) as mounts:
        yield asked.run_words([*_own(level), *mounts], str(directory.out), words)
    if lent is not None and text_of(here) == lent:  # about which the app has nothing to say
        here.unlink()


def _own(level: Level) -> list[Mount]:
    """What is mounted beside results."""
    data = literal(level.dataset.folder)
    own = literal(str(level.private))
    work = literal(str(level.work))
    return folders(data, own, work)


def _results(level: Level, directory: RunDirectory) -> Results:
    """What the participants of a dataset have left, but for its description."""
    of_groups = recorded(directory).gathered | gathered_outside(directory)
    unseen = [directory.out.absolute() / name for name in of_groups]
    return Results(level.home, level.private, frozenset((*unseen, level.home / FILE)))
