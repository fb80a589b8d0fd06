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
    command: Sequence[str], environment: Mapping[str, str], named: str = ""
) -> int:
    """Run a command to its end; returns its exit status as a shell has it. `named` is the program
    that messages name. Raises UsageError where there is none.
    """
    named = named or command[0]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        status = subprocess.run(
            command,
            env=dict(environment),
            cwd=os.getcwd(),  # by its path: something may be mounted over it since
            check=False,
            preexec_fn=_take_interrupts,
        ).returncode
    except FileNotFoundError:
        raise UsageError(f"{named}: there is no such program") from None
    except PermissionError:
        raise UsageError(f"{named}: cannot be run as a program") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if status < 0:
        return SIGNAL - status
    return status


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
