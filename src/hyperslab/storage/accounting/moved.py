"""Bytes and calls of reading and writing, as the kernel adds them up for every process.

/proc/PID/io of proc(5) has them, of pipes and terminals too, and nothing else: no names, no files.
Those of a process go to the one that waits for it: here one that waits for the command and for all
that it leaves behind.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperslab.accesses import Count, Totals
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.storage.accounting import waiting

WAY = "proc"
NOTE = (
    "reads and writes of the whole command, those of pipes and terminals too; what is opened,"
    " looked at or removed is not counted this way"
)


def why_not() -> str:
    """What keeps the kernel's sums from being read, in a sentence; '' for nothing."""
    try:
        Path("/proc/self/io").read_bytes()
    except OSError as error:
        return f"/proc/self/io cannot be read ({error.strerror})"
    return ""


def count(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, Totals]:
    """Run a command to its end, and that of all it has started: its exit status as a shell has it,
    and what they have moved. Raises UsageError where there is no such program.
    """
    with tempfile.TemporaryDirectory(prefix="hyperslab-moved-") as folder:
        record = Path(folder) / "moved.json"
        words = [sys.executable, "-m", waiting.__name__, str(record), *command]
        ended = run_in_foreground(words, environment)
        if not record.is_file():
            raise RunStopped(f"who waited for {command[0]} has ended with exit status {ended}")
        told = json.loads(record.read_text())
    if "refused" in told:
        raise UsageError(told["refused"])
    moved = told["moved"]
    operations = {
        "read": Count(moved["syscr"], None, moved["rchar"], None),
        "write": Count(moved["syscw"], None, moved["wchar"], None),
    }
    return told["status"], Totals(WAY, "the command", operations, (NOTE,))
