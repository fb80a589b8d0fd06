"""Whether a program is there, and may do here what it is for, found out by having it do so once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from hyperslab.errors import UsageError
from hyperslab.machine.asking import asked, last_line


def complaint(command: Sequence[str], limit_s: float) -> str:
    """The last line that a program said which failed; '' where it did not fail. Raises
    TimeoutExpired.
    """
    tried = asked(command, limit_s)
    if tried.returncode == 0:
        return ""
    return last_line(tried)


def program_of(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
    """The command with the path of its program: who counts would fail as the command does. Raises
    UsageError where there is no such program.
    """
    found = shutil.which(command[0], path=environment.get("PATH"))
    if found is None:
        raise UsageError(f"{command[0]}: there is no such program")
    return [found, *command[1:]]
