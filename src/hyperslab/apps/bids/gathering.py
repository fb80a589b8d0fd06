"""Gathering: a group level in a call of its own, beside no run.

- it writes to a folder that nobody else sees
- what it has made gets its names when it has ended well, file by file; what an earlier group level
  has made goes then
- what it says of the dataset is put together with what others have said of it (`described`)

Held by tests/apps/bids/test_gathering.py and tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.dataset import SUBJECT, Participant
from hyperslab.apps.bids.described import describe, hear_group
from hyperslab.apps.bids.description import names_of
from hyperslab.apps.bids.earlier import Recorded, participant_of, recorded, require_same_dataset
from hyperslab.apps.bids.group import require_complete
from hyperslab.apps.bids.idle import owned
from hyperslab.apps.bids.running import Selection
from hyperslab.apps.bids.unit import Unit
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver.directory import GATHERED, RunDirectory
from hyperslab.errors import RunStopped
from hyperslab.machine import shortage, spawner
from hyperslab.machine.spawner import Refused
from hyperslab.plan.collecting import collected
from hyperslab.plan.command import CommandTask
from hyperslab.plan.failing import CommandFailed, after, not_started
from hyperslab.plan.placeholders import filled, uses
from hyperslab.storage import renaming
from hyperslab.storage.permitted import remove_tree
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.units import show_count

FOLDER = "group"
"Folder of the group level beside the records of runs: what it writes, and what it prints."
MADE = "made"
"Folder in there of what it writes."
_ENDS = re.compile("[_.]")
"What ends the name of a participant in that of a file."
_REMEDY = "remove it, and the files of the group level"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group level works, in a directory that nobody else uses meanwhile."""

    folder: Path
    "Empty folder, which is removed afterwards."
    recorded: Recorded
    "What runs have recorded there."

    @property
    def made(self) -> Path:
        """Folder below that it writes to."""
        return self.folder / MADE


def run_group_command(
    selection: Selection,
    out: Path,
    words: Sequence[str],
    allow_missing: bool = False,
    limit_s: float | None = None,
    tell: Tell = unheard,
) -> list[str]:
    """Run a command that puts the results of participants together, with the placeholders of
    commands, for some seconds at most; names of the files that it has made, below the output
    directory. What it says of the dataset is told.

    Raises UsageError where participants have no result, unless these may be missing, OutputBusy
    where some are being worked on, and RunStopped where the command has failed.
    """
    directory = RunDirectory(out.absolute())
    with among_complete(selection, directory, allow_missing) as place:
        work = place.folder / "work"
        for folder in (place.made, work):
            folder.mkdir()
        values = {"out": str(place.made), "work": str(work)}
        what = f"the group level over {out}"
        execute(words, values, directory, os.getcwd(), what, limit_s=limit_s)
        made = _names_in(place.made)
        if uses(words, "out") and not made:
            raise RunStopped(f"the group level has written nothing to {{out}}: {words[0]}")
        made = without_statements(selection, made)
        require_own(directory, place.recorded.gathered, made)
        conclude(selection, directory, place, made, tell)
    return made


def conclude(
    selection: Selection, directory: RunDirectory, place: Place, made: Sequence[str], tell: Tell
) -> None:
    """Give files their names, and say of the datasets what the group level says of them."""
    changed = hear_group(directory, place.made, sites_of(selection))
    give_names(directory, place, made)
    for site in changed:
        describe(directory, site, tell)


def sites_of(selection: Selection) -> list[str]:
    """The sites of a collection, or '' of a dataset."""
    return [dataset.site for dataset in selection.datasets]


def without_statements(selection: Selection, made: Iterable[str]) -> list[str]:
    """Names of files without those of datasets as a whole."""
    own = {name for site in sites_of(selection) for name in names_of(site)}
    return [name for name in made if name not in own]


def _names_in(folder: Path) -> list[str]:
    """Names of the files that a command has left. Raises RunStopped for what is no file."""
    try:
        return [written.path for written in collected(folder)]
    except CommandFailed as error:
        raise RunStopped(f"the group level has failed: {error}") from error


@contextmanager
def among_complete(
    selection: Selection,
    directory: RunDirectory,
    allow_missing: bool,
    needs_images: bool = True,
) -> Iterator[Place]:
    """An empty folder in a directory that nobody else uses, and that has the results of all who are
    selected; with `needs_images`, of those without images only where something was tried. Raises
    UsageError where one is missing, unless that may be, and OutputBusy.
    """
    out = directory.out
    if not directory.root.is_dir():  # and so nobody works there
        nothing = Recorded({}, frozenset(), frozenset())
        _require_left(_people(selection, nothing, needs_images), out, allow_missing)
    with owned(directory):
        found = recorded(directory)
        require_same_dataset(found, selection.origin, out)
        _require_done(_people(selection, found, needs_images), found, out, allow_missing)
        with private(directory) as folder:
            yield Place(folder, found)


def _people(selection: Selection, found: Recorded, needs_images: bool) -> list[Unit]:
    """The units that have to have results."""
    tried = {participant_of(label) for label in found.tried}
    others = [
        unit
        for unit in selection.without_images
        if not needs_images or unit.participant.name in tried
    ]
    return [*selection.units, *others]


