"""Programs that are asked once, and what they answer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


def asked(
    command: Sequence[str],
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a program prints that reads nothing, and its exit status; in `environment`, or in ours.
    Raises OSError where it cannot be started, and TimeoutExpired where it has not ended in time.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        env=environment,
        check=False,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a program that failed has said, or else how it ended."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    if not lines:
        return f"exit status {done.returncode}"
    return lines[-1]
