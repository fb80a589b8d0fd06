"""A new file that is written from its beginning to its end, past the page cache where the system has a way there.

What has to be on storage before the writer is done would be copied to the page cache only to leave it again at once,
and push out what others have there. So bytes are gathered in a window that moves through the file, and go from it to
storage directly (open(2), O_DIRECT). Writes before the window, as of metadata that grow with a file, go the usual way.

- the file is the same however it was written, and a failed write is raised with its name and the system's number
  (`tests/unit/test_newfile.py`)
"""

from __future__ import annotations

import errno
import io
import mmap
import os
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

WINDOW_NBYTES = 4 * 1024**2
"A multiple of every page and block size, which O_DIRECT asks for; a file that is smaller goes the usual way."
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)

T = TypeVar("T")


class NewFile(io.RawIOBase):
    """A file that must not be there yet, for one thread. What was not written before a gap reads as zeros.

    A write that fails is kept, not raised, since libhdf5 cannot close a file that refuses its bytes: `until_failure`
    stops the writer, `close` raises it.
    """

    def __init__(self, path: str, is_direct: bool = False) -> None:
        self._path, self._fd, self._direct = path, -1, -1
        self._base = self._filled = self._at = self._size = 0
        self._failure: OSError | None = None
        self._window = mmap.mmap(-1, WINDOW_NBYTES)
        self._fd = os.open(path, _FLAGS, 0o666)
        if is_direct:
            self._direct = _open_direct(path)

    def until_failure(self, items: Iterable[T]) -> Iterator[T]:
        """The same items; raises OSError as soon as a write has failed."""
        for item in items:
            yield item
            if self._failure:
                raise self._failure

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Set the size, which is that of the closed file."""
        self._size = self._at if size is None else size
        return self._size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        before = view[: max(0, self._base - self._at)]
        self._put(self._fd, before, self._at)
        self._at += len(before)
        rest = view[len(before) :]
        while rest:
            count = self._take(rest)
            self._at, rest = self._at + count, rest[count:]
        self._size = max(self._size, self._at) if view else self._size
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        stored = os.pread(self._fd, min(len(view), max(0, self._base - self._at)), self._at)
        first = max(0, self._at - self._base)
        held = self._window[first : min(first + len(view) - len(stored), self._filled)]
        found = stored + held
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._at += len(view)
        return len(view)

    def close(self) -> None:
        """Write what is left. Raises the OSError of the first write that failed."""
        if self.closed or self._fd < 0:
            return
        self._put(self._fd, memoryview(self._window)[: self._filled], self._base)
        self._attempt(os.ftruncate, self._fd, self._size)
        for fd in (self._fd, self._direct):
            if fd >= 0:
                self._attempt(os.close, fd)
        super().close()
        if self._failure:
            raise self._failure

    def _take(self, data: memoryview) -> int:
        """Copy as much to the window as fits, which moves on when it is full; bytes taken."""
        while (first := self._at - self._base) >= WINDOW_NBYTES:
            self._fill(WINDOW_NBYTES)
            self._move()
        self._fill(first)
        end = min(WINDOW_NBYTES, first + len(data))
        self._window[first:end] = data[: end - first]
        self._filled = max(self._filled, end)
        if self._filled == WINDOW_NBYTES:
            self._move()
        return end - first

    def _fill(self, end: int) -> None:
        """Zeros where nothing has been written yet."""
        if end > self._filled:
            self._window[self._filled : end] = bytes(end - self._filled)
            self._filled = end

    def _move(self) -> None:
        """Write the whole window; it begins again behind itself."""
        self._put(self._direct if self._direct >= 0 else self._fd, memoryview(self._window), self._base)
        self._base, self._filled = self._base + WINDOW_NBYTES, 0

    def _put(self, fd: int, data: memoryview, offset: int) -> None:
        while data and not self._failure:
            try:
                count = os.pwrite(fd, data, offset)
            except OSError as error:
                if fd != self._direct or error.errno not in _REFUSED:
                    self._keep(error)
                    return
                fd, count = self._fd, 0  # the file system takes O_DIRECT, but not for these bytes
            data, offset = data[count:], offset + count

    def _attempt(self, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except OSError as error:
            self._keep(error)

    def _keep(self, error: OSError) -> None:
        self._failure = self._failure or OSError(error.errno, error.strerror, self._path)


def _open_direct(path: str) -> int:
    """The file opened past the page cache; -1 where the file system cannot."""
    try:
        return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return -1
