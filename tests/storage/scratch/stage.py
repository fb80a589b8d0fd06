"""What tests of scratch stand on: users with few rights, and file systems that are small."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hyperslab.storage.scratch.program import PROGRAM
from tests.storage.emulation.tiers import require_mounting

SOURCES = Path(__file__).parents[3] / "src"
NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="mounts, or plays another user: run as root"
)
_AS_NOBODY = """
set -e
mount -t tmpfs -o mode=755 devices "$DEVICES"
if [ "$WITH_DEVICE" = yes ]; then
    mknod -m 666 "$DEVICES/fuse" c 10 229
    mount --bind "$DEVICES/fuse" /dev/fuse
fi
if [ "$WITH_NAMESPACES" = no ]; then
    mkdir "$DEVICES/root"
    mount --rbind / "$DEVICES/root"
    set -- chroot "$DEVICES/root" "$@"
fi
exec "$@"
"""
"""A command of nobody, with a device node of its own that is open to all. The kernel lets nobody
make a user namespace who does not see the root of all mounts as its own, which is what chroot does.
"""


def require_program() -> None:
    """Build the program of scratch if nobody has; skip the test where none can be mounted."""
    require_mounting(PROGRAM)


@contextmanager
def free_for_all() -> Iterator[Path]:
    """A directory that every user may reach, and in which nobody may write."""
    place = Path(tempfile.mkdtemp(prefix="hyperslab-test-", dir="/tmp"))  # noqa: S108
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def as_nobody(
    words: Sequence[str], with_device: bool = True, with_namespaces: bool = True
) -> subprocess.Popen[str]:
    """A command that nobody runs, with or without what file systems of users take."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    devices = tempfile.mkdtemp(dir="/tmp")  # noqa: S108
    environment = {
        **os.environ,
        "DEVICES": devices,
        "WITH_DEVICE": "yes" if with_device else "no",
        "WITH_NAMESPACES": "yes" if with_namespaces else "no",
        "PYTHONPATH": str(SOURCES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _AS_NOBODY, "sh", *drop, *words],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return process


def hyperslab(*words: object) -> list[str]:
    """The command of such words."""
    return [sys.executable, "-m", "hyperslab", *map(str, words)]


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[None]:
    """A file system of so much room in a directory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
