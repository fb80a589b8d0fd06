"""shim.c, compiled: deaths, errors, short writes and delays at chosen system calls of a command."""

from __future__ import annotations

import errno
import random
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
KINDS = (
    "open",
    "create",
    "write",
    "pwrite",
    "pread",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "fsync",
    "syncfs",
    "truncate",
    "allocate",
    "flock",
)
"In the order of the counters."
FULL = ("ENOSPC", "EDQUOT", "EIO")
ERRORS: Mapping[str, tuple[str, ...]] = {
    "open": ("EIO", "EINTR", "EMFILE"),
    "create": (*FULL, "EINTR", "EMFILE", "EACCES"),
    "write": (*FULL, "EINTR"),
    "pwrite": (*FULL, "EINTR"),
    "pread": ("EIO", "EINTR"),
    "rename": FULL,
    "link": FULL,
    "unlink": ("EIO", "EACCES"),
    "mkdir": FULL,
    "fsync": (*FULL, "EINTR"),
    "syncfs": FULL,
    "truncate": ("EIO", "EINTR"),
    "allocate": ("EIO", "EINTR", "ENOSPC"),
    "flock": ("EINTR", "ENOLCK"),
}
"What a call may fail with (its manual page)."
MANY = 10**6
TRANSFERS = ("write", "pwrite", "pread")


@dataclass(frozen=True, slots=True)
class Rule:
    """What befalls which calls."""

    kind: str
    first: int
    "Number of the first call that it befalls, among all calls of the kind; the first is 1."
    times: int
    deed: str
    error: str = ""
    number: int = 0
    "Exit status, or milliseconds."

    @property
    def label(self) -> str:
        """What the table calls it."""
        return f"{self.error or self.deed} at {self.kind}"

    @property
    def is_deadly(self) -> bool:
        return self.deed in ("kill", "killafter", "exit")

    def text(self) -> str:
        """As shim.c reads it."""
        number = getattr(errno, self.error) if self.error else self.number
        return f"{self.kind} {self.first} {self.times} {self.deed} {number}"


def missing() -> str:
    """Why it cannot be compiled here; empty if it can."""
    return (
        ""
        if shutil.which("gcc")
        else "there is no gcc here: install the Debian package build-essential"
    )


def compiled(folder: Path) -> Path:
    """Compile it into a folder, unless it is there."""
    library = folder / "shim.so"
    if not library.exists():
        strict = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(["gcc", *strict, "-o", library, SOURCE, "-ldl"], check=True)
    return library


def environment(
    library: Path, root: Path, notes: Path, rule: Rule | None = None, *, pace_us: int = 0
) -> dict[str, str]:
    """Variables of a command whose calls below `root` are counted and disturbed; `notes` is a
    folder of its own.
    """
    notes.mkdir(exist_ok=True)
    counts = notes / "counts"
    if not counts.exists():
        counts.write_bytes(bytes(8 * len(KINDS)))
    variables = {
        "LD_PRELOAD": library,
        "SHIM_ROOT": root,
        "SHIM_COUNTS": counts,
        "SHIM_LOG": notes / "log",
    }
    more = {"SHIM_RULE": rule.text()} if rule else {}
    return (
        {name: str(value) for name, value in variables.items()}
        | more
        | {"SHIM_PACE_US": str(pace_us)}
    )


def counted(notes: Path) -> dict[str, int]:
    """How many calls of each kind there were."""
    raw = (notes / "counts").read_bytes()
    return dict(zip(KINDS, struct.unpack(f"={len(KINDS)}Q", raw), strict=True))


def hits(notes: Path) -> int:
    """How many calls were disturbed."""
    return sum(line.startswith("hit ") for line in _lines(notes))


def unsynced(notes: Path) -> set[int]:
    """Inodes of files that were written to, and not synced afterwards."""
    dirty: set[int] = set()
    for line in _lines(notes):
        what, inode, *_ = line.split(" ", 2)
        if what == "dirty":
            dirty.add(int(inode))
        elif what == "sync":
            dirty.discard(int(inode))
        elif what == "syncfs":
            dirty.clear()
    return dirty


def _lines(notes: Path) -> list[str]:
    log = notes / "log"
    return log.read_text(errors="replace").splitlines() if log.exists() else []


def draw(chance: random.Random, counts: Mapping[str, int]) -> Rule:
    """A rule for one of the calls that an undisturbed command has made."""
    kind = chance.choice([kind for kind, count in counts.items() if count])
    first = chance.randint(1, counts[kind])
    deeds = ["kill", "killafter", "exit", "error", "error", "error", "sleep"]
    deed = chance.choice([*deeds, "short"] if kind in TRANSFERS else deeds)
    if deed == "error":
        return Rule(kind, first, chance.choice((1, 1, 3, MANY)), deed, chance.choice(ERRORS[kind]))
    if deed == "sleep":
        return Rule(kind, first, 1, deed, number=chance.choice((50, 300, 1500)))
    return Rule(
        kind,
        first,
        chance.choice((1, 5)) if deed == "short" else 1,
        deed,
        number=9 if deed == "exit" else 0,
    )
