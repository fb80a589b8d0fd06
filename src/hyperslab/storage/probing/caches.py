"""Caches: pages of a file out of the page cache, and how many of them are in it.

This module is imported by processes that measure, which load the standard library alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
"Where root has the kernel forget all clean pages, names and inodes (proc_sys_vm(5))."
_FAILED = ctypes.c_void_p(-1).value


def drop(fd: int) -> None:
    """Have the kernel forget the clean pages of a file (posix_fadvise(2)); dirty ones stay."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_all() -> None:
    """Have the kernel forget what it can forget. Raises OSError for anybody but root."""
    DROP_CACHES.write_text("3")


def resident_share(fd: int, nbytes: int) -> float | None:
    """Share of a file that is in the page cache, 0 to 1, by mincore(2); None where it cannot be
    said. The file is our own, open for reading.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    protection = (mmap.PROT_READ, mmap.MAP_SHARED)
    address = libc.mmap(None, ctypes.c_size_t(nbytes), *protection, fd, ctypes.c_long(0))
    if address == _FAILED:  # as files of some FUSE programs, which cannot be mapped
        return None
    try:
        pages = -(-nbytes // mmap.PAGESIZE)
        resident = (ctypes.c_ubyte * pages)()
        where = ctypes.c_void_p(address)
        if libc.mincore(where, ctypes.c_size_t(nbytes), resident) != 0:
            return None
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))
    return sum(flag & 1 for flag in resident) / pages
