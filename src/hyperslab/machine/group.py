"""Group: a control group for the processes of a command, in which the kernel adds up what they take
of the processors, whoever waits for them.

The counters of a process tree lose those that nobody waits for: the daemon of PySpark ignores the
end of its workers, whose time is then nobody's. Groups are made where the kernel allows it, below
the own one (root, or a delegated group of version 2).

Held by tests/machine/test_group.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.machine.host import cgroup_folders, lines_of, words_of

CGROUP_ROOT = Path("/sys/fs/cgroup")
PREFIX = "hyperslab-group-"
MEMBERS = "cgroup.procs"
_ATTEMPTS = 20
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Group:
    """A control group of our own."""

    folder: Path

    def add(self, pid: int) -> None:
        """Put a process into it; what that starts from now on is in it, too. Raises OSError."""
        (self.folder / MEMBERS).write_text(str(pid))

    def cpu_s(self) -> float:
        """Seconds that its processes have taken of the processors, those that have ended too; 0
        where it was removed before a process was in it.
        """
        return _spent_s(self.folder) or 0.0


@contextmanager
def own_group(cgroups: Path = CGROUP_ROOT) -> Iterator[Group | None]:
    """A new group, which ends with the block, empty by then; None where none can be made."""
    group = _made(cgroups)
    try:
        yield group
    finally:
        if group is not None:
            _remove(group.folder)


def _made(cgroups: Path) -> Group | None:
    places = cgroup_folders(cgroups, "cpuacct")
    parents = [one for one in places if (one / MEMBERS).is_file() and _spent_s(one) is not None]
    if not parents:
        return None
    for left in parents[-1].glob(f"{PREFIX}*"):  # by a process that was killed
        with suppress(OSError):  # somebody's, in use
            left.rmdir()
    folder = parents[-1] / f"{PREFIX}{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    return Group(folder)


def _spent_s(folder: Path) -> float | None:
    """Processor time of a group: cpuacct.usage of version 1, cpu.stat of version 2."""
    nanoseconds = words_of(folder / "cpuacct.usage")
    if nanoseconds:
        return int(nanoseconds[0]) / 1e9
    for line in lines_of(folder / "cpu.stat"):
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            return int(value) / 1e6
    return None


def _remove(folder: Path) -> None:
    """Remove an empty group, whose last process may still be leaving it; one that cannot be removed
    goes when the next one is made.
    """
    for _ in range(_ATTEMPTS):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(_PAUSE_S)
