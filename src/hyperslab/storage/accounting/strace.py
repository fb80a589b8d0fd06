"""Operations counted by strace, which stops a command at each call that has to do with files.

strace writes into a pipe that is read while the command runs, so that nothing is kept twice. A
filter of the kernel (seccomp) lets all other calls pass at full speed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperslab.accesses import Accesses
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.storage.accounting.calls import MAPS_NOTE, NAMES
from hyperslab.storage.accounting.threads import Threads
from hyperslab.storage.accounting.trying import complaint, program_of
from hyperslab.units import show_count

WAY = "strace"
TIMES_NOTE = "times hold what strace takes to stop a thread twice for each operation"
_PROBE_S = 10.0
_UNREAD_SHOWN = 120


def why_not() -> str:
    """What keeps strace from counting here, in a sentence; '' for nothing."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian package strace)"
    try:
        said = complaint([*_options(Path(os.devnull)), "true"], _PROBE_S)
    except subprocess.TimeoutExpired:
        return f"strace does not end within {_PROBE_S:.0f} s"
    if said:
        return f"strace may not follow processes here ({said.removeprefix('strace: ')})"
    return ""


def _options(written_to: Path) -> list[str]:
    """How strace is started: descriptors with their paths, no contents, no signals."""
    names = ",".join(f"?{name}" for name in NAMES)
    return [
        *("strace", "-f", "-q", "-ttt", "-T", "-y", "-s", "0", "--seccomp-bpf"),
        *("-e", f"trace={names}", "-e", "signal=none"),
        *("-e", "verbose=clone3,openat2", "-o", str(written_to), "--"),
    ]


def count(
    command: Sequence[str],
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> tuple[int, Accesses]:
    """Run a command to its end, and that of all it has started: its exit status as a shell has it,
    and its operations. Raises UsageError where there is no such program.

    `prefix` are words that have strace run under another program, which is given descriptors: one
    that ends all if strace dies, as nobody answers the calls of the command any more then.
    """
    threads = Threads(os.getcwd())
    with tempfile.TemporaryDirectory(prefix="hyperslab-strace-") as folder:
        pipe = Path(folder) / "lines"
        os.mkfifo(pipe, 0o600)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Held until strace has ended: one who reads has to wait for it to begin.
        writing = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(reading, True)
        reader = _Reader(reading, threads)
        reader.start()
        began_ns = time.time_ns()
        try:
            program = program_of(command, environment)
            words = [*prefix, *_options(pipe), *program]
            status = run_in_foreground(words, environment, command[0], pass_fds)
        finally:
            os.close(writing)
            reader.join()
    if reader.failure is not None:
        raise reader.failure
    meta = {
        "command": list(command),
        "start_ns": began_ns,
        "end_ns": time.time_ns(),
        "notes": [TIMES_NOTE, MAPS_NOTE, *_notes(threads)],
    }
    return status, threads.collected.done(WAY, meta)


class _Reader(threading.Thread):
    """The thread that reads what strace writes: strace, and with it the command, waits for it."""

    def __init__(self, descriptor: int, threads: Threads) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self._threads = threads
        self.failure: Exception | None = None

    def run(self) -> None:
        """Take every line; the rest goes unread once one has led to a failure."""
        with open(self._descriptor, "rb") as lines:
            try:
                for line in lines:
                    self._threads.take(os.fsdecode(line.rstrip(b"\n")))
                self._threads.finish()
            except Exception as failure:  # noqa: BLE001 - raised where the command has ended
                self.failure = failure
                for _ in lines:
                    pass


def _notes(threads: Threads) -> list[str]:
    notes = sorted(threads.calls.notes)
    lines = threads.lines
    if lines.unread:
        shown = lines.first_unread[:_UNREAD_SHOWN]
        notes.append(
            f"{show_count(lines.unread, 'line')} of strace could not be read, and what"
            f" {'it tells' if lines.unread == 1 else 'they tell'} of is not counted: {shown}"
        )
    return notes
