"""Gathering: a group level in a call of its own, as a run of its own in the records of those that
have done the participants.

- it goes on with these as a run of both levels does, and begins no participant: each that is done
  stays, whatever has changed since, also one whose files are gone for now
- it is done anew whenever it is asked for, as nobody records what is there beside results of runs
- what it reads may have been made by anybody, as by a copy

Held by tests/apps/bids/test_gathering.py and tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hyperslab.apps.bids import withdrawn
from hyperslab.apps.bids.dataset import SUBJECT, Participant, sessions
from hyperslab.apps.bids.described import adopt, describe, said_of
from hyperslab.apps.bids.earlier import (
    Recorded,
    forget_gathered_outside,
    gathered_outside,
    participant_of,
    recorded,
    require_same_dataset,
)
from hyperslab.apps.bids.group import failed_since, lacking_words, require_complete
from hyperslab.apps.bids.idle import owned
from hyperslab.apps.bids.running import (
    Selection,
    gathered,
    require_not_within,
    require_outside,
)
from hyperslab.apps.bids.unit import Unit
from hyperslab.apps.commands.running import commanded, own_options, run_here
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import Prepared, prepare
from hyperslab.driver.result import Result
from hyperslab.driver.run import run
from hyperslab.driver.vacancy import require_no_file
from hyperslab.errors import OutputBusy
from hyperslab.plan.command import CommandTask
from hyperslab.plan.journal import Tail
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.progress import Progress, Quiet
from hyperslab.units import show_count

_ENDS = re.compile("[_.]")
"What ends the name of a participant in that of a file."
_NOBODY = withdrawn.kept("participants")
"What comes before a group level that reads what no run has made."

Complete = Callable[[Selection, Recorded, Path, bool], Sequence[str]]
"""What names participants of whom a result is lacking that the group level may look for, by what is
recorded. It raises UsageError where there are such, unless they may be missing.
"""


def run_group(
    selection: Selection,
    out: Path,
    task: CommandTask,
    options: Options,
    require: Complete,
    progress: Progress | None = None,
    allow_missing: bool = False,
    tidy: Callable[[str], None] = lambda _: None,
) -> Result:
    """Put the results of participants together by a task, which is done anew whatever is there, and
    describe the datasets anew where it says something else of them; whether it has failed is in the
    result. `tidy('')` removes what runs have left that were killed.

    Raises UsageError where participants have no result, unless these may be missing, OutputBusy
    where some are being worked on, and what `run` raises.
    """
    work = _Work(selection, RunDirectory(out.absolute()), task, options, require, allow_missing)
    progress = progress or Quiet()
    before: dict[str, object] = {}
    ready = _made_ready(work, _looked_at(work, tidy), progress.tell, before)
    if ready.lacking:
        progress.tell(lacking_words(ready.lacking))
    own = own_options(work.resuming)
    result = run(
        ready.pipeline, own, out=out, progress=progress, prepared=ready.prepared, check=False
    )
    if result.ok:
        forget_gathered_outside(work.directory)
    for site, earlier_words in before.items():
        if said_of(work.directory, site) != earlier_words:
            describe(work.directory, site, progress.tell)
    progress.end()
    return result


def require_ready(
    selection: Selection,
    out: Path,
    task: CommandTask,
    options: Options,
    require: Complete,
    allow_missing: bool = False,
) -> None:
    """Raise what `run_group` raises before anything runs."""
    work = _Work(selection, RunDirectory(out.absolute()), task, options, require, allow_missing)
    found = _looked_at(work)
    ready = _made_ready(work, found, is_dry=True)
    if ready.prepared.obstacle:
        raise OutputBusy(ready.prepared.obstacle)


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be put together, and how."""

    selection: Selection
    directory: RunDirectory
    task: CommandTask
    options: Options
    require: Complete
    allow_missing: bool

    @property
    def resuming(self) -> Options:
        """The options of a run of one task, which has all of this machine."""
        options = replace(self.options, resume=True)
        if run_here(options) and options.workers is None and options.throttle is None:
            options = replace(options, workers=1)
        return options

    def lacking(self, found: Recorded) -> Sequence[str]:
        return self.require(self.selection, found, self.directory.out, self.allow_missing)


class _Ready(NamedTuple):
    """A run that may begin."""

    pipeline: Pipeline
    prepared: Prepared
    lacking: Sequence[str]
    "Participants of whom the group level may miss something."


def _looked_at(work: _Work, tidy: Callable[[str], None] = lambda _: None) -> Recorded:
    """What runs have recorded, where nobody works on participants; what they have left is removed
    meanwhile. Raises UsageError, OutputBusy.
    """
    directory = work.directory
    require_outside(work.selection, directory.out)
    require_not_within(directory.out, work.options.keep_failed)
    require_no_file(directory.out)
    found = Recorded({}, (), frozenset(), frozenset(), "")
    if not directory.root.is_dir():  # and so nobody works there
        work.lacking(found)
        tidy("")
        return found
    with owned(directory):
        found = recorded(directory)
        require_same_dataset(found, work.selection.origin, directory.out)
        tidy("")
    return found


