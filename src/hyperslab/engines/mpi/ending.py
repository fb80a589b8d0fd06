"""Ending: which rank has died of what, in the words of whoever started it.

A rank is no child of the driver: mpiexec, or its daemon on another host, is the one to know, and
each MPI says it in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.engines.environment import FIRST_SIGNAL, how_it_ended

_SAYINGS = (
    # MPICH, Intel MPI, MVAPICH
    r"PID (?P<pid>\d+) RUNNING AT \S+\s+=\s+EXIT CODE: (?P<signal>\d+)(?s:.*?)\(signal \d+\)",
    r"PID (?P<pid>\d+) RUNNING AT \S+\s+=\s+EXIT CODE: (?P<code>\d+)",
    # Open MPI
    r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<signal>\d+)",
    r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)",
    # Slurm
    r"srun: error: \S+: task (?P<rank>\d+): (?P<words>.*)",
)
_NO_SLOTS = "not enough slots available"


@dataclass(frozen=True, slots=True)
class Dead:
    """A rank that has died first."""

    rank: int
    how: str
    "How it did, as the end of a sentence: was killed by SIGKILL."


def first_dead(said: str, ranks: Sequence[Mapping[str, Any]]) -> Dead | None:
    """The rank that died first; None where nothing that was said names it.

    `ranks` has the process id, `pid`, of each rank.
    """
    for saying in _SAYINGS:
        found = re.search(saying, said)
        if found:
            parts = found.groupdict()
            rank = _number_of(parts, ranks)
            if rank is not None:
                return Dead(rank, _how(parts))
    return None


def _number_of(parts: Mapping[str, str], ranks: Sequence[Mapping[str, Any]]) -> int | None:
    """The rank that is named by its number, or by its process id."""
    if "rank" in parts:
        return int(parts["rank"])
    pids = [rank["pid"] for rank in ranks]
    pid = int(parts["pid"])
    if pids.count(pid) != 1:  # hosts number their processes each for itself
        return None
    return pids.index(pid)


def _how(parts: Mapping[str, str]) -> str:
    if "signal" in parts:
        return how_it_ended(FIRST_SIGNAL + int(parts["signal"]))
    if "code" in parts:
        return how_it_ended(int(parts["code"]))
    return f"died ({parts['words']})"


def refusal(said: str, workers: int, variable: str) -> str:
    """Why mpiexec started nothing, as a sentence with what to do; '' for unknown words."""
    if _NO_SLOTS in said:
        return (
            f"Open MPI has fewer slots than --workers {workers}: give fewer, or let it start more"
            f" than it has by {variable}='mpiexec --oversubscribe'"
        )
    return ""
