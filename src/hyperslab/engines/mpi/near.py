"""Near: ranks that the driver knows by the numbers of their processes, and the death of one.

Launchers do not always notice that a rank has died, or let the others wait for it; so the driver
looks itself. A number alone is no process: hosts may have the same name, and processes on one
kernel may be numbered apart. A rank is near that has found the driver's lifeline.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.engines.lifeline import Lifeline
from hyperslab.errors import CONTINUES, RunStopped

Ranks = Sequence[Mapping[str, Any]]
"What each rank has told of itself."


class RankDied(RunStopped):
    """A rank has died, or what started it, and MPI cannot go on without it."""

    def __init__(self, sentence: str, pid: int | None) -> None:
        """`pid` is its process, None where nobody knows which one it was."""
        super().__init__(sentence, CONTINUES)
        self.pid = pid


def is_near(driver: Lifeline) -> bool:
    """Whether the driver knows this process by the number that it has for itself."""
    return driver.is_seen() and os.readlink("/proc/self") == str(os.getpid())


def near(ranks: Ranks) -> dict[int, int]:
    """The process ids of the ranks that are near."""
    return {number: rank["pid"] for number, rank in enumerate(ranks) if rank["is_near"]}


def gone(ranks: Ranks) -> list[int]:
    """The ranks that are seen to have ended."""
    return [number for number, pid in near(ranks).items() if _has_ended(pid)]


def death(name: str, rank: Mapping[str, Any], how: str) -> RankDied:
    """The end of a rank of this name, which has died so."""
    pid: int = rank["pid"]
    who = f"{name} of MPI, process {pid} on {rank['host']},"
    return RankDied(f"{who} {how}", pid)


def _has_ended(pid: int) -> bool:
    """Whether a process of this host is gone, or waits for its parent to hear that it is."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    except PermissionError:  # it is there
        return False
    return state in "ZX"
