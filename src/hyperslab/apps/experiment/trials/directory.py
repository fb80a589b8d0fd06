"""ExperimentDirectory: what an experiment keeps.

experiment.json          what was asked for; the same as long as the directory is
places.json              where trials read and write, and what a probe has found there
looks.json               at how many replicates an answer was given, see `looks`
record.jsonl             every session and attempt, see `record`
lock                     held (flock) by the runner
trial.lock               held by processes of the trial under way, until the last of them is gone
inputs/                  synthetic sources, until all trials are done
trials/0007-1/           attempt 1 at trial 7
    output.log           what it printed
    trace.parquet, summary.json, provenance.json, plan.json, status.json    of its run
    out/                 its outputs, while it runs; kept by --keep
report.html
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.errors import OutputBusy, UsageError
from hyperslab.storage.recordfile import load_record, save_record

VERSION = 1
LEAVE_LIMIT_S = 20.0
"How long a runner waits for processes of a trial whose runner has died."
POLL_S = 0.02
BEGINNING = ("lock", "trial.lock", "experiment.json.part")
"Files of a runner that has died before it said what was asked for."
ORDERED = ("vary", "grid", "vary_at")
"Tables of a spec whose order counts."
_REMEDY = "what was asked for is lost; remove the directory and begin again"


@dataclass(frozen=True, slots=True)
class ExperimentDirectory:
    """The folder of an experiment."""

    root: Path

    @property
    def record(self) -> Path:
        return self.root / "record.jsonl"

    @property
    def places(self) -> Path:
        return self.root / "places.json"

    @property
    def inputs(self) -> Path:
        return self.root / "inputs"

    @property
    def page(self) -> Path:
        return self.root / "report.html"

    @property
    def trial_lock(self) -> Path:
        return self.root / "trial.lock"

    def trial(self, number: int, attempt: int) -> Path:
        """The folder of an attempt at a trial."""
        return self.root / "trials" / f"{number:04d}-{attempt}"

    def exists(self) -> bool:
        """Whether an experiment has begun here."""
        return (self.root / "experiment.json").is_file()

    def identity(self) -> dict[str, Any]:
        """What was asked for when the experiment began. Raises DamagedRecord."""
        asked: dict[str, Any] = self._begun()["asked"]
        return asked

    def named(self) -> tuple[str, str | None]:
        """The name of the spec that the experiment began with, and its scale. Raises
        DamagedRecord.
        """
        begun = self._begun()
        return begun["name"], begun["asked"]["scale"]

    def _begun(self) -> dict[str, Any]:
        begun = load_record(self.root / "experiment.json", _REMEDY)
        if begun["version"] != VERSION:
            raise UsageError(
                f"{self.root} has records of version {begun['version']}, and this hyperslab reads"
                f" version {VERSION}: go on with the hyperslab that has begun it"
            )
        return begun

    def begin(self, loaded: Loaded) -> None:
        """Say what is asked for. Raises UsageError where that was said before, or for a directory
        that holds something else.
        """
        if self.exists():
            raise UsageError(
                f"{self.root} holds an experiment: go on with it by 'hyperslab experiment resume',"
                " or choose another directory with --out"
            )
        others = sorted(path.name for path in self.root.iterdir() if path.name not in BEGINNING)
        if others:
            raise UsageError(
                f"{self.root} is not empty ({others[0]}): choose another directory with --out"
            )
        asked = {"version": VERSION, "name": loaded.name, "asked": loaded.identity()}
        left_out = {name: list(levels) for name, levels in loaded.left_out.items()}
        self._save({**asked, "left_out": left_out}, loaded.spec.replicates)

    def left_out(self) -> dict[str, list[Any]] | None:
        """Levels that the spec had and its scale had not when the experiment began; None of one of
        an earlier version. Raises DamagedRecord.
        """
        left_out: dict[str, list[Any]] | None = self._begun().get("left_out")
        return left_out

    def extend(self, loaded: Loaded) -> None:
        """Say that there are more replicates now, where there are."""
        begun = self._begun()
        if loaded.spec.replicates > _replicates(begun):
            self._save(begun, loaded.spec.replicates)

    def _save(self, begun: Mapping[str, Any], replicates: int) -> None:
        save_record(self.root / "experiment.json", {**begun, "replicates": replicates})

    def first_replicates(self) -> list[int]:
        """The replicates that the experiment began with, where it has been extended. Raises
        DamagedRecord.
        """
        if not self.exists():
            return []
        begun = self._begun()
        first: int = begun["asked"]["replicates"]
        return [first] if first < _replicates(begun) else []

    def extended(self, loaded: Loaded) -> Loaded:
        """A spec with as many replicates as the experiment has been extended to. Raises
        DamagedRecord.
        """
        if not self.exists():
            return loaded
        begun = self._begun()
        now = _replicates(begun)
        if begun["asked"]["replicates"] <= loaded.spec.replicates < now:
            return loaded.with_replicates(now)
        return loaded

    def require_unchanged(self, loaded: Loaded) -> None:
        """Raise UsageError with the difference for another spec than the experiment began with.
        More replicates are none: they come after all others.
        """
        if not self.exists():
            raise UsageError(
                f"{self.root} holds no experiment: begin it with 'hyperslab experiment run'"
            )
        differences = self.differences(loaded)
        if differences:
            raise UsageError(
                f"the spec is not what {self.root} began with ({'; '.join(differences)}): change it"
                " back, or begin anew in another directory with --out"
            )

    def differences(self, loaded: Loaded) -> list[str]:
        """What a spec says differently from the one that the experiment began with, field by field;
        that it has more replicates is none of it. Raises DamagedRecord.
        """
        before = self.identity()
        now = loaded.identity()
        if now["replicates"] > before["replicates"]:
            now["replicates"] = before["replicates"]
        return [*_differences(before, now), *_other_order(before, now)]

    @contextmanager
    def owned(self) -> Iterator[None]:
        """A block in which nobody else runs trials here. Raises OutputBusy."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.root} cannot be made: {error.strerror}") from error
        path = self.root / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _take(fd, path, self.root)
            os.close(self.hold_trial())  # none of a runner that has died is left
            yield
        finally:
            os.close(fd)

    def hold_trial(self) -> int:
        """A descriptor to be inherited by the processes of a trial: once nobody has it, none of
        them is left. Waits for those of the trial before. Raises OutputBusy.
        """
        fd = os.open(self.trial_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + LEAVE_LIMIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    raise OutputBusy(
                        f"{self.root}: processes of an earlier trial are still there, and would"
                        " disturb the next one; end them, then try again"
                    ) from None
                time.sleep(POLL_S)


def _replicates(begun: Mapping[str, Any]) -> int:
    """Number of replicates of an experiment that has begun, also of one of an earlier version."""
    replicates: int = begun.get("replicates", begun["asked"]["replicates"])
    return replicates


def _take(fd: int, path: Path, root: Path) -> None:
    """Take the lock of a runner, and say who has it. Raises OutputBusy."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = path.read_text(errors="replace").strip() or "another process"
        raise OutputBusy(
            f"{root} is in use by {owner}: wait for it, or choose another directory with --out"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """What two specs say differently, field by field."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        if before != now:
            yield f"{name}: {_shown(now)}, was {_shown(before)}"
        return
    for key in dict.fromkeys([*before, *now]):
        inner = f"{name}.{key}".lstrip(".")
        yield from _differences(before.get(key), now.get(key), inner)


def _other_order(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Tables whose factors come in another order, from which that of the trials follows."""
    for table in ORDERED:
        names = list(now.get(table, ()))
        earlier = list(before.get(table, ()))
        if names != earlier and set(names) == set(earlier):
            yield f"the order of {table}: {', '.join(names)}, was {', '.join(earlier)}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return repr(value)
