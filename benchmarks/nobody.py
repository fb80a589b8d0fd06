"""Commands of a user who has no rights, but for a device node of FUSE that is open to all: as on
most machines, and not where that is for root alone. It takes root to play that user.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
NOBODY = 65534
_DEVICES = Path("/run/hyperslab-nobody")
"Empty, but for those whom the script below shows devices there."
_DROP = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
_ENTER = """
set -e
mount -t tmpfs -o mode=755 devices "$DEVICES"
if [ "$HAS_DEVICE" = yes ]; then
    mknod -m 666 "$DEVICES/fuse" c 10 229
    mount --bind "$DEVICES/fuse" /dev/fuse
fi
if [ -n "$CLOSED" ]; then
    mkdir "$DEVICES/python"
    mount --bind "$PYTHON" "$DEVICES/python"
    mount -t tmpfs -o mode=755 closed "$CLOSED"
    mkdir -p "$PYTHON"
    mount --bind "$DEVICES/python" "$PYTHON"
fi
if [ "$HAS_NAMESPACES" = no ]; then
    mkdir "$DEVICES/root"
    mount --rbind / "$DEVICES/root"
    set -- chroot "$DEVICES/root" "$@"
fi
exec "$@"
"""
"""An interpreter below a folder that is closed to others is shown in an open one in its place. The
kernel lets nobody make a user namespace who does not see the root of all mounts as its own: that is
what chroot is for.
"""


def as_nobody(
    words: Sequence[str],
    has_device: bool = True,
    has_namespaces: bool = True,
    stdin: int = subprocess.DEVNULL,
    home: Path = Path("/tmp"),
) -> subprocess.Popen[str]:
    """Start a command of nobody, with or without what file systems of users take. What it mounts
    goes with the last process that sees it; what programs keep in their user's home goes to `home`,
    which is that of all others unless another one is given.
    """
    environment = {
        **os.environ,
        "DEVICES": str(_DEVICES),
        "HAS_DEVICE": "yes" if has_device else "no",
        "PYTHON": sys.base_prefix,
        "CLOSED": _closed(Path(sys.base_prefix)),
        "HAS_NAMESPACES": "yes" if has_namespaces else "no",
        "HOME": str(home),  # nobody has none
        "PYTHONPATH": os.pathsep.join((str(SOURCES), str(SOURCES.parent))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    _DEVICES.mkdir(exist_ok=True)
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _ENTER, "sh", *_DROP, *words],
        cwd="/",
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _closed(place: Path) -> str:
    """The topmost folder above a place that others may not enter; '' where they may enter all."""
    for folder in reversed(place.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return str(folder)
    return ""
