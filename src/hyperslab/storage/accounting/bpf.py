"""Operations counted by a program in the kernel (eBPF), which looks at every call of the command.

Nobody stops the command: the kernel writes each call into memory that it shares with
`hyperslab-filecalls`, which takes it from there. What does not fit there is lost, and told.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.accesses import KNOWN, Accesses
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.built import Built
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.storage.accounting.calls import MAPS_NOTE, MOVING, UNSEEN, plain, waits
from hyperslab.storage.accounting.looked import CALLS, NO_OPERATION, arguments, operations
from hyperslab.storage.accounting.trying import complaint, program_of
from hyperslab.units import show_count

WAY = "bpf"
PROGRAM = Built("hyperslab-filecalls", "HYPERSLAB_FILECALLS", "filecalls", "counting by eBPF")
_LIMIT_S = 10.0
_HAS_FAILED = 1
_IS_MADE = 2
_ROW = {
    "start_ns": "<i8",
    "duration_ns": "<i8",
    "nbytes": "<i8",
    "process": "<i4",
    "path": "<i4",
    "call": "<u2",
    "side": "u1",
    "flags": "u1",
    "unused": "<i4",
}
"Fields of a row that the program writes: rust/filecalls/src/rows.rs."
_AS_CALLED = "?"
"First character of a path as a call had it, whose folder may be a link."
_FAULTS = {
    "lost_calls": "{} came faster than anybody could take them, and are not counted",
    "lost_threads": "{} could not be followed; what they have done is not counted",
    "unread_names": "{} have names that could not be read: their operations are on no path",
    "foreign_calls": "{} of 32-bit programs, whichever they are, are not counted",
    "cut_paths": "{} have paths that are too long, of which only the end is kept",
}
_FAULTY = {"lost_threads": "thread"}


def why_not() -> str:
    """What keeps eBPF from counting here, in a sentence; '' for nothing."""
    try:
        program = PROGRAM.find()
    except UsageError as why:
        return str(why)
    try:
        said = complaint([program, "--try"], _LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"the kernel does not take the program within {_LIMIT_S:.0f} s"
    if said:
        return (
            f"the kernel takes no program that looks at calls ({said}); it does from root, or with"
            " CAP_BPF and CAP_PERFMON, where it has /sys/kernel/btf/vmlinux"
        )
    return ""


def count(
    command: Sequence[str],
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> tuple[int, Accesses]:
    """Run a command to its end, and that of all it has started: its exit status as a shell has it,
    and its operations. Raises UsageError where there is no such program, and RunStopped where the
    counter has died.

    `prefix` are words that have the counter run under another program, which is given descriptors.
    """
    started = program_of(command, environment)
    with tempfile.TemporaryDirectory(prefix="hyperslab-filecalls-") as made:
        folder = Path(made)
        words = [*prefix, PROGRAM.find(), str(folder), arguments(), *started]
        began_ns = time.time_ns()
        status = run_in_foreground(words, environment, command[0], pass_fds)
        ended_ns = time.time_ns()
        if not (folder / "faults").is_file():  # which is written last
            raise RunStopped(f"who counted {command[0]} has ended with exit status {status}")
        accesses = read(folder)
    accesses.meta |= {"command": list(command), "start_ns": began_ns, "end_ns": ended_ns}
    return status, accesses


def read(folder: Path) -> Accesses:
    """What the program has written down in a folder."""
    import numpy as np

    rows = np.fromfile(folder / "rows", np.dtype(list(_ROW.items())))
    operation = np.array(operations(), "i1")[rows["call"], rows["side"]]
    is_made = (rows["flags"] & _IS_MADE) != 0
    operation[is_made & (operation == KNOWN["open"])] = KNOWN["create"]
    paths, places = _paths(folder / "paths")
    has_failed = (rows["flags"] & _HAS_FAILED) != 0
    moves = np.isin(operation, [KNOWN[name] for name in (*MOVING, "map")])
    columns = {
        "start_ns": rows["start_ns"],
        "duration_ns": rows["duration_ns"],
        "process": rows["process"],
        "operation": operation,
        "path": np.array(places, "i4")[rows["path"]],
        "nbytes": np.where(moves & ~has_failed, rows["nbytes"], 0),
        "has_failed": has_failed.astype("i1"),
    }
    is_one = operation != NO_OPERATION
    unseen = {CALLS[call] for call in np.unique(rows["call"][~is_one])}
    is_asking = np.array([waits(path) for path in paths], bool)[columns["path"]]
    kept = is_one & ~(is_asking & np.isin(operation, [KNOWN[name] for name in MOVING]))
    notes = [MAPS_NOTE, *sorted(UNSEEN[name] for name in unseen), *_faults(folder / "faults")]
    columns = {name: np.ascontiguousarray(column[kept]) for name, column in columns.items()}
    return Accesses(columns, paths, WAY, {"notes": notes})


def _paths(path: Path) -> tuple[list[str], list[int]]:
    """Paths without links in their folders, each once, and which of them each path is that the
    program has written down.
    """
    known: dict[str, int] = {}
    places = []
    for raw in path.read_bytes().split(b"\0")[:-1]:
        text = os.fsdecode(raw)
        told = text[1:]
        if text[0] == _AS_CALLED:
            told = plain(told)
        places.append(known.setdefault(told, len(known)))
    return list(known), places


def _faults(path: Path) -> list[str]:
    """Sentences on what went wrong."""
    counts: dict[str, Any] = json.loads(path.read_text())
    return [
        _FAULTS[name].format(show_count(count, _FAULTY.get(name, "call")))
        for name, count in counts.items()
        if count
    ]
