"""Scratched: a worker's command on whatever host it is started, with scratch of its own.

What stands before the command makes scratch there, runs it with temporary files in that, and
removes it when it has ended, however it has: then nothing is left on the storage. If this process
is killed, the kernel ends the command with it, and the scratch; its record goes with the next one
that is made on that host. So no host has to know of another one.

Where no scratch can be made, this process ends, and says why. One of several that begin together
must not: the others would wait for it, for ever under some launchers. So its command begins as
well, without scratch, and is told why in a variable; then all of them end in order.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from hyperslab.engines import SCRATCH_LOGS, lifeline
from hyperslab.engines.environment import FIRST_SIGNAL, program
from hyperslab.engines.stopping import stop
from hyperslab.errors import HyperslabError

MODULE = __name__
TOGETHER = "together"
"What `main` is given for one of several commands that begin together."
_WHY_NONE = "HYPERSLAB_NO_SCRATCH"
"Variable in which such a command is told why it has no scratch."
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MEANT_FOR_COMMANDS = (signal.SIGUSR1, signal.SIGUSR2)
"What batch systems and mpiexec tell a command by, which takes it as it likes."
_OWN = 3
"Descriptors that every command has."


def words_before(text: str, folder: Path | None, how: str = "") -> list[str]:
    """The words before a command of a submission, here or where the same programs are, that give it
    scratch as --scratch says it; `how` is TOGETHER or ''. None: it is of no submission yet.
    """
    return program(MODULE, arguments(text, folder, how))


def arguments(text: str, folder: Path | None, how: str = "") -> list[str]:
    """What `main` is given for such a command."""
    return [text, str(folder or ""), how]


def why_none() -> str:
    """Why this process, one of several that began together, has no scratch; '' where it has some,
    or was to have none.
    """
    return os.environ.get(_WHY_NONE, "")


def main(text: str, folder: str, how: str) -> None:
    """Run the command that this process was given as its arguments, and end as it does. `text` says
    where scratch is to be, as --scratch does; sentences on it go to a file in `folder`, or, without
    one, to standard error. `how` is TOGETHER where the command is to begin even without scratch.
    """
    _heed(_ENDING, _end)
    os.environ.pop(_WHY_NONE, None)
    with ExitStack() as until_the_end:
        before, variables = _scratch(until_the_end, text, folder, how)
        sys.exit(_ended([*before, *sys.argv[1:]], {**os.environ, **variables}))


def _heed(numbers: Sequence[signal.Signals], handler: Callable[[int, object], None]) -> None:
    """Hear of signals, but of no hangup that whoever has started this process has it ignore."""
    for number in numbers:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> None:
    """End in order: the command first, then its scratch."""
    _hear_no_more()
    sys.exit(FIRST_SIGNAL + number)


def _hear_no_more() -> None:
    """Go on to the end, which is near: there is but scratch to be removed."""
    for number in (*_ENDING, *_MEANT_FOR_COMMANDS):
        signal.signal(number, signal.SIG_IGN)


def _scratch(
    until_the_end: ExitStack, text: str, folder: str, how: str
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Words before a command, and variables of its own, that give it scratch until the end; or the
    variable that says why there is none.
    """
    from hyperslab.storage.scratch import holding, program  # which no worker needs

    try:
        wish = holding.wish_for_run(text, None)
        made = until_the_end.enter_context(holding.held(wish, lambda note: _tell(folder, note)))
    except (HyperslabError, OSError) as error:
        why = f"no scratch could be made on {socket.gethostname()}: {error}"
        if how != TOGETHER:
            stop(why)
        return (), {_WHY_NONE: why}
    return program.prefix(made), holding.surroundings(made)


def _ended(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, and end it, with what it has started, when this process does."""
    given = _inherited()
    end = lifeline.another_end()
    early: list[int] = []
    # until there is a command that they can reach
    _heed((*_ENDING, *_MEANT_FOR_COMMANDS), lambda number, _: early.append(number))
    process = subprocess.Popen(
        words, env=dict(environment), pass_fds=[*given, end], start_new_session=True
    )
    lifeline.signal_at_our_end(end, process.pid, signal.SIGKILL)
    os.close(end)
    _heed((signal.SIGTERM, signal.SIGHUP), _end)
    _give_ctrl_c_to(process.pid)
    _heed(_MEANT_FOR_COMMANDS, lambda number, _: process.send_signal(number))
    try:
        for missed in early:
            os.kill(os.getpid(), missed)
        status = process.wait()
    except BaseException:
        _give_ctrl_c_to(process.pid)  # which may take its time to end
        _hand_on(process.pid, signal.SIGTERM)
        process.wait()
        _hear_no_more()
        raise
    _hear_no_more()
    if status < 0:
        return FIRST_SIGNAL - status
    return status


def _give_ctrl_c_to(group: int) -> None:
    """Ctrl-C is for the command, which is no child of whoever sends it."""
    _heed((signal.SIGINT,), lambda number, _: _hand_on(group, number))


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


def _tell(folder: str, note: str) -> None:
    """Add a sentence to what others on this host have said, in one piece; where that cannot be, to
    standard error.
    """
    host = socket.gethostname()
    line = f"{host}: {note}\n"
    if folder:
        try:
            with open(Path(folder, SCRATCH_LOGS.replace("*", host)), "ab", buffering=0) as file:
                file.write(line.encode())
        except OSError as why:
            line = f"{line}{host}: this stands nowhere else: {why}\n"
        else:
            return
    sys.stderr.write(line)
