"""Process: one trial, run by a command of hyperslab in a process group of its own, with a limit.

A keeper (`hyperslab.engines.keeper`) stands between: when the trial ends, when its time is over, or
when the runner dies, whatever the trial has started ends with it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.trials.record import State, no_room
from hyperslab.apps.files.runs import NUMBERS
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import load_failures
from hyperslab.engines import keeper
from hyperslab.engines.environment import how_it_ended
from hyperslab.engines.lifeline import workers_end
from hyperslab.errors import HyperslabError
from hyperslab.machine.group import Group, own_group
from hyperslab.redaction import redact
from hyperslab.report.failures import grouped
from hyperslab.report.summary import Summary
from hyperslab.storage.renaming import synchronise, synchronise_all
from hyperslab.units import show_count, show_seconds

KEPT = (
    "trace.parquet",
    "summary.json",
    "provenance.json",
    "plan.json",
    "status.json",
    NUMBERS,
    "network.json",
    "messages.parquet",
)
"Records of a trial's run that stay when its outputs are removed."
ENDING_LIMIT_S = 30.0
LOOK_S = 0.5
"Time from one look to the next at whether a trial is spoiled."
TAIL_NBYTES = 2**16
"End of what a trial has printed, in which the reason is looked for."
FULL_NBYTES = 2**16
"Free bytes below which a disk is full."
OURS = "hyperslab: "
"What sentences about errors begin with."
JAVA_CALL = "\tat "
"What a call begins with in a stack that Java prints."
GATEWAY = ("py4j.", "ConnectionRefusedError", "ConnectionResetError")
"What errors begin with that Python's door to Java raises, for whatever has happened behind it."
JAVA_ERROR = re.compile(r"[a-z]\w*(?:\.\w+)+(?:Error|Exception)\b")
"Name of an error of Java, with which its stack begins."


@dataclass(frozen=True, slots=True)
class Ended:
    """How a trial ended."""

    state: State
    reason: str
    wall_s: float
    numbers: Mapping[str, float | None]
    unwaited_s: float = 0.0
    "Processor time of its processes that nobody has waited for, where the kernel tells it."


@dataclass(frozen=True, slots=True)
class Command:
    """What a trial runs."""

    arguments: Sequence[str]
    program: str = ""
    "Name of a program that runs instead of hyperslab, see `programs`."
    verb: str = "run"
    "The command of hyperslab."
    processors: Sequence[int] = ()
    "Processors that all of it is pinned to; none: it may use all."
    prefix: Sequence[str] = ()
    "Words before those of its command, which have it run elsewhere."
    environment: Mapping[str, str] = field(default_factory=dict)
    "Variables beside those of this process."


def run_trial(
    command: Command,
    out: Path,
    log: Path,
    limit_s: float,
    lock: int,
    spoiled: Callable[[], str] = str,
) -> Ended:
    """Run a trial to its end, until the limit, or until `spoiled` says why it would tell nothing.
    `lock` is inherited by all of its processes.
    """
    began = time.monotonic()
    with own_group() as group:
        waited_s = _waited_s()
        with _started(command, log, lock, group) as process:
            status = _status(process, limit_s, spoiled)
        waited_s = _waited_s() - waited_s
        wall_s = time.monotonic() - began
        unwaited_s = 0.0
        if group is not None:
            unwaited_s = max(0.0, group.cpu_s() - waited_s)
    state, reason = _outcome(status, out, log, limit_s)
    return Ended(state, reason, wall_s, _numbers(out), unwaited_s)


@contextmanager
def _started(
    command: Command, log: Path, lock: int, group: Group | None
) -> Iterator[subprocess.Popen[bytes]]:
    """The keeper of a trial, which has ended with all of it behind the block."""
    with log.open("ab") as output:
        process = _start(command, output.fileno(), lock)
    try:
        if group is not None:
            with suppress(OSError):  # it has ended already, or may not be moved
                group.add(process.pid)
        yield process
    finally:
        _end(process)


def _status(
    process: subprocess.Popen[bytes], limit_s: float, spoiled: Callable[[], str]
) -> int | None:
    """The status with which a trial has ended; None where it is spoiled, or takes longer than the
    limit.
    """
    deadline = time.monotonic() + limit_s
    while not spoiled() and time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(LOOK_S, max(0.0, deadline - time.monotonic())))
    return None


def _waited_s() -> float:
    """Processor time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _outcome(status: int | None, out: Path, log: Path, limit_s: float) -> tuple[State, str]:
    """How a trial has ended, and why in words."""
    if status is None:
        return "too long", f"it was ended after {show_seconds(limit_s)}"
    if status:
        return "failed", _reason(out, log, status)
    if not _numbers(out):
        return "failed", "it has left no summary of its run"
    return "done", ""


