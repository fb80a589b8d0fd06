"""Stopping: how a command that runs tasks says that the run cannot go on, and how its driver reads
that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

STATUS = 75
"Exit status of a command that cannot continue, such as on a full disk."
_STOPPED = "hyperslab stopped: "
"Beginning of the line in which it says why."


def stop(reason: object) -> NoReturn:
    """End this command with its reason."""
    print(f"{_STOPPED}{reason}", file=sys.stderr, flush=True)
    sys.exit(STATUS)


def why_stopped(log: Path, since: int) -> str:
    """The reason that a command has printed to the log behind so many bytes; '' if none has, or
    there is no log.
    """
    if not log.exists():
        return ""
    with open(log, "rb") as file:
        file.seek(since)
        lines = file.read().decode(errors="replace").splitlines()
    reasons = [line.removeprefix(_STOPPED) for line in lines if line.startswith(_STOPPED)]
    return next(reversed(reasons), "")
