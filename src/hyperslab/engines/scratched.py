"""Scratched: a worker's command on whatever host it is started, with scratch of its own.

What stands before the command makes scratch there, runs it with temporary files in that, and
removes it when it has ended, however it has: then nothing is left on the storage. If this process
is killed, the kernel ends the command with it, and the scratch; its record goes with the next one
that is made on that host. So no host has to know of another one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hyperslab.engines import SCRATCH_LOG, lifeline
from hyperslab.engines.environment import FIRST_SIGNAL, program
from hyperslab.engines.stopping import stop
from hyperslab.errors import HyperslabError

MODULE = __name__
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OWN = 3
"Descriptors that every command has."


def words_before(text: str, folder: Path | None) -> list[str]:
    """The words before a command of a submission, here or where the same programs are, that give it
    scratch as --scratch says it. None: it is of no submission yet.
    """
    return program(MODULE, arguments(text, folder))


def arguments(text: str, folder: Path | None) -> list[str]:
    """What `main` is given for such a command."""
    if folder is None:
        return [text, ""]
    return [text, str(folder / SCRATCH_LOG)]


def main(text: str, notes: str) -> None:
    """Run the command that this process was given as its arguments, and end as it does. `text` says
    where scratch is to be, as --scratch does; sentences on it go to the file `notes`, or, without
    one, to standard error.
    """
    for number in _ENDING:
        signal.signal(number, _end)
    try:
        status, said = _run(text, sys.argv[1:])
    except (HyperslabError, OSError) as why:
        stop(f"no scratch could be made on {socket.gethostname()}: {why}")
    _tell(notes, said)
    sys.exit(status)


def _end(number: int, _frame: object) -> None:
    """End in order: the command first, then its scratch."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(FIRST_SIGNAL + number)


def _run(text: str, words: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Run a command with scratch; its exit status as a shell has it, and sentences on its files."""
    from hyperslab.storage.scratch import holding, program  # which no worker needs

    with holding.held(holding.wish_for_run(text, None)) as made:
        environment = {**os.environ, **holding.surroundings(made)}
        status = _ended([*program.prefix(made), *words], environment)
        return status, holding.notes_on(made)


def _ended(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, and end it, with what it has started, when this process does."""
    given = _inherited()
    end = lifeline.another_end()
    early: list[int] = []
    for number in _ENDING:  # until there is a command that they can reach
        signal.signal(number, lambda number, _: early.append(number))
    process = subprocess.Popen(
        words, env=dict(environment), pass_fds=[*given, end], start_new_session=True
    )
    lifeline.signal_at_our_end(end, process.pid, signal.SIGKILL)
    os.close(end)
    signal.signal(signal.SIGTERM, _end)
    # Ctrl-C is for the command, which is no child of whoever sends it
    signal.signal(signal.SIGINT, lambda number, _: _hand_on(process.pid, number))
    try:
        for missed in early:
            os.kill(os.getpid(), missed)
        status = process.wait()
    except BaseException:
        _hand_on(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if status < 0:
        return FIRST_SIGNAL - status
    return status


def _hand_on(group: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.killpg(group, number)


def _inherited() -> list[int]:
    """Descriptors that this process was given for its command: ranks of MPI hear their launcher by
    one.
    """
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in numbers if number >= _OWN and _is_inherited(number)]


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # it was that of the look itself
        return False


def _tell(path: str, notes: Sequence[str]) -> None:
    """Add sentences to what others have said."""
    host = socket.gethostname()
    lines = "".join(f"{host}: {note}\n" for note in notes)
    if not path:
        sys.stderr.write(lines)
    elif lines:
        with open(path, "a", encoding="utf-8") as file:
            file.write(lines)
