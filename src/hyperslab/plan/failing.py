"""CommandFailed: why a command has failed, in words."""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import TYPE_CHECKING

from hyperslab.plan.failure import MOST_LINE, MOST_MESSAGE, Failure, bounded
from hyperslab.redaction import redact

if TYPE_CHECKING:
    from hyperslab.machine.spawner import Ended, Refused
    from hyperslab.plan.command import CommandTask

TAIL_NBYTES = 4096
"Bytes of the end of what a command printed that go into its failure."
_LINES = 3
"Lines of those that its message has."
_FOR_TERMINALS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"Sequences that terminals take for colours and titles (ECMA-48, 5.3, 5.4 and 8.3)."
_FOR_GOOD = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC)
"Errors at a start that no other attempt mends."
_BY_SHELL = 128
"What shells add to the number of a signal that has ended a command of theirs (POSIX, 2.8.2)."


OUT_OF_MEMORY = "OutOfMemory"
"""Name of the failure of a command that the kernel has killed for want of memory, or that has
failed while it killed something: a process of the command, perhaps, of which only that knows.
"""
_LESS = "use fewer --workers, or more memory"


class CommandFailed(Exception):
    """Raised for a command that has ended, but not well."""

    def __init__(self, error: str, message: str, printed: str, permanent: bool = False) -> None:
        super().__init__(message)
        self._told = (error, message, permanent, printed)

    def failure(self, label: str) -> Failure:
        """What the journal keeps of it."""
        error, message, permanent, printed = self._told
        return Failure(error, bounded(message, MOST_MESSAGE), label, permanent, printed)


def not_started(error: Refused) -> CommandFailed:
    """The failure of a command that could not be started: another attempt cannot either, unless it
    was for want of memory or processes.
    """
    message = f"{error.filename} cannot be started: {error.strerror}"
    if not error.filename:
        message = str(error.strerror)
    return CommandFailed("NotStarted", message, "", error.errno in _FOR_GOOD)


def after(
    command: CommandTask, ended: Ended, limit_s: float | None, is_short: bool
) -> CommandFailed:
    """The failure of a command that ended with an exit status, by a signal, or too late; `is_short`
    says whether the kernel has killed something for want of memory meanwhile.
    """
    printed = _tail(ended)
    said = _last_lines(printed)
    killed = {-signal.SIGKILL, _BY_SHELL + signal.SIGKILL}
    error, how = _end(ended, limit_s)
    if is_short and ended.status in killed and not ended.is_late:
        error = OUT_OF_MEMORY
        how = f"out of memory: the kernel has killed it; {_LESS}"
    elif is_short:
        error = OUT_OF_MEMORY
        how = f"{how}, and the kernel has killed a process for want of memory meanwhile; {_LESS}"
    return CommandFailed(error, how + said, printed)


def _end(ended: Ended, limit_s: float | None) -> tuple[str, str]:
    """How a command has ended: the name of its failure, and in words."""
    if ended.is_late:
        return "TimeLimit", f"it took longer than {limit_s:g} s{_stuck(ended, '')}"
    rest = _stuck(ended, "what it has started ")
    if ended.status < 0:
        return "Signal", f"ended by {_named(-ended.status)}{rest}"
    return "ExitStatus", f"exit status {ended.status}{rest}"


def _stuck(ended: Ended, what: str) -> str:
    if not ended.is_stuck:
        return ""
    return (
        f", and {what}could not be ended: it waits for storage or a device that does not answer,"
        " and is left to itself"
    )


def without_outputs(command: CommandTask, ended: Ended, why: str) -> CommandFailed:
    """The failure of a command that ended well, but has not made what it was to make."""
    printed = _tail(ended)
    message = f"exit status 0, but {why}{_last_lines(printed)}"
    return CommandFailed("MissingOutput", message, printed)


def _named(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _tail(ended: Ended) -> str:
    """The end of what a command has printed, as text without secrets."""
    count = min(ended.nbytes, TAIL_NBYTES)
    with open(ended.log, "rb") as file:
        data = os.pread(file.fileno(), count, ended.offset + ended.nbytes - count)
    return redact(data.decode(errors="replace"))


def _last_lines(printed: str) -> str:
    plain = _FOR_TERMINALS.sub("", printed)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if not lines:
        return ", and it printed nothing"
    return ": " + " | ".join(bounded(line, MOST_LINE) for line in lines[-_LINES:])
