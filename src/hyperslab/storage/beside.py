"""Locks by which commands run beside others of their host, or alone there.

Held by tests/storage/test_beside.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.05
_UNABLE = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))
"Errors of file systems that some hosts mount without locks: nobody waits there."


@contextmanager
def beside(folder: Path, is_alone: bool, watch: Callable[[], None]) -> Iterator[None]:
    """Run the block beside others of this host and folder, or alone: it waits for that first.

    `watch` is called now and then while it waits, and ends that by what it raises.
    """
    fd = os.open(folder / f"beside.{socket.gethostname()}", os.O_RDWR | os.O_CREAT, 0o600)
    kind = fcntl.LOCK_SH
    if is_alone:
        kind = fcntl.LOCK_EX
    try:
        while not _takes(fd, kind):
            watch()
            time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


def _takes(fd: int, kind: int) -> bool:
    """Whether there is nothing more to wait for."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    return True
