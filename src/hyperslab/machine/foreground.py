"""Commands of the user's in the foreground, which take Ctrl-C themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from hyperslab.errors import UsageError

SIGNAL = 128
"Exit status of a shell for a command that signal 0 would end."


def run_in_foreground(
    command: Sequence[str],
    environment: Mapping[str, str],
    named: str = "",
    pass_fds: Sequence[int] = (),
) -> int:
    """Run a command to its end; returns its exit status as a shell has it. `named` is the program
    that messages name. Whatever ends this process in order ends the command by SIGTERM. Raises
    UsageError where there is no such program.
    """
    named = named or command[0]
    # Ctrl-C is for the command: what has a handler here is reset where a program is started.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = _wait(_start(command, environment, pass_fds))
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


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
