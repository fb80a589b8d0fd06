"""RunDirectory: `OUT/.hyperslab`, which tells all about the runs that wrote to OUT; `.FILE.hyperslab` beside one FILE.

lock                     held (flock) by the driver that owns OUT; a dead owner does not hold it
cancel                   exists when somebody asked the run to stop
manifest.json            the result of every task, when a run has ended
committed.jsonl          which allocation every finished volume was, its size and time
replaced.json            volumes of an earlier conversion, until one with --overwrite has replaced them
published.json           what of a conversion to a URL has been sent
replacing                exists while several files get their names, so that some may be old and some new
gzip/                    indexes of gzip files that tasks read, until the run is done
run-0001/                one folder per submission, never changed by a later one
    plan.json            what was asked for, and the fingerprint
    status.json          pid, host, state, counts
    journal/*.jsonl      outcomes, one file per slot and worker process
    partials/*.pickle    running results of a reduction, and those of an engine's own tree
    result/              of a reduction, while it is being written
    worker.log           what functions and engines printed
    trace.parquet        every phase of every attempt
    summary.json, provenance.json, failures.json, report.html
    comparison.html      beside other runs, once that was asked for
  of engines that hand out batches (Dask, Spark):
    orders.*.pickle      what all batches of a round share
    running/             marks: which task each batch is at, while the round runs
    tree.*.json          bytes that the engine's reduction tree has moved
    hyperslab.zip        this package, for workers without it
    spark-events/        Spark's own record
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hyperslab.errors import OutputBusy, UsageError
from hyperslab.replacement import FOLDER

LOCK_ATTEMPTS = 3
LOCK_PAUSE_S = 0.02
State = Literal["running", "done", "failed", "stopped", "cancelled", "died"]


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The records beside the outputs in `out`."""

    out: Path
    file: str = ""
    "Name of the one file in `out` that the run writes; '' where the directory is the run's own."

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """That of an output directory, or of a file that a run has written by itself."""
        place = Path(path)
        own = cls(place.parent, place.name)
        return own if place.name and own.root.is_dir() else cls(place)

    @classmethod
    def of_records(cls, root: Path) -> RunDirectory | None:
        """The one whose `root` this is; None for a folder that was copied to another place."""
        if not root.name.endswith(FOLDER):
            return None
        return cls(root.parent, root.name.removesuffix(FOLDER)[1:])

    @property
    def root(self) -> Path:
        return self.out / (f".{self.file}{FOLDER}" if self.file else FOLDER)

    def submissions(self) -> list[Path]:
        """Folders of all submissions, oldest first."""
        return sorted(self.root.glob("run-[0-9]*"), key=lambda path: int(path.name.removeprefix("run-")))

    def latest(self) -> Path:
        """Folder of the newest submission. Raises UsageError when OUT holds none."""
        found = self.submissions()
        if not found:
            raise UsageError(
                f"{self.out} holds no run: give the directory of a 'hyperslab run', or what a 'convert' wrote"
            )
        return found[-1]

    def plans(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every submission's folder and plan, oldest first."""
        for folder in self.submissions():
            try:
                yield folder, load_json(folder / "plan.json")
            except (FileNotFoundError, ValueError):
                continue  # it died before it had a plan, or the disk lost it: nothing it did can be matched

    def new_submission(self, plan: Mapping[str, Any]) -> Path:
        """A fresh folder with this plan in it."""
        number = max((int(p.name.removeprefix("run-")) for p in self.submissions()), default=0) + 1
        folder = self.root / f"run-{number:04d}"
        for part in ("journal", "partials"):
            (folder / part).mkdir(parents=True)
        save_json(folder / "plan.json", plan)
        return folder

    def is_owned(self) -> bool:
        """True while a live driver holds the lock."""
        if not (self.root / "lock").exists():
            return False
        try:
            os.close(_lock(self.root / "lock", fcntl.LOCK_SH))
        except BlockingIOError:
            return True
        return False

    def own(self) -> int:
        """Take the lock; returns the descriptor that holds it until closed. Raises OutputBusy."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            fd = _lock(self.root / "lock")
        except BlockingIOError:
            owner = (self.root / "lock").read_text().strip() or "another process"
            raise OutputBusy(
                f"{self.out} is in use by {owner}: wait for it, or stop it with 'hyperslab cancel'"
            ) from None
        except OSError as error:
            raise UsageError(f"{self.out} cannot be written: {error.strerror}; choose another directory") from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        (self.root / "cancel").unlink(missing_ok=True)
        return fd

    def ask_to_cancel(self) -> None:
        (self.root / "cancel").touch()

    def is_cancelled(self) -> bool:
        return (self.root / "cancel").exists()


def save_status(folder: Path, state: State, counts: Mapping[str, Any]) -> None:
    """Say what a submission is doing, for `hyperslab status`."""
    about = {"state": state, "pid": os.getpid(), "host": socket.gethostname(), "time": time.time(), **counts}
    save_json(folder / "status.json", about)


def save_json(path: Path, value: Any) -> None:
    """Write JSON under its final name in one step."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, default=_plain)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_json(path: Path) -> Any:
    return json.loads(path.read_text())


def _plain(value: Any) -> Any:
    """What JSON has no word for: NumPy scalars and arrays as numbers and lists, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _lock(path: Path, kind: int = fcntl.LOCK_EX) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < LOCK_ATTEMPTS - 1:
                time.sleep(LOCK_PAUSE_S)  # somebody may only be looking whether it is taken
        else:
            return fd
    os.close(fd)
    raise BlockingIOError(path)
