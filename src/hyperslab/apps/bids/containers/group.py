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

from hyperslab.apps.bids.containers.participants import name_of
from hyperslab.apps.bids.containers.runtimes import (
    Container,
    Mount,
    app_words,
    folders,
    require_mountable,
)
from hyperslab.apps.bids.containers.shown import Results, shown
from hyperslab.apps.bids.dataset import SUBJECT, Dataset
from hyperslab.apps.bids.described import without_group
from hyperslab.apps.bids.description import FILE, names_of
from hyperslab.apps.bids.gathering import (
    among_complete,
    conclude,
    earlier,
    execute,
    files_below,
    require_own,
)
from hyperslab.apps.bids.running import Selection
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.statements import text_of
from hyperslab.plan.placeholders import literal
from hyperslab.storage.permitted import open_folders


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


def run_group_in_container(
    selection: Selection,
    out: Path,
    asked: Container,
    allow_missing: bool = False,
    limit_s: float | None = None,
    tell: Tell = unheard,
) -> list[str]:
    """Run the group level of an app over every dataset, for some seconds each at most; names of the
    files that it has made, below the output directory. What it says of the dataset is told.

    Raises UsageError where participants have no result, unless these may be missing, OutputBusy
    where some are being worked on, and RunStopped where the app has failed.
    """
    require_mountable(selection.root, os.path.abspath(out))
    directory = RunDirectory(out.absolute())
    with among_complete(selection, directory, allow_missing, needs_images=False) as place:
        made = []
        for level in levels(selection, out, place.made, place.folder):
            with among_results(level, asked, directory) as words:
                work = str(level.work)
                what = f"the group level of {name_of(asked.image)} over {level.dataset.folder}"
                remove = asked.remove_words()
                execute(words, {"work": work}, directory, work, what, remove, limit_s)
            made += made_by(level, directory)
        require_own(directory, place.recorded.gathered, made)
        conclude(selection, directory, place, made, tell)
    return made


def levels(selection: Selection, out: Path, made: Path, scratch: Path) -> Iterator[Level]:
    """The group levels that are asked for; their folders are made below `made` and `scratch`."""
    for number, dataset in enumerate(selection.datasets):
        home = out / dataset.site
        if not home.is_dir():
            continue
        own = made / dataset.site
        work = scratch / f"work-{number}"
        own.mkdir(parents=True, exist_ok=True)
        work.mkdir()
        yield Level(dataset, home.absolute(), own, work, _labels(selection, dataset))


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
    unseen = [directory.out.absolute() / name for name in earlier(directory)]
    return Results(level.home, level.private, frozenset((*unseen, level.home / FILE)))


def made_by(level: Level, directory: RunDirectory) -> list[str]:
    """Names of what the container of a level has made, below the output directory, but for what it
    says of the dataset.
    """
    top = level.private
    open_folders(top)
    made = (path.relative_to(top).as_posix() for path in files_below(top))
    return [_below(directory, level.home / name) for name in made if name not in names_of("")]


def _below(directory: RunDirectory, path: Path) -> str:
    return path.relative_to(directory.out).as_posix()
