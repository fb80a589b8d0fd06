"""Gathering: a group level in a call of its own, as a run of its own in the records of those that
have done the participants.

- it goes on with these as a run of both levels does, and begins no participant: each that is done
  stays, whatever has changed since
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
from dataclasses import replace
from functools import partial
from pathlib import Path

from hyperslab.apps.bids.dataset import SUBJECT, Participant, sessions
from hyperslab.apps.bids.described import adopt, describe, said_of
from hyperslab.apps.bids.earlier import Recorded, participant_of, recorded, require_same_dataset
from hyperslab.apps.bids.group import require_complete
from hyperslab.apps.bids.idle import owned
from hyperslab.apps.bids.running import Selection, gathered
from hyperslab.apps.bids.unit import Unit
from hyperslab.apps.commands.running import run_commands
from hyperslab.driver.directory import GATHERED, RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.plan.command import CommandTask
from hyperslab.plan.journal import Tail
from hyperslab.report.progress import Progress, Quiet
from hyperslab.storage.recordfile import load_record
from hyperslab.units import show_count

_ENDS = re.compile("[_.]")
"What ends the name of a participant in that of a file."
_REMEDY = "remove it, and the files of the group level"
_GONE = "what was made of this participant is gone: run the participant level again"
_REFUSE = ("sh", "-c", f"echo '{_GONE}' >&2; exit 1")
"Command of participants who are done, which runs where what they have left is not there any more."
_NOBODY = CommandTask("participants", ("true",))
"What comes before a group level that reads what no run has made."

Complete = Callable[[Selection, Recorded, Path, bool], None]
"""What raises UsageError where participants have no result, by what is recorded, unless these may
be missing.
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
    where some are being worked on, and what `run_commands` raises.
    """
    directory = RunDirectory(out.absolute())
    found = _looked_at(selection, directory, require, allow_missing)
    tidy("")
    progress = progress or Quiet()
    before: dict[str, object] = {}
    own = replace(
        task,
        made_of=secrets.token_hex(8),
        replaces=tuple(sorted({*task.outputs, *earlier(directory)})),
    )
    result = run_commands(
        _tasks_of(found),
        out,
        replace(options, resume=True),
        title=f"Group level of {selection.root}",
        template=found.template,
        progress=progress,
        check=False,
        then=(own,),
        despite_failures=allow_missing,
        levels=("participant", "group"),
        between=partial(_listen, selection, directory, before),
        only_gathers=True,
        origin=selection.origin,
    )
    for site, earlier_words in before.items():
        if said_of(directory, site) != earlier_words:
            describe(directory, site, progress.tell)
    progress.end()
    return result


def _looked_at(
    selection: Selection, directory: RunDirectory, require: Complete, allow_missing: bool
) -> Recorded:
    """What runs have recorded, where all that is to be put together is there and nobody works on
    it. Raises UsageError, OutputBusy.
    """
    found = Recorded({}, (), frozenset(), frozenset(), "")
    if not directory.root.is_dir():  # and so nobody works there
        require(selection, found, directory.out, allow_missing)
        return found
    with owned(directory):
        found = recorded(directory)
        require_same_dataset(found, selection.origin, directory.out)
        require(selection, found, directory.out, allow_missing)
    return found


def _tasks_of(found: Recorded) -> list[CommandTask]:
    """A task for everybody who is done."""
    if not found.done:
        return [_NOBODY]
    return [CommandTask(label, _REFUSE, is_kept=True) for label in found.done]


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
) -> None:
    """Raise UsageError for participants of whom the brain app has not found every brain, unless
    these may be missing; FormatError.
    """
    gathered(selection, out, allow_missing, found)


def require_done(
    selection: Selection,
    found: Recorded,
    out: Path,
    allow_missing: bool = False,
    needs_images: bool = True,
) -> None:
    """Raise UsageError for participants of whom something was tried and is not done, or of whom
    nothing is there, unless these may be missing; with `needs_images`, of those without images only
    where something was tried.
    """
    _require_done(_people(selection, found, needs_images), found, out, allow_missing)


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
    tried = _by_participant(found)
    people = dict.fromkeys(unit.participant for unit in units)
    unrecorded = [one for one in people if one.name not in tried]
    there = _that_have_left(unrecorded, out)
    there.update(name for name, ends in tried.items() if any(ends.values()))
    failed = {one.name for one in people if not _is_done(one, tried.get(one.name, {}))}
    missing = [_lacking(one.name, there) for one in people if one.name not in there - failed]
    require_complete(any(one.name in there for one in people), missing, out, allow_missing)


def _by_participant(found: Recorded) -> dict[str, dict[str, bool]]:
    """What was tried of each participant, by labels, and whether it was done."""
    of: dict[str, dict[str, bool]] = {}
    for label, is_done in found.tried.items():
        of.setdefault(participant_of(label), {})[label] = is_done
    return of


def _is_done(participant: Participant, ends: Mapping[str, bool]) -> bool:
    """Whether nothing is lacking of what was tried: a participant who has failed as a whole may be
    done by sessions since, and the other way round.
    """
    if ends.get(participant.name, False):
        return True
    if not all(is_done for label, is_done in ends.items() if label != participant.name):
        return False
    if participant.name not in ends:
        return True
    labels = [one.label for one in sessions(participant) if one.label]
    return bool(labels) and all(Unit(participant, label, ()).label in ends for label in labels)


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


def earlier(directory: RunDirectory) -> set[str]:
    """Names of what group levels of earlier versions have made, which were no runs."""
    try:
        record = load_record(directory.root / GATHERED, _REMEDY)
    except FileNotFoundError:
        return set()
    return set(record["files"])


def told(result: Result, out: Path) -> str:
    """What people read of what a group level has made."""
    return f"group      {show_count(len(_made_by(result)), 'file')} in {out}"


def _made_by(result: Result) -> set[str]:
    """Names of the files that a group level has made, which alone has begun in its run."""
    done = (one for one in Tail(result.folder).poll() if one.status == "done")
    return {written.path for one in done for written in one.outputs}
