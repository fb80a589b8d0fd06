"""Writes past the page cache, where the system has a way there, that go on while the next bytes are
made.

What has to be on storage before a writer is done would be copied to the page cache only to leave it
again at once, and push out what others have there. So bytes are gathered in windows, which go to
storage directly (open(2), O_DIRECT).

- a file is the same however it was written, and a failed write is raised with its name
  (`tests/blocks/test_directio.py`)
"""

from __future__ import annotations

import errno
import mmap
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from hyperslab.blocks.positioned import write_at

ALIGNMENT = max(4096, mmap.PAGESIZE)
"""Positions and sizes of direct writes are multiples of it: of a page, and of every block that a
disk has.
"""
WINDOW_NBYTES = 4 * 1024**2
_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)
_OWN_MEMORY = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
"Not shared with the processes that this one becomes by fork."
_unused: deque[memoryview] = deque(maxlen=4)
"Windows of files that are closed."


class DirectFile:
    """Writes to a file that is open for writing, by one thread; what is refused goes by way of the
    page cache.
    """

    def __init__(self, path: str, fd: int, is_direct: bool) -> None:
        self.window = _memory()
        "WINDOW_NBYTES to be filled for the next write."
        self._other = _memory()
        self._fd = fd
        self._direct = -1
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        if is_direct:
            self._direct = _open_direct(path)
        if self._direct >= 0:
            self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self._wait()
        except OSError as failure:
            if error is None:
                raise
            error.add_note(f"and a write that was under way failed: {failure}")
        finally:
            if self._thread:
                self._thread.shutdown()
                os.close(self._direct)
            _unused.extend((self.window, self._other))

    def write(self, nbytes: int, offset: int) -> None:
        """Write the first bytes of the window, which is another one afterwards. Raises OSError, of
        earlier ones too.
        """
        self._wait()
        if self._thread and nbytes and nbytes % ALIGNMENT == offset % ALIGNMENT == 0:
            self._under_way = self._thread.submit(
                self._put, self._direct, self.window[:nbytes], offset
            )
            self.window, self._other = self._other, self.window
        else:
            self._put(self._fd, self.window[:nbytes], offset)

    def write_large(self, data: memoryview, offset: int) -> None:
        """Write bytes that lie elsewhere; by way of the window, if past the page cache: what is in
        it is lost.
        """
        if not self._thread:
            self._put(self._fd, data, offset)
            return
        for first in range(0, len(data), WINDOW_NBYTES):
            part = data[first : first + WINDOW_NBYTES]
            self.window[: len(part)] = part
            self.write(len(part), offset + first)

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way:
            under_way.result()

    def _put(self, fd: int, data: memoryview, offset: int) -> None:
        try:
            write_at(fd, [data], offset)
        except OSError as error:
            if fd != self._direct or error.errno not in _REFUSED:
                raise
            write_at(
                self._fd, [data], offset
            )  # the file system takes O_DIRECT, but not for these bytes


def _memory() -> memoryview:
    """A window that begins with a page: one of an earlier file, since memory that is new has to be
    cleared first.
    """
    try:
        return _unused.pop()
    except IndexError:
        return memoryview(mmap.mmap(-1, WINDOW_NBYTES, flags=_OWN_MEMORY))


def _open_direct(path: str) -> int:
    """The file opened past the page cache; -1 where the file system cannot."""
    try:
        return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return -1
