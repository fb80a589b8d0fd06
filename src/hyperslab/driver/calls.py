"""Calls: runs that write to one output directory at the same time, each of other wholes.

- a whole is in the hands of one call at a time: who wants one that another call has does all others
  first, and then waits
- who waits has nothing in hand, so that no two wait for each other
- nobody waits for anything while others wait for a turn to look: workers that do not leave keep
  those who want what these were at, and no others
- what it has in hand at a time is a submission with a lock, a manifest and a journal of its own;
  nobody else writes there
- who owns the directory, as the group level does, runs beside no call, and no call beside it
- a call reads of earlier submissions those that have tried what it wants, however many there are:
  what each has tried is kept in one record, which every call extends by what has ended since

The record can be made again of the submissions. Held by tests/apps/bids/test_at_once.py.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

from hyperslab.blocks.gathering import Tell
from hyperslab.driver import detached, vacancy
from hyperslab.driver.directory import CLAIMS, LEDGER, PLAN, RunDirectory, end_workers
from hyperslab.driver.sweeping import sweep_submission
from hyperslab.driver.tried import tried_wholes
from hyperslab.errors import DamagedRecord, OutputBusy
from hyperslab.storage import fence
from hyperslab.storage.claims import Claims, is_any_taken
from hyperslab.storage.recordfile import load_record, save_record

POLL_S = 0.5
WAITING = ".waiting"
"What all hold together that wait for others, so that they are known to be there."
_NAMED = 3


def _nothing(_: str) -> None:
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
    tidy: Callable[[str], None] = _nothing
    """What removes all that a submission has left whose driver was killed, by its name; with ''
    what all have left, where no other call is under way. No call can begin meanwhile.
    """


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the submissions of a directory have tried, and who was under way."""

    newest: int = 0
    "The highest number of a submission so far, which may be gone: no other gets it."
    open: tuple[int, ...] = ()
    "Numbers of those that were under way then, or had workers that were."
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
class Hand:
    """What a call has in hand at a time."""

    directory: RunDirectory
    "The directory with the records of this submission."
    wanted: tuple[Wanted, ...]
    "Wholes that no other call works on meanwhile."
    done: frozenset[str]
    "Names of all wholes that are done, of whatever call."
    has_waited: bool = False
    "Whether others were waited for until it was in hand."

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.wanted)


