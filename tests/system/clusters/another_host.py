"""Another host, as far as programs can tell: a place on this one with a name, a clock and, if need
be, a folder of its own.
"""

from __future__ import annotations

from pathlib import Path

AHEAD_S = 5000
"How far its monotonic clock is ahead of this host's."
APART = ("unshare", "--time", "--monotonic", str(AHEAD_S), "--uts", "--mount", "--fork")
"Starts a program in such a place, for root."
ENTER = """\
set -e
hostname "$0"
if [ "$1" ]; then mount -t tmpfs none "$1"; fi
shift
exec "$@"
"""


def another_host(name: str, unseen: Path | None = None) -> tuple[str, ...]:
    """What starts a command on a host of this name, to be written before it; where others see
    `unseen`, the host has an empty folder of its own.
    """
    folder = ""
    if unseen is not None:
        folder = str(unseen)
    return (*APART, "sh", "-c", ENTER, name, folder)
