"""The journal: how results come home on every engine alike, and what a resumed run starts from.

Every slot appends its outcomes to its own file; the driver tails them all. A reducing slot also
keeps a running partial: the merged value of its tasks with their ids, saved by rename before the
outcomes that rest on it are appended. What is not in the journal, or not in a saved partial, did
not happen and is done again.

Held by tests/plan/test_journal.py: whatever the moment of death, reading back gives every
task's result once.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import Any

import xxhash

from hyperslab.blocks.writing import Written
from hyperslab.errors import RunStopped
from hyperslab.machine.clock import Clock
from hyperslab.machine.host import peak_rss_bytes
from hyperslab.plan import command
from hyperslab.plan.command import Ran
from hyperslab.plan.failure import Failure, Frame, describe_failure
from hyperslab.plan.function import is_users_module, module_now
from hyperslab.plan.task import Merge, Outcome
from hyperslab.storage.full import why
from hyperslab.storage.recordfile import load_record
from hyperslab.storage.sealing import seal, unseal
from hyperslab.storage.whole import appearing
from hyperslab.trace import Phase, recording, span

FLUSH_INTERVAL_S = 1.0
"""Outcomes that follow each other within so long at most, or less where flushing is cheap, are
written together: what a dying slot loses, and what a long task holds up, took no longer.
"""
FLUSH_SHARE = 0.02
"Flushing earlier than that may cost this share of a slot's time."
MOST_FLUSH_SHARE = 0.1
"Flushing a large partial takes no more than this share, even if outcomes then wait longer."
_MOVED = {"hyperslab.slab": "hyperslab.arrays.slab"}
"Modules of classes that users' values may hold, as earlier versions named them."
_AS_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_FROM_JSON = json.JSONDecoder().decode
"""Encoder and decoder made once: `json.dumps` makes one for every line. Records hold no circles,
and looking for them takes 40 % of the time.
"""
_MEND = "fix that, then use --resume"


@dataclass(slots=True)
class Partial:
    """Merged value of some tasks of a reduction."""

    tasks: list[int] = field(default_factory=list)
    value: Any = None

    def add(self, tasks: Iterable[int], value: Any, merge: Merge) -> None:
        if self.tasks:
            value = merge(self.value, value)
        self.value = value
        self.tasks.extend(tasks)


class SlotJournal:
    """Where one slot of one worker process records what became of its tasks. Used by one thread."""

    def __init__(
        self,
        folder: Path,
        slot: str,
        incarnation: str,
        merge: Merge | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`incarnation` tells apart the processes that serve a slot one after the other.

        `clock` is this host's against the driver's, where they may differ.
        """
        self.slot = slot
        command.serve(slot)
        self._name = f"{slot.replace('/', '.')}.{incarnation}"
        self._lines = _open_to_append(folder / "journal" / f"{self._name}.jsonl")
        self._partials = folder / "partials"
        self._partial_path = self._partials / f"{self._name}.pickle"
        self._merge = merge
        self._partial = Partial()
        self._parts = 0
        self._is_of_worker = False
        self._waiting: list[Outcome] = []
        self._due_at = time.monotonic()
        if clock is not None:
            self._append(_line({"clock": asdict(clock)}))

    def begin(self) -> None:
        """Save what is held and start another partial."""
        self.flush()
        self._parts += 1
        self._partial_path = self._partials / f"{self._name}.{self._parts}.pickle"
        self._partial = Partial()

    def saved(self) -> tuple[list[int], Path]:
        """Flush; returns the tasks of the partial and its file, which exists if there are any.
        Raises RunStopped.
        """
        self.flush()
        return list(self._partial.tasks), self._partial_path

    def note(self, phases: Sequence[Phase]) -> None:
        """Record work of the slot that belongs to no task, such as merging. Raises RunStopped."""
        self._append(_line({"phases": [list(phase) for phase in phases], "slot": self.slot}))

    def take(self, outcome: Outcome) -> None:
        """Record what became of a task of this process, whose peak memory is read at each flush.
        Raises RunStopped.
        """
        self._is_of_worker = True
        self.record(outcome)

    def record(self, outcome: Outcome) -> None:
        """Take an outcome, which reaches the disk with `flush`, or with the first one that is taken
        FLUSH_INTERVAL_S later; that of a command at once, as what it has made waits for its names.
        Raises RunStopped.
        """
        if self._merge is not None and outcome.status == "done":
            outcome = self._merged(outcome, self._merge)
        if not outcome.slot:
            outcome = replace(outcome, slot=self.slot)
        self._waiting.append(outcome)
        if outcome.ran is not None or time.monotonic() >= self._due_at:
            self.flush()

    def _merged(self, outcome: Outcome, merge: Merge) -> Outcome:
        with recording() as phases, span("merge"):
            try:
                self._partial.add([outcome.task], outcome.value, merge)
            # the user's merge: a failure of the task, as data
            except Exception as error:  # noqa: BLE001
                reason = _of_merge(error, outcome.value)
                self._forget_unsaved(reason.message)
                return replace(outcome, status="failed", value=None, failure=reason)
        slot = outcome.slot or self.slot
        return Outcome(  # `replace` takes twice the time
            outcome.task,
            outcome.attempt,
            outcome.status,
            outputs=outcome.outputs,
            phases=(*outcome.phases, *phases),
            slot=slot,
            max_rss=outcome.max_rss,
        )

    def _forget_unsaved(self, why: str) -> None:
        """Go back to what is saved: a merge that failed may have changed half of its first
        argument.
        """
        saved = None
        if self._partial_path.exists():
            saved = load_partial(self._partial_path)
        self._partial = saved or Partial()
        lost = Failure("MergeFailed", f"its value was lost with that of another task: {why}", "")
        for position, outcome in enumerate(self._waiting):
            if outcome.status == "done":
                self._waiting[position] = replace(outcome, status="lost", failure=lost)

    def flush(self) -> None:
        """Save the partial, then append the waiting outcomes. Raises RunStopped when they cannot be
        written.
        """
        began = time.monotonic()
        if self._waiting:
            if self._is_of_worker:
                self._waiting[-1] = replace(self._waiting[-1], max_rss=peak_rss_bytes())
            if self._partial.tasks:
                self._attempt(lambda: save_partial(self._partial_path, self._partial))
            self._append(b"".join(map(encode, self._waiting)))
            self._waiting.clear()
        now = time.monotonic()
        cost = now - began
        self._due_at = now + max(min(FLUSH_INTERVAL_S, cost / FLUSH_SHARE), cost / MOST_FLUSH_SHARE)

    def _append(self, lines: bytes) -> None:
        self._attempt(lambda: _write_all(self._lines, lines))

    def _attempt(self, write: Callable[[], None]) -> None:
        folder = self._partials.parent
        try:
            write()
        except OSError as error:
            raise RunStopped(
                f"the run directory cannot be written ({why(error, folder)}): {folder}", _MEND
            ) from error

    def close(self) -> None:
        """Flush and let go of the file."""
        try:
            self.flush()
        finally:
            os.close(self._lines)


