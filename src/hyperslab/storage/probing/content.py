"""Content: what the files of a probe hold: bytes that no device can make fewer, and that say where
they belong.

Every page begins with the number of its file and its own number in it, so that a page in the wrong
place, or of an earlier file, is not taken for the right one; the rest is random.

This module is imported by processes that measure, which load the standard library alone.
"""

from __future__ import annotations

import mmap
import os
import random
from array import array

PAGE_NBYTES = 4096
"Size of the pages that are numbered, bytes; direct transfers are multiples of it."
WINDOW_NBYTES = 16 * 2**20
"Bytes after which the random ones come again; none of the requests is larger."
_WORD_NBYTES = 8
_PAGE_WORDS = PAGE_NBYTES // _WORD_NBYTES
_FILE_SHIFT = 40
"Bits of the number of a page in its file."


def random_window(seed: int) -> int:
    """Descriptor of a file in memory that holds the random bytes, for processes to inherit."""
    fd = os.memfd_create("hyperslab-probe")
    os.write(fd, random.Random(seed).randbytes(WINDOW_NBYTES))
    return fd


class Content:
    """The content of all files, made as it is asked for."""

    def __init__(self, window: int) -> None:
        """`window` is the descriptor that `random_window` has made."""
        self._window = mmap.mmap(-1, WINDOW_NBYTES)  # begins with a page, as direct writes need
        self._window.write(os.pread(window, WINDOW_NBYTES, 0))
        self._bytes = memoryview(self._window)
        self._words = self._bytes.cast("Q")
        self._file = -1
        self._numbers = memoryview(array("Q"))

    def number(self, file: int, nbytes: int) -> None:
        """Make the numbers of the pages of a file, whose content is asked for next."""
        first = file << _FILE_SHIFT
        pages = -(-nbytes // PAGE_NBYTES)
        if file != self._file or len(self._numbers) < pages:
            self._numbers = memoryview(array("Q", range(first, first + pages)))
            self._file = file

    def part(self, offset: int, nbytes: int) -> memoryview:
        """Bytes of the file from a position on, until another part is asked for.

        Both are multiples of a page, and the part lies between two multiples of the window.
        """
        position = offset % WINDOW_NBYTES
        page = offset // PAGE_NBYTES
        pages = nbytes // PAGE_NBYTES
        word = position // _WORD_NBYTES
        numbered = self._words[word : word + pages * _PAGE_WORDS : _PAGE_WORDS]
        numbered[:] = self._numbers[page : page + pages]
        return self._bytes[position : position + nbytes]
