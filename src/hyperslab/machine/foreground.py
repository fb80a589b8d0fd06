"""Commands of the user's in the foreground, which take Ctrl-C themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from hyperslab.errors import RunStopped, UsageError

SIGNAL = 128
"Exit status of a shell for a command that signal 0 would end."
LOOK_S = 0.25
"Time from one look to the next at whether a command may go on."
ENDING_LIMIT_S = 20.0
"Time that a command has to end in order that may not go on."


def run_in_foreground(
    command: Sequence[str],
    environment: Mapping[str, str],
    named: str = "",
    pass_fds: Sequence[int] = (),
    look: Callable[[], None] | None = None,
) -> int:
    """Run a command to its end; returns its exit status as a shell has it. `named` is the program
    that messages name. Whatever ends this process in order ends the command by SIGTERM. `look` is
    called meanwhile, and raises RunStopped where the command is to end. Raises that, and UsageError
    where there is no such program.
    """
    named = named or command[0]
    # Ctrl-C is for the command: what has a handler here is reset where a program is started.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = _wait(_start(command, environment, pass_fds), look)
    except FileNotFoundError:
        raise UsageError(f"{named}: there is no such program") from None
    except PermissionError:
        raise UsageError(f"{named}: cannot be run as a program") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if status < 0:
        return SIGNAL - status
    return status


def _start(
    command: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=os.getcwd(),  # by its path: something may be mounted over it since
        pass_fds=pass_fds,
    )


def _wait(process: subprocess.Popen[bytes], look: Callable[[], None] | None) -> int:
    try:
        if look is None:
            return process.wait()
        return _watched(process, look)
    except RunStopped:
        _end(process)
        raise
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _watched(process: subprocess.Popen[bytes], look: Callable[[], None]) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_S)
        look()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command, which may wait for what will never come."""
    process.terminate()
    try:
        process.wait(ENDING_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
