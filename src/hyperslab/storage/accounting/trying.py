"""Whether a program may do here what it is for, found out by having it do so once."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.machine.asking import asked, last_line


def complaint(command: Sequence[str], limit_s: float) -> str:
    """The last line that a program said which failed; '' where it did not fail. Raises
    TimeoutExpired.
    """
    tried = asked(command, limit_s)
    if tried.returncode == 0:
        return ""
    return last_line(tried)
