"""Record: what an experiment has done, a sealed line for every session and every attempt at a
trial, on storage before the next one begins.

A runner that dies in the middle of a line leaves one that is not as it was written: it counts for
nothing, so its trial is run again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from hyperslab.apps.experiment.design.cells import WARM_UP, Cell, Key, Trial, key_of
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.errors import RunStopped, UsageError
from hyperslab.storage.sealing import seal, unseal

State = Literal["done", "failed", "too long"]
PASSING = ("boot",)
"Facts of a machine that may differ between sessions."


@dataclass(frozen=True, slots=True)
class Session:
    """A runner at work: the first one, or one that goes on after it."""

    number: int
    "Place among the sessions, from 1 on."
    began_s: float
    "Wall clock when it began."
    machine: Mapping[str, Any]
    "Processor, memory, system and versions that it found."


@dataclass(frozen=True, slots=True)
class Attempt:
    """A trial, as it went. Seconds, bytes and shares of one."""

    number: int
    "Number of the trial; 0 of a warm-up."
    replicate: int
    levels: Mapping[str, Level]
    attempt: int
    "Place among the attempts at this trial, from 1 on."
    session: int
    "Number of the session that made it."
    began_s: float
    "Wall clock when it began."
    wall_s: float
    "Time from the start of its process to its end."
    state: State
    reason: str
    "Why it failed; '' if it did not."
    numbers: Mapping[str, float | None]
    "Fields of the summary of its run (`hyperslab.report.summary`); none if it has left no summary."
    preparation: Mapping[str, str]
    "What was done before it, and whether that could be done."
    load_before: Mapping[str, Any]
    "What the machine was doing right before (`hyperslab.machine.pressure`)."
    load_during: Mapping[str, Any]
    starved: str
    "Who else took its processors, in words; '' where nobody did."
    storage: Mapping[str, float | None] = field(default_factory=dict)
    "What its storage was like right before it, see `before.storage_of`."
    network: Mapping[str, Any] = field(default_factory=dict)
    "Laboratory that it ran in, and what its links carried, see `laboratory`; {} of one in none."
    rejected: str = ""
    "Why its time tells nothing of what was asked, as a clause; '' where it does."

    @property
    def key(self) -> Key:
        return key_of(self.levels)

    @property
    def is_warm_up(self) -> bool:
        """Whether it was made before a trial, and counts for nothing."""
        return self.number == WARM_UP


@dataclass(frozen=True, slots=True)
class Record:
    """All that was recorded of an experiment."""

    sessions: Sequence[Session] = ()
    attempts: Sequence[Attempt] = ()
    "Attempts, oldest first."
    damaged: int = 0
    "Number of lines that are not as they were written."
    by_trial: Mapping[int, Sequence[Attempt]] = field(default_factory=dict)
    "Attempts at each trial, by its number; no warm-ups."

    def processors(self, attempts: Sequence[Attempt]) -> set[int]:
        """Numbers of processors of the machines on which attempts were made, as far as they are
        known.
        """
        sessions = {one.session for one in attempts}
        found = [one.machine.get("processors") for one in self.sessions if one.number in sessions]
        return {int(number) for number in found if number}

    def require_cells_of(self, trials: Sequence[Trial], root: Path) -> None:
        """Raise UsageError for an attempt at a trial of other levels than the spec has for it."""
        own = {trial.number: trial.cell.key for trial in trials}
        for attempt in self.attempts:
            is_other = attempt.key != own.get(attempt.number, attempt.key)
            if is_other and not attempt.is_warm_up:
                raise UsageError(
                    f"trial {attempt.number} of {root} has other levels than the spec has for it:"
                    " its order of factors or levels has changed; change it back, or begin anew in"
                    " another directory with --out"
                )

    def next_session(self) -> int:
        """Number of a session that begins now, which none before had, of damaged lines either."""
        numbers = [session.number for session in self.sessions]
        numbers += [attempt.session for attempt in self.attempts]
        return max(numbers, default=0) + 1

    def machines(self) -> dict[int, int]:
        """A number for the machine that each session found: the same where nothing has changed."""
        found: list[dict[str, Any]] = []
        numbers = {}
        for session in self.sessions:
            facts = {name: told for name, told in session.machine.items() if name not in PASSING}
            if facts not in found:
                found.append(facts)
            numbers[session.number] = found.index(facts)
        return numbers

    def warm_ups(self, boot: str | None = None) -> list[Attempt]:
        """Warm-ups that were made, by default since any start of the machine."""
        here = [one.number for one in self.sessions if boot in (None, one.machine.get("boot"))]
        return [one for one in self.attempts if one.is_warm_up and one.session in here]

    def next_attempt(self, trial: Trial) -> int:
        """Place among the attempts at a trial of one that begins now."""
        return 1 + sum(attempt.number == trial.number for attempt in self.attempts)

    def of(self, trial: Trial) -> Sequence[Attempt]:
        """Attempts at a trial, oldest first."""
        return self.by_trial.get(trial.number, ())

    def counted(self) -> list[Attempt]:
        """The attempt that stands for each trial that was tried: the newest that was neither
        starved nor rejected, or else the newest.
        """
        return [_best(attempts) for attempts in self.by_trial.values()]

    def of_cell(self, cell: Cell) -> list[Attempt]:
        """The attempts that stand for the trials of a cell, by replicate."""
        own = [attempt for attempt in self.counted() if attempt.key == cell.key]
        return sorted(own, key=lambda attempt: attempt.replicate)


def _best(attempts: Sequence[Attempt]) -> Attempt:
    usual = [attempt for attempt in attempts if not attempt.starved and not attempt.rejected]
    return (usual or attempts)[-1]


def load(path: Path) -> Record:
    """Read a record; an empty one where there is none. Raises OSError."""
    if not path.exists():
        return Record()
    sessions: list[Session] = []
    attempts: list[Attempt] = []
    damaged = 0
    for line in path.read_bytes().splitlines():
        text = unseal(line)
        if text is None:
            damaged += 1
            continue
        fields = json.loads(text)
        if fields.pop("kind") == "session":
            sessions.append(Session(**fields))
        else:
            attempts.append(Attempt(**fields))
    by_trial: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        if not attempt.is_warm_up:
            by_trial.setdefault(attempt.number, []).append(attempt)
    return Record(sessions, attempts, damaged, by_trial)


def append(path: Path, entry: Session | Attempt) -> None:
    """Add a line, and wait until it is on storage. Raises RunStopped where there is no room; what
    was there stays as it is.
    """
    kind = "attempt"
    if isinstance(entry, Session):
        kind = "session"
    line = seal(json.dumps({"kind": kind, **asdict(entry)}).encode()) + b"\n"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        end = os.fstat(fd).st_size
        if end and os.pread(fd, 1, end - 1) != b"\n":
            line = b"\n" + line  # a runner has died within a line
        try:
            _write(fd, line)
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, end)
            raise no_room(path, error) from error
    finally:
        os.close(fd)


def no_room(path: Path, error: OSError) -> RunStopped:
    """What ends a runner that cannot write what it keeps."""
    return RunStopped(
        f"{path} cannot be written ({error.strerror}): make room, then go on with"
        " 'hyperslab experiment resume'; the trial under way is repeated"
    )


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
