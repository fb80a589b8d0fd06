"""Calls: runs that write to one output directory at the same time, each of other wholes.

- a whole is in the hands of one call at a time: who wants one that is another call's waits
- a call takes all that it wants at once, or nothing, so that no two wait for each other
- each has a submission with a lock, a manifest and a journal of its own; nobody else writes there
- who owns the directory, as the group level does, runs beside no call, and no call beside it
- a call reads of earlier submissions those that have tried what it wants, however many there are:
  what each has tried is kept in one record, which every call extends by what has ended since

The record can be made again of the submissions. Held by tests/apps/bids/test_at_once.py.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from hyperslab.blocks.gathering import Tell
from hyperslab.driver import vacancy
from hyperslab.driver.directory import CLAIMS, PLAN, RunDirectory
from hyperslab.driver.resume import tried_wholes
from hyperslab.driver.sweeping import sweep_submission
from hyperslab.errors import DamagedRecord, OutputBusy
from hyperslab.storage.claims import Claims
from hyperslab.storage.recordfile import load_record, save_record

LEDGER = "calls.json"
POLL_S = 0.5
_NAMED = 3


def _nothing() -> None:
    """There is nothing to tidy."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A whole that a call wants to make."""

    name: str
    within: str = ""
    """Name of what it is a part of, such as the participant of a session: other parts of that may
    be in the hands of others, but not all of it. '' where it is no part.
    """


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a call is for."""

    wanted: tuple[Wanted, ...]
    template: str
    "What all its commands are made of."
    resumes: bool
    "Whether it goes on with earlier runs."
    verb: str
    "Verb of the command line, for messages."
    tidy: Callable[[], None] = _nothing
    "What is done first where no other call is under way, while none can begin."


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the submissions of a directory have tried, and who was under way."""

    newest: int = 0
    "Number of the newest submission that was looked at."
    open: tuple[int, ...] = ()
    "Numbers of those that were under way then."
    tried: Mapping[str, Sequence[int]] = field(default_factory=dict)
    "Submissions that have tried a whole, oldest first, by its name."
    done: Mapping[str, int] = field(default_factory=dict)
    "The newest one that has done a whole, by its name."
    template: str = ""
    "What those under way make their commands of; '' where that is not known."

    def concerning(self, names: Iterable[str]) -> list[int]:
        """Submissions that have tried some wholes, and one of those that say what all are made
        of.
        """
        found = {number for name in names for number in self.tried.get(name, ())}
        if self.done:
            found.add(max(self.done.values()))
        return sorted(found)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that has begun."""

    directory: RunDirectory
    "The directory with the records of this call."
    done: frozenset[str]
    "Names of all wholes that are done."


@contextmanager
def begun(directory: RunDirectory, purpose: Purpose, tell: Tell) -> Iterator[Call]:
    """A block in which some wholes are in the hands of this call alone; waits for those that are in
    another one's, and tells so.

    Raises OutputBusy for a directory that somebody owns, that holds something else, or in which
    calls make something else, and where there are earlier runs which it does not resume; RunStopped
    where it is cancelled while it waits.
    """
    if not directory.root.is_dir():
        vacancy.require_empty(directory, purpose.verb)
    made = directory.new_parents()
    held = directory.share()
    try:
        if made:
            tell(made)
        with closing(Claims(directory.root / CLAIMS)) as claims:
            call = _begin(directory, claims, purpose, tell)
            try:
                yield call
            finally:
                _forget_unbegun(call.directory.root)
    finally:
        os.close(held)


def _begin(directory: RunDirectory, claims: Claims, purpose: Purpose, tell: Tell) -> Call:
    is_told = False
    while True:
        with claims.alone():
            if not claims.is_any_taken():
                directory.forget_cancel()
                purpose.tidy()
            ledger = _looked_at(directory, claims, tell)
            _require_usable(directory, ledger, purpose)
            taken = _taken(claims, purpose.wanted)
            if not taken:
                return _taking(directory, claims, ledger, purpose)
            save_ledger(directory, ledger)
        if not is_told:
            tell(f"waiting    for another call that works on {_listed(taken)} in {directory.out}")
            is_told = True
        _await(directory, claims, taken)


def _taking(directory: RunDirectory, claims: Claims, ledger: Ledger, purpose: Purpose) -> Call:
    """A call with all that it wants, which nobody else has."""
    for one in purpose.wanted:
        claims.take(one.name)
        if one.within:
            claims.share(one.within)
    folder = directory.new_folder()
    claims.take(folder.name)
    number = directory.number_of(folder)
    ledger = replace(
        ledger,
        newest=max(ledger.newest, number),
        open=(*ledger.open, number),
        template=purpose.template,
    )
    save_ledger(directory, ledger)
    before = ledger.concerning(one.name for one in purpose.wanted)
    folders = tuple(map(directory.folder_of, before))
    own = replace(directory, call=folder.name, before=folders)
    return Call(own, frozenset(ledger.done))


def _taken(claims: Claims, wanted: Sequence[Wanted]) -> list[Wanted]:
    """What is in the hands of others."""
    return [one for one in wanted if _is_taken(claims, one)]


def _is_taken(claims: Claims, one: Wanted) -> bool:
    if claims.is_taken(one.name):
        return True
    return bool(one.within) and claims.is_taken_alone(one.within)


def _await(directory: RunDirectory, claims: Claims, taken: Sequence[Wanted]) -> None:
    """Wait until others have nothing of it any more. Raises RunStopped where that is cancelled."""
    while _taken(claims, taken):
        directory.require_not_cancelled()
        time.sleep(POLL_S)


def _looked_at(directory: RunDirectory, claims: Claims, tell: Tell) -> Ledger:
    """The ledger with all that has ended since somebody has looked; no worker of it writes any
    more. Raises OutputBusy, DamagedRecord.
    """
    ledger = load_ledger(directory)
    folders = dict(directory.numbered())
    new = [number for number in folders if number > ledger.newest]
    going_on: list[int] = []
    for number in sorted({*ledger.open, *new}):
        folder = directory.folder_of(number)
        if claims.is_taken(folder.name):
            going_on.append(number)
        elif number in folders:
            directory.await_workers_of([folder], tell)
            sweep_submission(folder)
            ledger = _with(ledger, directory, number)
    # numbers of folders that are gone are given again
    return replace(ledger, newest=max(folders, default=0), open=tuple(going_on))


def _with(ledger: Ledger, directory: RunDirectory, number: int) -> Ledger:
    """The ledger with what one submission has tried. Raises DamagedRecord."""
    folder = directory.folder_of(number)
    plan = directory.plan_of(folder)
    if plan is None:
        return ledger
    found = tried_wholes(folder, plan)
    tried = {name: sorted({*ledger.tried.get(name, ()), number}) for name in found}
    done = dict.fromkeys((name for name, is_done in found.items() if is_done), number)
    return replace(ledger, tried={**ledger.tried, **tried}, done={**ledger.done, **done})


def _require_usable(directory: RunDirectory, ledger: Ledger, purpose: Purpose) -> None:
    is_used = bool(ledger.open or ledger.tried)
    if not is_used and next(directory.plans(), None) is None:
        vacancy.require_empty(directory, purpose.verb)
        return
    if not purpose.resumes:
        raise vacancy.holds_earlier(directory, purpose.verb)
    if ledger.open and ledger.template not in ("", purpose.template):
        raise OutputBusy(
            f"{directory.out} is in use by calls that make something else, by"
            f" '{ledger.template}': wait for them, or choose another output directory"
        )


def _forget_unbegun(folder: Path) -> None:
    """Remove the records of a call that was refused before it had a plan."""
    if not (folder / PLAN).exists():
        shutil.rmtree(folder, ignore_errors=True)


def load_ledger(directory: RunDirectory) -> Ledger:
    """What was kept last; an empty one where that is gone, or is not as it was."""
    try:
        said = load_record(directory.root / LEDGER, "")
    except (FileNotFoundError, DamagedRecord):
        return Ledger()
    return Ledger(
        said["newest"], tuple(said["open"]), said["tried"], said["done"], said["template"]
    )


def save_ledger(directory: RunDirectory, ledger: Ledger) -> None:
    """Keep what is known. Raises OSError."""
    save_record(directory.root / LEDGER, {"version": 1, **asdict(ledger)})


def _listed(taken: Sequence[Wanted]) -> str:
    names = ", ".join(one.name for one in taken[:_NAMED])
    more = f" and {len(taken) - _NAMED} more" if len(taken) > _NAMED else ""
    return f"{names}{more}"
