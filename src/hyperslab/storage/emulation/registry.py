"""Registry: which emulated tiers this user has on this host, in a folder that ends with the boot.

A tier is written down before it is made, so that none is there that nobody knows of. A mount is
ours by the name of its source, which holds the tier's own; nothing else is ever unmounted.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Literal, Self

from hyperslab.storage import runtime
from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.mounted import SOURCE, is_emulated
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.mounts import Mount, mounts
from hyperslab.storage.whole import replace_text

State = Literal["mounted", "silent", "stale", "elsewhere", "gone"]
"""States of a tier: there; there, with a program that does not answer in time; there, with nobody
who answers ('Transport endpoint is not connected'); mounted where this process does not see it; no
more there.
"""
UNKNOWN = "unknown"
"Kind of a tier that is mounted, and not written down."
ANSWER_LIMIT_S = 5.0
_FOLDER = "hyperslab-tiers"
LAST = "end"
"Suffix of what the program of a tier has counted until it ended."


@dataclass(frozen=True, slots=True)
class Emulation:
    """An emulated tier."""

    name: str
    kind: str
    directory: str
    "Directory where it is, without links."
    backing: str
    "Directory that holds the files."
    settings: Settings
    made_directory: bool = False
    "Whether the directory was made for it."
    pid: int | None = None
    "Process of its program; None while that is being started."
    started: int | None = None
    "Time at which that process started, in clock ticks since the boot."
    measured: tuple[Measured, ...] = ()
    parts: tuple[str, ...] = ()
    "Names of what else was made for it, such as network namespaces."

    @property
    def source(self) -> str:
        """Source of its mount, as the kernel names it."""
        return SOURCE + self.name

    @property
    def subtype(self) -> str:
        """Type of its mount, after that of FUSE: which kinds are of one machine, `mounts` knows."""
        return SOURCE + self.kind

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Tier of such a record."""
        settings = Settings.from_json(record.pop("settings"))
        measured = tuple(Measured(**one) for one in record.pop("measured"))
        parts = tuple(record.pop("parts"))
        return cls(**record, settings=settings, measured=measured, parts=parts)


def place_of_folder() -> Path:
    """Where the folder of this user's records is, or will be."""
    return runtime.place_of(_FOLDER)


def folder() -> Path:
    """The folder of this user's records, made if it is not there. Raises UsageError where it is
    somebody else's.
    """
    return runtime.folder(_FOLDER)


def locked() -> AbstractContextManager[Path]:
    """The folder, in which nobody else makes or removes a tier meanwhile."""
    return runtime.locked(_FOLDER)


def record(emulation: Emulation) -> None:
    """Write a tier down, or what it has become."""
    path = folder() / f"{emulation.name}.json"
    replace_text(path, json.dumps(emulation.as_json(), indent=1) + "\n")


def forget(emulation: Emulation) -> None:
    """Remove all that is written down of a tier."""
    for suffix in ("json", "log", "sock", LAST):
        (folder() / f"{emulation.name}.{suffix}").unlink(missing_ok=True)


def recorded() -> list[Emulation]:
    """All tiers that are written down, as far as this version reads that, in the order of their
    directories.
    """
    found = []
    for path in folder().glob("*.json"):
        emulation = _read(path)
        if emulation is not None:
            found.append(emulation)
    return sorted(found, key=lambda emulation: emulation.directory)


def known() -> list[Emulation]:
    """All tiers of this user that are written down or mounted here."""
    found = recorded()
    sources = {emulation.source for emulation in found}
    for mount in mounts():
        is_own = mount.option("user_id") == str(os.geteuid())
        if is_emulated(mount) and is_own and mount.source not in sources:
            found.append(_unrecorded(mount))
    return found


def recorded_as(mount: Mount) -> Emulation | None:
    """The tier that this user has mounted there; None where it is not written down. Nothing is made
    for the question.
    """
    return _read(place_of_folder() / f"{mount.source.removeprefix(SOURCE)}.json")


def _read(path: Path) -> Emulation | None:
    """The tier of a record; None where it was removed meanwhile, or is of another version: its
    mount then tells what can be told.
    """
    try:
        return Emulation.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _unrecorded(mount: Mount) -> Emulation:
    """What can be told of a tier by its mount alone."""
    name = mount.source.removeprefix(SOURCE)
    place = mount.mount_point
    return Emulation(name, UNKNOWN, place, backing=place, settings=Settings())


def with_process(emulation: Emulation, pid: int) -> Emulation:
    """The same tier, with the process of its program."""
    return replace(emulation, pid=pid, started=started_of(pid))


def started_of(pid: int) -> int | None:
    """The time at which a process started, in clock ticks since the boot; None of one that has
    ended.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def is_alive(emulation: Emulation) -> bool:
    """Whether its program still runs: the same process, and no later one of that number."""
    if emulation.pid is None or emulation.started is None:
        return False
    return started_of(emulation.pid) == emulation.started


def mount_here(emulation: Emulation) -> Mount | None:
    """The mount of a tier, as this process sees it."""
    found = [mount for mount in mounts() if mount.source == emulation.source]
    return next(iter(found), None)


def state_of(emulation: Emulation) -> State:
    """The state of a tier."""
    mount = mount_here(emulation)
    if mount is None:
        return "elsewhere" if is_alive(emulation) else "gone"
    found: Queue[State] = Queue()
    asking = threading.Thread(target=_ask, args=(mount.mount_point, found), daemon=True)
    asking.start()
    try:
        return found.get(timeout=ANSWER_LIMIT_S)
    except Empty:
        return "silent"


def _ask(place: str, found: Queue[State]) -> None:
    """Ask a file system whether it answers: a thread that waits for it cannot be interrupted."""
    try:
        os.statvfs(place)
    except OSError:
        found.put("stale")
    else:
        found.put("mounted")