def require_results(selection: Selection, out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that have left nothing."""
    _require_left((*selection.units, *selection.without_images), out, allow_missing)


def _require_left(units: Sequence[Unit], out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that no file is named for."""
    people = dict.fromkeys(unit.participant for unit in units)
    left = _that_have_left(people, out)
    missing = [one.name for one in people if one.name not in left]
    require_complete(len(missing) < len(people), missing, out, allow_missing)


def _require_done(units: Sequence[Unit], found: Recorded, out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants of whom something was tried and is not done; where nothing
    is recorded of somebody, for those that no file is named for.
    """
    failed = {participant_of(label) for label, is_done in found.tried.items() if not is_done}
    done = {participant_of(label) for label, is_done in found.tried.items() if is_done}
    people = dict.fromkeys(unit.participant for unit in units)
    unrecorded = [one for one in people if one.name not in failed | done]
    there = done | _that_have_left(unrecorded, out)
    missing = [_lacking(one.name, there) for one in people if one.name not in there - failed]
    require_complete(any(one.name in there for one in people), missing, out, allow_missing)


def _lacking(name: str, there: Collection[str]) -> str:
    """A participant in the list of those without a result."""
    if name in there:
        return f"{name} (of some sessions)"
    return name


def _that_have_left(people: Iterable[Participant], out: Path) -> set[str]:
    """Names of participants that something in their folder is named for, as sub-01 of
    sub-01_T1w.html.
    """
    people = list(people)
    stems = {site: _stems(out / site) for site in {one.site for one in people}}
    return {one.name for one in people if SUBJECT + one.label in stems[one.site]}


def _stems(home: Path) -> set[str]:
    """What the names in a folder begin with."""
    with suppress(FileNotFoundError):
        return {_ENDS.split(name, maxsplit=1)[0] for name in os.listdir(home)}
    return set()


@contextmanager
def private(directory: RunDirectory) -> Iterator[Path]:
    """An empty folder, which is removed however the block ends. Raises RunStopped where that of an
    earlier one cannot be.
    """
    place = directory.root / FOLDER
    remove_tree(place)
    try:
        place.mkdir(parents=True)
    except FileExistsError as error:
        raise RunStopped(
            f"{place}, of an earlier group level, cannot be removed: remove it, as its owner or as"
            " root"
        ) from error
    try:
        yield place
    finally:
        spawner.end()
        remove_tree(place)


def execute(
    words: Sequence[str],
    values: Mapping[str, str],
    directory: RunDirectory,
    cwd: str,
    what: str,
    remove: Sequence[str] = (),
    limit_s: float | None = None,
) -> None:
    """Run a command with values for its placeholders, for some seconds at most, and `remove` where
    it has failed. Raises RunStopped, which says what has failed.
    """
    known = {"attempt": f"group.{secrets.token_hex(6)}", "name": FOLDER, **values}
    log = directory.root / f"{FOLDER}.log"
    before = shortage.killed()
    try:
        ended = spawner.run(
            filled(words, known, ()),
            cwd,
            {**os.environ, "TMPDIR": values["work"]},
            str(log),
            limit_s,
            lambda: None,
            filled(remove, known, ()),
        )
        if ended.status:
            raise after(
                CommandTask(FOLDER, tuple(words)), ended, limit_s, shortage.killed() > before
            )
    except (Refused, CommandFailed) as error:
        reason = error
        if isinstance(error, Refused):
            reason = not_started(error)
        raise RunStopped(f"{what} failed: {reason}; what it printed is in {log}") from error


def files_below(folder: Path) -> Iterator[Path]:
    """Files in a folder and those below, without links."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def earlier(directory: RunDirectory) -> set[str]:
    """Names of what an earlier group level has made."""
    try:
        record = load_record(directory.root / GATHERED, _REMEDY)
    except FileNotFoundError:
        return set()
    return set(record["files"])


def give_names(directory: RunDirectory, place: Place, made: Sequence[str]) -> None:
    """Give files their names; the record of them is there before."""
    before = earlier(directory)
    note_made(directory, made)
    for name in made:
        ready = place.made / name
        final = directory.out / name
        renaming.synchronise(ready)
        final.parent.mkdir(parents=True, exist_ok=True)
        ready.replace(final)
    for name in before.difference(made):
        (directory.out / name).unlink(missing_ok=True)
    for folder in sorted({(directory.out / name).parent for name in made}):
        renaming.synchronise(folder, only_names=True)
    save_record(directory.root / GATHERED, {"files": sorted(made)})


def note_made(directory: RunDirectory, made: Sequence[str]) -> None:
    """Record what a group level is about to give names to, beside what earlier ones have made."""
    save_record(directory.root / GATHERED, {"files": sorted({*earlier(directory), *made})})


def require_own(directory: RunDirectory, gathered: Collection[str], names: Iterable[str]) -> None:
    """Raise RunStopped for files that are there and that no group level has made; `gathered` are
    those that group levels of runs have made.
    """
    own = {*earlier(directory), *gathered}
    for name in names:
        if name not in own and os.path.lexists(directory.out / name):
            raise RunStopped(
                f"the group level has made {name}, which is in {directory.out} already: let it"
                " write another name, or move that file away"
            )


def told(made: Sequence[str], out: Path) -> str:
    """What people read of it."""
    return f"group      {show_count(len(made), 'file')} in {out}"
