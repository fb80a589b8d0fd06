"""Operations counted by a file system that passes all on: what reaches the files of a directory,
whoever asks.

It is the program of emulated tiers, which makes nothing later. What the kernel knows by itself, as
names and attributes that it has just looked up, it does not ask for, as on any file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.accesses import Count, Totals
from hyperslab.errors import UsageError
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.storage.emulation import program
from hyperslab.storage.emulation.making import pass_through
from hyperslab.storage.emulation.removing import outlive, remove

WAY = "fuse"
NOTE = (
    "operations that reached the files of this directory, whoever asked; not those that the kernel"
    " has answered by itself"
)
NAMES = {
    "open": ("open",),
    "create": ("create", "mknod"),
    "stat": ("lookup", "getattr", "readlink", "statfs", "getxattr", "listxattr"),
    "list": ("opendir", "readdir"),
    "mkdir": ("mkdir",),
    "unlink": ("unlink", "rmdir"),
    "rename": ("rename",),
    "link": ("link", "symlink"),
    "attributes": ("setattr", "setxattr", "removexattr"),
    "truncate": ("fallocate",),
    "read": ("read",),
    "write": ("write",),
    "sync": ("fsync",),
}
"Operations by the names that the program has for what the kernel asks of it."
_NBYTES = {"read": "read_nbytes", "write": "written_nbytes"}


def why_not(directory: Path | None) -> str:
    """What keeps a directory from being counted so, in a sentence; '' for nothing."""
    if directory is None:
        return "it counts on one directory, and none was given (--on DIR)"
    try:
        program.require_fuse()
        program.PROGRAM.find()
    except UsageError as why:
        return str(why)
    return ""


def count(
    command: Sequence[str], environment: Mapping[str, str], directory: Path
) -> tuple[int, Totals]:
    """Run a command to its end: its exit status as a shell has it, and the operations that reached
    a directory meanwhile. Whoever has files of it open then, as what the command has left in the
    background, is waited for. Raises UsageError where there is no such program or directory.
    """
    emulation = pass_through(directory)
    try:
        before = program.counters(emulation)
        # should this process be killed, the command goes on, and takes the directory along
        handed_on = program.lifelines(emulation)
        status = run_in_foreground(command, environment, pass_fds=handed_on)
        outlive(emulation)
        after = program.last_counters(emulation)
    finally:
        remove(emulation, by_force=True)
    operations = {name: _between(name, before, after) for name in NAMES}
    told = {name: one for name, one in operations.items() if one.requested}
    return status, Totals(WAY, str(directory), told, (NOTE,))


def _between(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Count:
    """What was asked for between two reports of the program."""
    first, last = before["operations"], after["operations"]
    nbytes = 0
    if name in _NBYTES:
        nbytes = after[_NBYTES[name]] - before[_NBYTES[name]]
    return Count(sum(last[one] - first[one] for one in NAMES[name]), None, nbytes, None)