def _made_ready(
    work: _Work,
    found: Recorded,
    tell: Tell = unheard,
    before: dict[str, object] | None = None,
    is_dry: bool = False,
) -> _Ready:
    """The run of a group level, in which no participant begins. What was said of each dataset is
    noted in `before`, before the group level says something. Raises UsageError, OutputBusy.
    """
    own = replace(
        work.task,
        made_of=secrets.token_hex(8),
        replaces=tuple(sorted({*work.task.outputs, *gathered_outside(work.directory)})),
    )
    noted = {} if before is None else before
    pipeline = commanded(
        _tasks_of(found),
        work.resuming,
        f"Group level of {work.selection.root}",
        found.template,
        then=(own,),
        despite_failures=work.allow_missing,
        levels=("participant", "group"),
        between=partial(_listen, work.selection, work.directory, noted),
        only_gathers=True,
        origin=work.selection.origin,
    )
    options = own_options(work.resuming)
    prepared = prepare(pipeline, options, work.directory.out, dry=is_dry, tell=tell)
    ids = {task.id for task in prepared.plan.stages[0].tasks}
    there = withdrawn.left(prepared, found.done)
    gone = frozenset(found.done).difference(there)
    lacking = work.lacking(replace(found, gone=gone))
    if left := withdrawn.not_in(work.selection.datasets, there):
        tell(withdrawn.told(left, work.directory.out))
    all_done = replace(prepared, done=prepared.done | ids, damaged=0)
    return _Ready(pipeline, all_done, lacking)


def _tasks_of(found: Recorded) -> list[CommandTask]:
    """A task for everybody who is done."""
    if not found.done:
        return [_NOBODY]
    return list(map(withdrawn.kept, found.done))


def _listen(selection: Selection, directory: RunDirectory, before: dict[str, object]) -> None:
    """Note what was said of each dataset before the group level says something."""
    for site in sites_of(selection):
        adopt(directory, site)
        before[site] = said_of(directory, site)


def sites_of(selection: Selection) -> list[str]:
    """The sites of a collection, or '' of a dataset."""
    return [dataset.site for dataset in selection.datasets]


def require_brains(
    selection: Selection, found: Recorded, out: Path, allow_missing: bool = False
) -> Sequence[str]:
    """Raise UsageError for participants of whom the brain app has not found every brain, unless
    these may be missing; FormatError. What is missing the group level leaves out, and says so.
    """
    gathered(selection, out, allow_missing, found)
    return ()


def require_done(
    selection: Selection,
    found: Recorded,
    out: Path,
    allow_missing: bool = False,
    needs_images: bool = True,
) -> Sequence[str]:
    """Participants of whom something was asked for and is not done, or is gone, or of whom nothing
    is there; with `needs_images`, of those without images only where something was asked for.
    Raises UsageError for them, unless they may be missing.
    """
    missed = _missed(selection, found)
    return _require_done(_people(selection, missed, needs_images), missed, out, allow_missing)


def _missed(selection: Selection, found: Recorded) -> Recorded:
    """What is recorded, without what was withdrawn from the dataset, unless it is there again."""
    now = {unit.participant.name for unit in selection.units}
    for unit in selection.units:
        sessions_of_images = {image.session.label for image in unit.images}
        now.update(Unit(unit.participant, label, ()).label for label in sessions_of_images)
    withdrawn_since = found.left_out - now
    tried = {label: end for label, end in found.tried.items() if label not in withdrawn_since}
    return replace(found, tried=tried, gone=found.gone - withdrawn_since)


def _people(selection: Selection, found: Recorded, needs_images: bool) -> list[Unit]:
    """The units that have to have results."""
    tried = {participant_of(label) for label in found.tried}
    others = [
        unit
        for unit in selection.without_images
        if not needs_images or unit.participant.name in tried
    ]
    return [*selection.units, *others]


def _require_done(
    units: Sequence[Unit], found: Recorded, out: Path, allow_missing: bool
) -> Sequence[str]:
    """Participants of whom something was asked for and is not done, or is gone; where nothing is
    recorded of somebody, those that no file is named for. Raises UsageError for them, unless they
    may be missing.
    """
    tried = _by_participant(found)
    gone = {participant_of(label) for label in found.gone}
    people = dict.fromkeys(unit.participant for unit in units)
    unrecorded = [one for one in people if one.name not in tried]
    there = _that_have_left(unrecorded, out)
    there.update(name for name, ends in tried.items() if any(ends.values()))
    lacking = {one.name for one in people if not _is_done(one, tried.get(one.name, {}))} | gone
    missing = [
        _lacking(one.name, there, gone, found) for one in people if one.name not in there - lacking
    ]
    require_complete(any(one.name in there for one in people), missing, out, allow_missing)
    return missing


def _by_participant(found: Recorded) -> dict[str, dict[str, bool]]:
    """What was asked for of each participant, by labels, and whether it is done, and there."""
    of: dict[str, dict[str, bool]] = {}
    for label, is_done in found.tried.items():
        of.setdefault(participant_of(label), {})[label] = is_done and label not in found.gone
    return of


def _is_done(participant: Participant, ends: Mapping[str, bool]) -> bool:
    """Whether nothing is lacking of what was asked for: a participant who has failed as a whole may
    be done by sessions since, and the other way round.
    """
    if ends.get(participant.name, False):
        return True
    if not all(is_done for label, is_done in ends.items() if label != participant.name):
        return False
    if participant.name not in ends:
        return True
    labels = [one.label for one in sessions(participant) if one.label]
    return bool(labels) and all(Unit(participant, label, ()).label in ends for label in labels)


def _lacking(name: str, there: Collection[str], gone: Collection[str], found: Recorded) -> str:
    """A participant in the list of those without a result."""
    if name in gone:
        return f"{name} (whose files are gone, or not as they were written)"
    if name in there:
        return f"{name} (of some sessions)"
    if name in map(participant_of, found.done):
        return failed_since(name)
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


def told(result: Result, out: Path) -> str:
    """What people read of what a group level has made."""
    return f"group      {show_count(len(_made_by(result)), 'file')} in {out}"


def _made_by(result: Result) -> set[str]:
    """Names of the files that a group level has made, which alone has begun in its run."""
    done = (one for one in Tail(result.folder).poll() if one.status == "done")
    return {written.path for one in done for written in one.outputs}
