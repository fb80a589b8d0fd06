"""The group level of an app in a container: one container for each dataset.

- it sees what the participants have left read-only, and writes to a folder that nobody else sees
- of the description of the dataset it has a copy, which it may change or write anew, as apps do

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import (
    Container,
    Mount,
    app_words,
    folders,
)
from hyperslab.apps.bids.dataset import SUBJECT, Dataset
from hyperslab.apps.bids.description import FILE
from hyperslab.apps.bids.earlier import recorded
from hyperslab.apps.bids.gathering import earlier
from hyperslab.apps.bids.running import Selection
from hyperslab.driver.directory import RunDirectory
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
    results are mounted on as long as the block lasts.
    """
    there = _results(level.home, directory)
    for name in there:
        _make_place(level.home / name, level.private / name)
    _lend(level)
    words = app_words("group", level.labels)
    yield asked.run_words(_mounts(level, there), str(directory.out), words)
    for name in there:
        _remove_place(level.private / name)
    _take_back(level)


def _lend(level: Level) -> None:
    """Have the app find the description of the dataset, as a file of its own."""
    there = level.home / FILE
    if there.is_file():
        shutil.copyfile(there, level.private / FILE)


def _take_back(level: Level) -> None:
    """Remove the description where the app has left it as it was."""
    there = level.home / FILE
    here = level.private / FILE
    if there.is_file() and here.is_file() and here.read_bytes() == there.read_bytes():
        here.unlink()


def _results(home: Path, directory: RunDirectory) -> list[str]:
    """Names in a folder of what participants have left, but for the description."""
    of_groups = recorded(directory).gathered | earlier(directory)
    before = {*of_groups, _below(directory, home / FILE)}
    visible = [name for name in os.listdir(home) if not name.startswith(".")]
    return sorted(name for name in visible if _is_left(home / name, directory, before))


def _is_left(path: Path, directory: RunDirectory, before: Collection[str]) -> bool:
    """Whether something is not the work of an earlier group level alone."""
    if not path.is_dir():
        return _below(directory, path) not in before
    files = (one for one in path.rglob("*") if not one.is_dir())
    return any(_below(directory, one) not in before for one in files)


def _below(directory: RunDirectory, path: Path) -> str:
    return path.relative_to(directory.out).as_posix()


def _make_place(there: Path, here: Path) -> None:
    """Make what a result is mounted on."""
    if there.is_dir():
        here.mkdir()
    else:
        here.touch()


def _remove_place(here: Path) -> None:
    """Remove what a result was mounted on."""
    if here.is_dir():
        here.rmdir()
    else:
        here.unlink()


def _mounts(level: Level, there: Sequence[str]) -> list[Mount]:
    data = literal(level.dataset.folder)
    own = literal(str(level.private))
    work = literal(str(level.work))
    results = {literal(name): literal(str(level.home / name)) for name in there}
    return folders(data, own, work, in_out=results)