def _line(command: Command) -> list[str]:
    """The command line of a trial, with our import path."""
    path = [folder or os.getcwd() for folder in sys.path]
    place = "hyperslab.cli"
    if command.program:
        place = "hyperslab.apps.experiment.programs.table"
    code = f"import sys; sys.path[:] = {path!r}; from {place} import main; main()"
    if command.processors:
        code = f"import os; os.sched_setaffinity(0, {list(command.processors)!r}); {code}"
    words = [sys.executable, "-c", code, command.program or command.verb, *command.arguments]
    return [*command.prefix, *words]


def _start(command: Command, output: int, lock: int) -> subprocess.Popen[bytes]:
    lifeline = workers_end()
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(keeper.__file__), str(lifeline), *_line(command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[lifeline, lock],
        start_new_session=True,
        env={**os.environ, **command.environment},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the keeper end all that is left of a trial."""
    process.terminate()
    try:
        process.wait(ENDING_LIMIT_S)
    except subprocess.TimeoutExpired:  # it waits for a process that the kernel does not let go
        process.kill()
        process.wait()


def records_of(out: Path) -> Path | None:
    """Folder of the records of a trial's run, where it came so far."""
    found = RunDirectory(out).submissions()
    if found:
        return found[-1]
    return None


def _numbers(out: Path) -> dict[str, float | None]:
    """The numbers of a run's summary; none where there is none that can be read."""
    folder = records_of(out)
    if folder is None or not (folder / "summary.json").is_file():
        return {}
    try:
        fields = asdict(Summary.load(folder / "summary.json"))
    except (HyperslabError, ValueError, TypeError):
        return {}
    fields |= _numbers_of_program(folder / NUMBERS)
    return {name: value for name, value in fields.items() if _is_number(value)}


def _numbers_of_program(path: Path) -> dict[str, Any]:
    """Numbers that no summary has; none of a program that has left none."""
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _reason(out: Path, log: Path, status: int) -> str:
    """Why a trial failed: its first reason for failed tasks, or the last sentence that it said."""
    folder = records_of(out)
    if folder is not None:
        try:
            failures = load_failures(folder)
        except HyperslabError:
            failures = []
        if failures:
            first = grouped(failures)[0].first.message
            return redact(f"{show_count(len(failures), 'task')} failed: {first}")
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_NBYTES))
        lines = file.read().decode(errors="replace").splitlines()
    if text := reason_in(lines):
        return redact(text)
    told = f"it {how_it_ended(status)}"
    about = os.statvfs(log.parent)
    if about.f_bavail * about.f_frsize < FULL_NBYTES:
        told += f", and no space is left at {log.parent}, not even for what it said"
    return told


def reason_in(lines: Sequence[str]) -> str:
    """What a program says of its end in what it has printed: the last sentence of ours, else the
    last line; where that is a call of Java's, or of the door to it, the last error that Java has
    printed. '' where it said nothing.
    """
    said = [line.removeprefix(OURS) for line in lines if line.startswith(OURS)]
    last = [line for line in lines if line.strip()][-1:]
    if last and last[0].startswith((JAVA_CALL, *GATEWAY)):
        named = [
            line
            for line, call in pairwise(lines)
            if JAVA_ERROR.match(line) and call.startswith(JAVA_CALL)
        ]
        last = named[-1:] or last
    return next(iter([*said[-1:], *last]), "").strip()


def keep_records(out: Path, folder: Path) -> None:
    """Move the records of a trial's run away from its outputs, which can be removed then, and wait
    until they are on storage. Raises RunStopped where there is no room for them.
    """
    records = records_of(out)
    if records is None:
        return
    names = [name for name in KEPT if (records / name).is_file()]
    try:
        for name in names:
            shutil.move(records / name, folder / name)
        synchronise_all([folder / name for name in names], folder)
        synchronise(folder.parent, only_names=True)
    except OSError as error:
        raise no_room(folder, error) from error
