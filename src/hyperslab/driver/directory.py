"""RunDirectory: `OUT/.hyperslab`, which tells all about the runs that wrote to OUT.

Beside one FILE it is `.FILE.hyperslab`.

lock                     held (flock) by the driver that owns OUT; a dead owner does not hold it.
                         Calls that write to OUT at the same time share it
claims                   bytes held (fcntl) by such calls, of what each does alone
calls.json               what submissions have tried and done, as calls need it
cancel                   exists when somebody asked the run to stop
manifest.json            the result of every task, when a run has ended
committed.jsonl          which allocation every finished volume was, its size and time
replaced.json            outputs of earlier runs, until one that was begun with --overwrite has
                         replaced them
blocks/                  files of blocks until then, under the names that they are to have
group.json               files that group levels of earlier versions have made, which were no runs
statements/              what commands say of all that is there, for one text of them all
published.json           the files of a conversion to a URL that have been sent
replacing                exists while several files get their names: some may be old
gzip/                    indexes of gzip files that tasks read, until the run is done
run-0001/                one folder per submission, never changed by a later one
    plan.json            what was asked for, and the fingerprint
    status.json          pid, host, state, counts
    jobs.json            jobs of a batch system, as long as they may be there
    detached.pickle      of a run that was left to jobs: what the last of them needs
    driver.log           what that one printed
    workers              held (flock) by workers at tasks; workers.ended: none may write any more
    journal/*.jsonl      outcomes, one file per slot and worker process
    logs/*.log           what commands have printed, one file per slot and worker process
    private/             folders of commands under way, until they have ended
    staging.json         tiers on which files of this submission may lie
    turns/               locks of those who read in turns
    partials/*.pickle    running results of a reduction, and those of an engine's own tree
    result/              of a reduction, while it is being written
    worker.log           what functions and engines printed
    scratch.*.log        what became of the scratch of workers, one file per host
    trace.parquet        every phase of every attempt
    accesses.parquet     operations on files, where they were counted
    messages.parquet     messages of the engine's processes, where they were kept
    summary.json, provenance.json, failures.json, report.html
    comparison.html      beside other runs, once that was asked for
  of calls:
    lock, manifest.json  as above, of this call
  of engines that hand out batches:
    orders.*.pickle*     what all batches of a round share, and the batches of commands
    running/             marks: which task each batch is at, while the round runs
    tree.*.json          bytes that the engine's reduction tree has moved
    messages/*.jsonl     what Dask's processes have recorded, until it stops
    hyperslab.zip        this package, for workers without it
    spark-events/        Spark's own record
    joblog.*.tsv         GNU Parallel's own record, of each round
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hyperslab import engines
from hyperslab.errors import DamagedRecord, OutputBusy, RunStopped, UsageError
from hyperslab.storage import claims, fence, renaming
from hyperslab.storage.full import why
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.storage.replacement import FOLDER

STATUS = "status.json"
"Record of a submission that its driver writes every second while tasks run."
_SPARE = "spare.json.part"
"Takes room that how a run ended is written to on a full disk; swept as a record that was begun."
_SPARE_NBYTES = 8192
"Two blocks of most file systems."
LEAVE_LIMIT_S = 60.0
"How long a resumed run waits for workers of the one before."
PLAN = "plan.json"
_PREFIX = "run-"
"How names of folders of submissions begin."
LOCK, CLAIMS, LEDGER, CANCEL = "lock", "claims", "calls.json", "cancel"
GATHERED = "group.json"
"Record of the files that group levels of earlier versions have made, which were no runs."
LOCK_ATTEMPTS = 3
LOCK_PAUSE_S = 0.02
RunState = Literal["running", "done", "failed", "stopped", "cancelled", "died"]


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The records beside the outputs in `out`."""

    out: Path
    file: str = ""
    "Name of the one file in `out` that the run writes; '' where the directory is the run's own."
    call: str = ""
    """Name of the submission that keeps records of its own, as others write to `out` at the same
    time; '' where a run has the directory to itself.
    """
    before: tuple[Path, ...] = ()
    "Earlier submissions that a call goes on with: others do not concern it."

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Records of an output directory, or of a file that a run has written by itself."""
        place = Path(path)
        own = cls(place.parent, place.name)
        if place.name and own.root.is_dir():
            return own
        return cls(place)

    @classmethod
    def of_records(cls, root: Path) -> RunDirectory | None:
        """The one whose `root` this is; None for a folder that was copied to another place."""
        if not root.name.endswith(FOLDER):
            return None
        return cls(root.parent, root.name.removesuffix(FOLDER)[1:])

    @classmethod
    def of_submission(cls, folder: Path) -> RunDirectory | None:
        """The one that keeps the records of a submission; None for a folder that was copied to
        another place.
        """
        directory = cls.of_records(folder.parent)
        if directory is None or not (folder / LOCK).exists():
            return directory
        return replace(directory, call=folder.name)

    @property
    def place(self) -> Path:
        """What the verbs are given to mean this run."""
        return self.out / self.file

    @property
    def top(self) -> Path:
        """Folder of all records beside the outputs."""
        if self.file:
            return self.out / f".{self.file}{FOLDER}"
        return self.out / FOLDER

    @property
    def root(self) -> Path:
        """Folder of the records of this run: of all, or of one call."""
        return self.top / self.call

    @property
    def replaced(self) -> Path:
        """The note of what the run under way is going to replace; there until it has."""
        return self.root / "replaced.json"

    @property
    def waiting(self) -> Path:
        """Folder of files of blocks until those that they replace may go."""
        return self.root / "blocks"

    @property
    def blocks(self) -> Path:
        """Folder that tasks write files of blocks to."""
        if self.waiting.is_dir():
            return self.waiting
        return self.out

    @property
    def files(self) -> set[str] | None:
        """Names of the files that the run may write; None where the directory is its own."""
        if self.file:
            return {self.file}
        return None

    def new_parents(self) -> str:
        """The topmost folder above what -o names that is not there yet, in words; '' where all
        are.
        """
        above = self.place.absolute().parent
        missing = [folder for folder in (above, *above.parents) if not os.path.lexists(folder)]
        if not missing:
            return ""
        return f"created {missing[-1]}, which did not exist, for {self.place.absolute()}"

    def missing(self) -> list[Path]:
        """The folder of the records and those above it that are not there yet, innermost first."""
        root = self.root.absolute()
        return [folder for folder in (root, *root.parents) if not os.path.lexists(folder)]

    def submissions(self) -> list[Path]:
        """Folders of all submissions, oldest first; of a call those that concern it."""
        if not self.call:
            return [folder for _, folder in self.numbered()]
        own = [self.root] if (self.root / PLAN).exists() else []
        return [*self.before, *own]

    def newest(self) -> Path | None:
        """Folder of the newest submission; None where OUT holds none."""
        return next(reversed(self.submissions()), None)

    def numbered(self) -> list[tuple[int, Path]]:
        """Numbers and folders of all submissions, oldest first."""
        found = ((path.name.removeprefix(_PREFIX), path) for path in self.top.glob(f"{_PREFIX}*"))
        return sorted((int(number), path) for number, path in found if number.isdecimal())

    def latest(self) -> Path:
        """Folder of the newest submission. Raises UsageError when OUT holds none."""
        found = self.newest()
        if found is None:
            raise UsageError(
                f"{self.out} holds no run: give the output of a 'hyperslab run' or 'hyperslab"
                " convert'"
            )
        return found

    def plans(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every submission's folder and plan, oldest first; without those that began nothing.

        Raises DamagedRecord for a plan that is lost of a submission that has worked: what it did
        cannot be matched, and may have taken the place of what others did.
        """
        for folder in self.submissions():
            plan = self.plan_of(folder)
            if plan is not None:
                yield folder, plan

    def plan_of(self, folder: Path) -> dict[str, Any] | None:
        """The plan of a submission; None where it began nothing. Raises DamagedRecord."""
        remedy = (
            f"what {folder.name} did cannot be matched with this command; choose another output,"
            f" or remove it all with 'hyperslab clean --all {self.place}'"
        )
        try:
            return load_record(folder / PLAN, remedy)
        except FileNotFoundError:
            if _has_begun(folder):
                raise DamagedRecord(f"{folder / PLAN} is missing: {remedy}") from None
        except DamagedRecord:
            if _has_begun(folder):
                raise
        return None  # it died before it had a plan, or before a task could run

    def new_submission(self, plan: Mapping[str, Any]) -> Path:
        """A fresh folder with this plan in it; that of a call is there already."""
        folder = self.root
        if not self.call:
            folder = self.new_folder()
        for part in ("journal", "partials"):
            (folder / part).mkdir(parents=True)
        fence.raise_fence(folder)
        save_record(folder / PLAN, plan)
        (folder / _SPARE).write_bytes(os.urandom(_SPARE_NBYTES))
        return folder

    def folder_of(self, number: int) -> Path:
        """Folder of the submission with a number."""
        return self.top / f"{_PREFIX}{number:04d}"

    def number_of(self, folder: Path) -> int:
        """Number of the submission that a folder is of."""
        return int(folder.name.removeprefix(_PREFIX))

    def new_folder(self) -> Path:
        """A folder for another submission, which nobody else has. Raises OSError."""
        number = self._last_number() + 1
        while True:
            folder = self.folder_of(number)
            try:
                folder.mkdir(parents=True)
            except FileExistsError:  # which another host has made, and this one does not list yet
                number += 1
            else:
                return folder

    def _last_number(self) -> int:
        """The highest number that a submission has had, whose folder may be gone: calls remember
        it.
        """
        there = [number for number, _ in self.numbered()]
        with suppress(FileNotFoundError, DamagedRecord):
            there.append(load_record(self.top / LEDGER, "")["newest"])
        return max(there, default=0)

    @property
    def unsynced(self) -> Path:
        """A file that is there when storage has failed to take something: what is in memory, or
        reported as done, may not be what is there.
        """
        return self.root / "unsynced"

    def doubt(self, paths: Iterable[Path]) -> None:
        """Note that storage has failed to take files or folders, and forget what memory has of
        them, so that who reads them reads what is there. Raises OSError.
        """
        self.unsynced.touch()
        for path in paths:
            renaming.forget(path)

    def secure(self, folder: Path) -> None:
        """Wait until the journal of a submission is on storage, and the names above its records.
        Raises OSError.
        """
        journal = folder / "journal"
        above = (self.root, self.top, self.out, self.out.parent)
        places = dict.fromkeys((journal, folder, *above))
        with ThreadPoolExecutor() as beside:  # the storage then waits once for several
            waiting = [beside.submit(renaming.synchronise, file) for file in journal.iterdir()]
            waiting += [beside.submit(renaming.synchronise, one, only_names=True) for one in places]
        for one in waiting:
            one.result()

    def is_owned(self) -> bool:
        """True while a live driver holds the lock, or calls share it."""
        if not (self.root / LOCK).exists():
            return False
        try:
            os.close(_lock(self.root / LOCK, fcntl.LOCK_SH))
        except BlockingIOError:
            return True
        return self._is_shared()

    def own(self) -> int:
        """Take the lock; returns the descriptor that holds it until closed. Raises OutputBusy."""
        fd = self._held(fcntl.LOCK_EX)
        _sign(fd)
        if not self.call:
            self.forget_cancel()
        self.sweep()
        return fd

    def share(self) -> int:
        """Share the lock with other calls, so that nobody owns the directory; returns the
        descriptor that holds it until closed. Raises OutputBusy.
        """
        return self._held(fcntl.LOCK_SH)

    def _held(self, kind: int) -> int:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            return _lock(self.root / LOCK, kind)
        except BlockingIOError:
            raise OutputBusy(
                f"{self.out} is in use by {self._owner()}: wait for it, or stop it with 'hyperslab"
                " cancel'"
            ) from None
        except OSError as error:
            raise UsageError(
                f"{self.out} cannot be written ({why(error, self.out)}); choose another directory"
            ) from error

    def _is_shared(self) -> bool:
        return claims.is_any_taken(self.root / CLAIMS)

    def _owner(self) -> str:
        """Who holds the lock, in words."""
        if self._is_shared():
            return "another call"
        return (self.root / LOCK).read_text(errors="replace").strip() or "another process"

    def sweep(self) -> None:
        """Remove what drivers and workers that were killed had begun to write; no other may write
        now.
        """
        begun = ("*.json.part", "run-*/*.json.part", "run-*/partials/*.part", "run-*/result/*.part")
        for path in [path for pattern in begun for path in self.root.glob(pattern)]:
            path.unlink(missing_ok=True)

    def await_workers(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Let no worker of any submission write any more, which the owner alone may do. Raises
        OutputBusy.

        `tell` takes a sentence about why this takes long.
        """
        self.await_workers_of(self.submissions(), tell)

    def await_workers_of(self, folders: Sequence[Path], tell: Callable[[str], None]) -> None:
        """The same for some submissions, whose drivers have ended. Raises OutputBusy."""
        for folder in folders:
            end_workers(folder)
        for folder in folders:
            if not fence.is_left(folder, 0):
                tell(
                    f"waiting for {_workers(folder)} to leave the tasks of an earlier run, up to"
                    f" {LEAVE_LIMIT_S:.0f} s"
                )
                self._await_leaving(folder)

    def _await_leaving(self, folder: Path) -> None:
        if fence.is_left(folder, LEAVE_LIMIT_S, self.require_not_cancelled):
            return
        raise OutputBusy(
            f"{self.out}: {_workers(folder)} are still running tasks of an earlier run and would"
            " overwrite this run's results: stop them (restart the workers of a cluster that you"
            " started), or try again later"
        )

    def require_not_cancelled(self) -> None:
        """Raise RunStopped when somebody has asked the run to stop."""
        if self.is_cancelled():
            raise RunStopped("the run was cancelled", "the same command with --resume continues it")

    def asked_to_cancel_at(self) -> int:
        """When somebody has asked last, by the clock of the storage, in ns; 0 where nobody has."""
        try:
            return (self.top / CANCEL).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def ask_to_cancel(self) -> None:
        (self.top / CANCEL).touch()

    def is_cancelled(self) -> bool:
        return (self.top / CANCEL).exists()

    def forget_cancel(self) -> None:
        """Let nothing be left of what earlier runs were asked; nobody else may run now."""
        (self.top / CANCEL).unlink(missing_ok=True)


def end_workers(folder: Path) -> None:
    """Let no worker of a submission, whose driver has ended, begin or write anything any more."""
    fence.end(folder)
    engines.end_jobs(folder)


def save_status(folder: Path, state: RunState, counts: Mapping[str, Any]) -> None:
    """Say what a submission is doing, for `hyperslab status`; how it ended also on a full disk, in
    room that was kept for this. Raises OSError.
    """
    about = {
        "state": state,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "time": time.time(),
        **counts,
    }
    if state != "running":
        (folder / _SPARE).unlink(missing_ok=True)
    save_record(folder / STATUS, about)


def load_status(folder: Path) -> dict[str, Any]:
    """What a submission has said last; {} when it has said nothing. Raises DamagedRecord."""
    remedy = (
        "the state of the run is not known; the same command with --resume does"
        " only what is missing, and 'hyperslab verify' checks the outputs"
    )
    path = folder / STATUS
    if not path.is_file():
        return {}
    return load_record(path, remedy)


def _workers(folder: Path) -> str:
    """The workers that are at tasks of a submission, in words."""
    pids = fence.workers(folder)
    if not pids:
        return "workers of another host or container"
    if pids == [os.getpid()]:
        return "threads of this process"
    noun = "worker"
    if len(pids) > 1:
        noun = "workers"
    return f"{noun} {', '.join(map(str, pids))} on {socket.gethostname()}"


def _has_begun(folder: Path) -> bool:
    """Whether a submission has come so far that its workers, which open their journals first, may
    have done tasks.
    """
    return any(folder.glob("journal/*")) or any(folder.glob("partials/*"))


def _sign(lock: int) -> None:
    """Say in a lock who holds it; one that is not signed is not held. Raises OSError."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    except OSError:
        os.close(lock)
        raise


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