@contextmanager
def begun(directory: RunDirectory, purpose: Purpose, tell: Tell) -> Iterator[Iterator[Hand]]:
    """A block that gets what is wanted into its hands: all that no other call works on, and when it
    asks for more, the rest. That it waits for, and tells so; what it had in hand it has no more.

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
        with (
            closing(Claims(directory.root / CLAIMS)) as claims,
            closing(_hands(directory, claims, purpose, tell)) as hands,
        ):
            yield hands
    finally:
        os.close(held)


def _hands(
    directory: RunDirectory, claims: Claims, purpose: Purpose, tell: Tell
) -> Generator[Hand, None, None]:
    """What the call has in hand, one after the other, until that was all."""
    hand = _begin(directory, claims, purpose, tell, has_waited=False)
    while True:
        names = hand.names
        left = tuple(one for one in purpose.wanted if one.name not in names)
        if left:
            tell(f"later      {_listed(left)}: another call is at work there")
        try:
            yield hand
        finally:
            _forget_unbegun(hand.directory.root)
        if not left:
            return
        _give_back(claims, hand)
        purpose = replace(purpose, wanted=left)
        hand = _begin(directory, claims, purpose, tell, has_waited=True)


def _give_back(claims: Claims, hand: Hand) -> None:
    """Have nothing in hand, and be known to wait. The submission goes first: who finds a whole free
    finds what was done of it, too.
    """
    claims.share(WAITING)
    claims.give_back(hand.directory.call)
    for one in hand.wanted:
        claims.give_back(one.name)
        if one.within:
            claims.give_back(one.within)


def _begin(
    directory: RunDirectory, claims: Claims, purpose: Purpose, tell: Tell, has_waited: bool
) -> Hand:
    """Take all that nobody else has in hand, once there is something."""
    watch = _turn_watch(directory)
    is_told = False
    while True:
        with claims.alone(watch):
            if not claims.is_any_taken():
                if not has_waited:
                    directory.forget_cancel()
                purpose.tidy("")
            # first: what is given back meanwhile counts as taken, as its records may not be read
            taken = _taken(claims, purpose.wanted)
            seen = _looked_at(directory, claims, purpose)
            _require_usable(directory, seen.ledger, purpose)
            left = _concerning(directory, seen.left, purpose.wanted)
            free = _free(directory, purpose.wanted, taken, left)
            if free:
                purpose = replace(purpose, wanted=free)
                hand = _taking(directory, claims, seen.ledger, purpose)
                return replace(hand, has_waited=has_waited)
            save_ledger(directory, seen.ledger)
            claims.share(WAITING)
        directory.await_workers_of(left, tell)
        if taken and not is_told:
            tell(f"waiting    for another call that works on {_listed(taken)} in {directory.out}")
            is_told = True
        has_waited = True
        _await(directory, claims, taken)


def _turn_watch(directory: RunDirectory) -> Callable[[], None]:
    """What ends the waiting for a turn to look where calls are cancelled from now on; what earlier
    ones were asked may be there still.
    """
    before = directory.asked_to_cancel_at()

    def watch() -> None:
        if directory.asked_to_cancel_at() != before:
            directory.require_not_cancelled()

    return watch


def _taking(directory: RunDirectory, claims: Claims, ledger: Ledger, purpose: Purpose) -> Hand:
    """A hand with all that is wanted, which nobody else has."""
    for one in purpose.wanted:
        claims.take(one.name)
        if one.within:
            claims.share(one.within)
    folder = _new_folder(directory, claims, ledger)
    claims.give_back(WAITING)
    number = directory.number_of(folder)
    others = range(ledger.newest + 1, number)  # of whom nobody has known
    ledger = replace(
        ledger,
        newest=number,
        open=(*ledger.open, *others, number),
        template=purpose.template,
    )
    save_ledger(directory, ledger)
    before = ledger.concerning(one.name for one in purpose.wanted)
    folders = tuple(map(directory.folder_of, before))
    own = replace(directory, call=folder.name, before=folders)
    return Hand(own, purpose.wanted, frozenset(ledger.done))


def _new_folder(directory: RunDirectory, claims: Claims, ledger: Ledger) -> Path:
    """A folder with a number that no other call has had, held by this one. Raises OSError."""
    for number in count(ledger.newest + 1):
        folder = directory.folder_of(number)
        if not claims.take(folder.name):
            continue
        try:
            folder.mkdir()
        except FileExistsError:  # which this host does not see yet
            claims.give_back(folder.name)
        else:
            return folder
    raise AssertionError("numbers do not end")


def _free(
    directory: RunDirectory,
    wanted: Sequence[Wanted],
    taken: Sequence[Wanted],
    left: Iterable[Path],
) -> tuple[Wanted, ...]:
    """What is in nobody's hands, and what workers of no submission of `left` may be at. Raises
    DamagedRecord.
    """
    others = {one.name for one in taken}
    for folder in left:
        others |= _names_in(directory, folder)
    return tuple(one for one in wanted if others.isdisjoint((one.name, one.within)))


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
    directory.require_not_cancelled()  # as those were, perhaps


@dataclass(frozen=True, slots=True)
class _Seen:
    """What somebody has found who has looked at the submissions."""

    ledger: Ledger
    left: tuple[Path, ...]
    "Submissions that have ended, and workers of which are at their tasks still."


def _looked_at(directory: RunDirectory, claims: Claims, purpose: Purpose) -> _Seen:
    """The ledger with all that has ended since somebody has looked; no worker of it writes any
    more. What commands have made of what is wanted stays until that is in somebody's hands. Raises
    OutputBusy for a run that was left to jobs, DamagedRecord.
    """
    ledger = load_ledger(directory)
    newest = _last_number(directory, claims, ledger)
    going_on: list[int] = []
    left: list[Path] = []
    for number in sorted({*ledger.open, *range(ledger.newest + 1, newest + 1)}):
        folder = directory.folder_of(number)
        if claims.is_taken(folder.name):
            going_on.append(number)
        elif not folder.is_dir():
            continue  # of a call that was refused
        elif _is_ended(directory, folder):
            if not detached.has_ended(folder):
                purpose.tidy(folder.name)
            concerns = bool(_concerning(directory, [folder], purpose.wanted))
            sweep_submission(folder, keeps_private=concerns)
            ledger = _with(ledger, directory, number)
        else:
            left.append(folder)
            going_on.append(number)
    return _Seen(replace(ledger, newest=newest, open=tuple(going_on)), tuple(left))


def _last_number(directory: RunDirectory, claims: Claims, ledger: Ledger) -> int:
    """The highest number of a submission. What another host has made may not be listed here yet,
    and is found by its name.
    """
    number = max((ledger.newest, *(listed for listed, _ in directory.numbered())))
    while _is_known(directory.folder_of(number + 1), claims):
        number += 1
    return number


def _is_known(folder: Path, claims: Claims) -> bool:
    return claims.is_taken(folder.name) or folder.is_dir()


def _is_ended(directory: RunDirectory, folder: Path) -> bool:
    """End what goes on of a submission without a driver; whether all its workers have left it.
    Raises OutputBusy where it was left to jobs.
    """
    detached.require_not_left(directory, folder)
    end_workers(folder)
    return fence.is_left(folder, 0)


def _concerning(
    directory: RunDirectory, folders: Iterable[Path], wanted: Sequence[Wanted]
) -> list[Path]:
    """Submissions that were to make some of what is wanted. Raises DamagedRecord."""
    names = {name for one in wanted for name in (one.name, one.within)}
    return [folder for folder in folders if not names.isdisjoint(_names_in(directory, folder))]


def _names_in(directory: RunDirectory, folder: Path) -> set[str]:
    """Names of what a submission was to make. Raises DamagedRecord."""
    plan = directory.plan_of(folder) or {"wholes": ()}
    return {whole["name"] for whole in plan["wholes"]}


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
    if ledger.done:
        return  # with which the plan is compared
    if ledger.open and ledger.template not in ("", purpose.template):
        raise OutputBusy(
            f"{directory.out} is in use by calls that make something else, by"
            f" '{ledger.template}': wait for them, or choose another output directory"
        )


def _forget_unbegun(folder: Path) -> None:
    """Remove the records of a call that was refused before it had a plan."""
    if not (folder / PLAN).exists():
        shutil.rmtree(folder, ignore_errors=True)


def under_way(directory: RunDirectory) -> list[Path]:
    """Submissions of calls that go on, oldest first."""
    place = directory.root / CLAIMS
    if not is_any_taken(place):
        return []
    with closing(Claims(place)) as claims:
        folders = map(directory.folder_of, load_ledger(directory).open)
        return [folder for folder in folders if claims.is_taken(folder.name)]


def is_one_waiting(directory: RunDirectory) -> bool:
    """Whether a call has nothing in hand until others have done what it wants."""
    place = directory.root / CLAIMS
    if not is_any_taken(place):
        return False
    with closing(Claims(place)) as claims:
        return claims.is_taken(WAITING)


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