def _of_merge(error: Exception, value: Any) -> Failure:
    """The failure of a task whose value could not be merged."""
    reason = describe_failure(error, "", entries=(Partial.add.__code__,))
    message = f"merging failed: {reason.message}"
    if value is None:
        message += "; the fold's lift returned None for this block"
    return replace(reason, message=message, permanent=True, certain=False)


@dataclass(frozen=True, slots=True)
class Merging:
    """What a slot did for an engine's own reduction tree."""

    slot: str
    phases: tuple[Phase, ...]


def _open_to_append(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunStopped(
            f"the run directory cannot be written ({why(error, path)}): {path}", _MEND
        ) from error


def _write_all(fd: int, data: bytes) -> None:
    """Append the data, or nothing: a torn line would hide the next one."""
    size = os.fstat(fd).st_size
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise


def encode(outcome: Outcome) -> bytes:
    """An outcome as one JSON line, without its value."""
    failure = None
    if outcome.failure is not None:
        failure = asdict(outcome.failure)
    record = {
        "task": outcome.task,
        "attempt": outcome.attempt,
        "status": outcome.status,
        "failure": failure,
        "outputs": [asdict(output) for output in outcome.outputs],
        "phases": list(map(_fields, outcome.phases)),
        "slot": outcome.slot,
        "max_rss": outcome.max_rss,
    }
    if outcome.odd:
        record["odd"] = outcome.odd
    if outcome.ran is not None:
        record["ran"] = asdict(outcome.ran)
    return _line(record)


def _fields(phase: Phase) -> tuple[Any, ...]:
    """A phase as records have it: without a slot where it is the outcome's own."""
    if phase.slot:
        return phase
    return phase[:-1]


def _line(record: Mapping[str, Any]) -> bytes:
    return seal(_AS_JSON(record).encode()) + b"\n"


def decode(line: bytes) -> Outcome | Clock | Merging | None:
    """What a line says; None for a line that a crash or a disk has damaged."""
    text = unseal(line.rstrip(b"\n"))
    if text is None:
        return None
    try:
        return _said(_FROM_JSON(text.decode()))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _said(record: dict[str, Any]) -> Outcome | Clock | Merging:
    if "clock" in record:
        return Clock(**record["clock"])
    phases = tuple(starmap(Phase, record.pop("phases")))
    if "task" not in record:
        return Merging(record["slot"], phases)
    failure = record.pop("failure")
    if failure:
        failure = _failure(failure)
    outputs = tuple(Written(**output) for output in record.pop("outputs"))
    ran = None
    if told := record.pop("ran", None):
        ran = Ran(**told)
    return Outcome(failure=failure, outputs=outputs, phases=phases, ran=ran, **record)


def _failure(record: dict[str, Any]) -> Failure:
    """A failure; earlier versions recorded no frame, and not whether it is certain."""
    frame = record.pop("frame", None)
    if frame:
        frame = Frame(**frame)
    return Failure(frame=frame, **record)


class Tail:
    """Follows all journal files of a run as they grow; what it returns is in the driver's time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "journal"
        self.damaged = 0
        "Lines that say nothing: what they recorded is done again."
        self.clocks: dict[str, Clock] = {}
        "Clocks of the hosts whose slots have said how theirs goes."
        self.merging: list[Merging] = []
        self._places: dict[str, int] = {}
        self._offsets_ns: dict[str, int] = {}

    def poll(self) -> list[Outcome]:
        """Outcomes recorded since the last call; a line still being written waits for the next one.

        Raises RunStopped when the directory is gone.
        """
        try:
            entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
            return [outcome for entry in entries for outcome in self._new(entry)]
        except FileNotFoundError:
            raise RunStopped(
                f"the run directory has disappeared: {self._folder.parent}; run again, into another"
                " output if others use this one"
            ) from None

    def _new(self, entry: os.DirEntry[str]) -> Iterator[Outcome]:
        for line in self._new_lines(entry):
            offset_ns = self._offsets_ns.get(entry.name, 0)
            match decode(line):
                case Outcome() as outcome:
                    if offset_ns:
                        outcome = replace(outcome, phases=_shifted(outcome.phases, offset_ns))
                    yield outcome
                case Clock() as clock:
                    self._offsets_ns[entry.name] = clock.offset_ns
                    self.clocks[clock.host] = clock
                case Merging(slot, phases):
                    self.merging.append(Merging(slot, _shifted(phases, offset_ns)))
                case None:
                    self.damaged += 1

    def _new_lines(self, entry: os.DirEntry[str]) -> list[bytes]:
        place = self._places.get(entry.name, 0)
        if entry.stat().st_size <= place:
            return []
        with open(entry.path, "rb") as file:
            file.seek(place)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._places[entry.name] = place + len(complete)
        return complete.splitlines()


def _shifted(phases: Sequence[Phase], offset_ns: int) -> tuple[Phase, ...]:
    return tuple(phase.shifted(offset_ns) for phase in phases)


def save_partial(path: Path, partial: Partial) -> None:
    """Write a partial under its final name in one step, with a checksum that `load_partials`
    compares.
    """
    save_pickled_partial(
        path, pickle.dumps((partial.tasks, partial.value), protocol=pickle.HIGHEST_PROTOCOL)
    )


def save_pickled_partial(path: Path, body: bytes) -> None:
    """The same, of a pickle of (tasks, value)."""
    with appearing(path, path.with_suffix(".part")) as temporary:
        temporary.write_bytes(xxhash.xxh3_128_digest(body) + body)


def load_partials(
    folders: Iterable[tuple[Path, Mapping[int, int] | None]], wanted: Iterable[int]
) -> list[Partial]:
    """Saved partials that hold only wanted tasks and no task twice, the largest first; damaged ones
    are left out.

    With each folder comes what its task ids are called here (None: the same); a partial with
    another task is left out.
    """
    found = []
    for folder, ids in folders:
        for partial in _saved(folder):
            if ids is not None:
                partial.tasks = [ids.get(task, -1) for task in partial.tasks]
            found.append(partial)
    left = set(wanted)
    chosen = []
    for partial in sorted(found, key=lambda p: -len(p.tasks)):
        if left.issuperset(partial.tasks):
            chosen.append(partial)
            left.difference_update(partial.tasks)
    return chosen


def saved_tasks(folder: Path) -> set[int]:
    """Tasks that any saved partial of a submission holds."""
    return {task for partial in _saved(folder) for task in partial.tasks}


def _saved(folder: Path) -> Iterator[Partial]:
    """Every saved partial of a submission that is not damaged, nor of a class that the user has
    removed since.
    """
    for path in sorted((folder / "partials").glob("*.pickle")):
        try:
            partial = load_partial(path)
        except ModuleNotFoundError as error:
            if not is_users_module(error.name or ""):
                raise
            continue
        if partial is not None:
            yield partial


def load_partial(path: Path) -> Partial | None:
    """A saved partial; None if it is damaged."""
    data = path.read_bytes()
    digest, body = data[:16], data[16:]
    if xxhash.xxh3_128_digest(body) != digest:
        return None  # cut short by a crash of the machine: its tasks are done again
    tasks, value = _Unpickler(io.BytesIO(body)).load()
    return Partial(tasks, value)


class _Unpickler(pickle.Unpickler):
    """Loads what earlier versions of the package have saved, too, whose modules lay elsewhere, and
    what a user's file was needed for before it was edited.
    """

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        place = _MOVED.get(module_name, module_name)
        return super().find_class(module_now(place, global_name), global_name)


def merge_partials(partials: Iterable[Partial], merge: Merge) -> Partial:
    """All partials as one."""
    total = Partial()
    for partial in partials:
        total.add(partial.tasks, partial.value, merge)
    return total


def moved_bytes(folder: Path) -> int:
    """What the tasks of a reduction handed over to be merged: through the engine's tree, or as
    their saved partials.
    """
    remedy = "its tasks are done, and the same command with --resume writes the records of the run"
    if trees := [load_record(path, remedy)["moved_nbytes"] for path in folder.glob("tree.*.json")]:
        return sum(trees)
    return sum(path.stat().st_size for path in (folder / "partials").glob("*.pickle"))
