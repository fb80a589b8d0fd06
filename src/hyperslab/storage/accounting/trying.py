"""Whether a program may do here what it is for, found out by having it do so once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def complaint(command: Sequence[str], limit_s: float) -> str:
    """The last line that a program said which failed; '' where it did not fail. Raises
    TimeoutExpired.
    """
    tried = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
    )
    if tried.returncode == 0:
        return ""
    lines = tried.stderr.strip().splitlines()
    return lines[-1] if lines else "it does not say why"
