"""Operations: small reads, opened files and names, by a process that measures.

Each operation is a generator, as in `transfers`.

This module is imported by processes that measure, which load the standard library alone.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hyperslab.storage.probing import caches
from hyperslab.storage.probing.transfers import Marks, Operation, Segment

APART_NBYTES = 64 * 1024
"Bytes between small reads, at least, so that none finds what came along with another."
P95 = 0.95


def small_reads(
    segments: Sequence[Segment], nbytes: int, seconds: float, seed: int, is_direct: bool
) -> Operation:
    """Read a few bytes here and there, none of them twice, from storage.

    Says `resident`, the share of the files in the page cache before. Returns `count`, and of the
    times `median_ns` and `p95_ns`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    if is_direct:
        flags |= os.O_DIRECT
    with ExitStack() as stack:
        places = []
        shares = []
        for path, _, size in segments:
            fd = os.open(path, flags)
            stack.callback(os.close, fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            caches.drop(fd)
            shares.append(caches.resident_share(fd, size))
            places += [(fd, offset) for offset in range(0, size, APART_NBYTES)]
        random.Random(seed).shuffle(places)
        buffer = memoryview(mmap.mmap(-1, nbytes))
        known = [share for share in shares if share is not None]
        yield {"resident": max(known, default=None)}
        times = _timed_reads(places, buffer, seconds)
    times.sort()
    return {
        "count": len(times),
        "median_ns": times[len(times) // 2],
        "p95_ns": times[int(len(times) * P95)],
    }


def _timed_reads(
    places: Sequence[tuple[int, int]], buffer: memoryview, seconds: float
) -> list[int]:
    """Time of each read, nanoseconds; until the seconds are over, but one at least."""
    times = []
    last_ns = time.monotonic_ns()
    until_ns = last_ns + int(seconds * 1e9)
    for fd, offset in places:
        os.preadv(fd, [buffer], offset)
        now_ns = time.monotonic_ns()
        times.append(now_ns - last_ns)
        last_ns = now_ns
        if now_ns >= until_ns:
            break
    return times


def _create(path: str, _: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _stat(path: str, _: str) -> None:
    os.stat(path)


def _open(path: str, _: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def _rename(path: str, renamed: str) -> None:
    os.rename(path, renamed)


def _unlink(_: str, renamed: str) -> None:
    os.unlink(renamed)


NAMED: dict[str, Callable[[str, str], None]] = {
    "create": _create,
    "stat": _stat,
    "open": _open,
    "rename": _rename,
    "unlink": _unlink,
}
"Operations on names in the order in which a file lives them; an open includes the close."


def names(operation: str, folder: str, client: int, count: int) -> Operation:
    """Do one operation with every file of a client, in a folder that all clients share.

    Returns `start_ns` and `marks`, (moment, files so far).
    """
    act = NAMED[operation]
    paths = [(f"{folder}/{client}-{n}", f"{folder}/{client}-{n}-renamed") for n in range(count)]
    yield {}
    marks = Marks(0)
    start_ns = time.monotonic_ns()
    marks.put(start_ns, 0)
    step = max(1, count // 64)
    done = 0
    for path, renamed in paths:
        act(path, renamed)
        done += 1
        if done % step == 0:
            marks.put(time.monotonic_ns(), done)
    return {"start_ns": start_ns, "marks": marks.told(time.monotonic_ns(), done)}


def opening(path: str, size: int, nbytes: int, seconds: float, once: bool) -> Operation:
    """Read a file in parts of this size, from the page cache where there is one: opened once, or
    for every part.

    Returns `count` of the parts and `elapsed_ns`.
    """
    buffer = memoryview(mmap.mmap(-1, nbytes))
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    yield {}
    parts = size // nbytes
    count = 0
    start_ns = time.monotonic_ns()
    now_ns = start_ns
    until_ns = start_ns + int(seconds * 1e9)
    try:
        while now_ns < until_ns:
            if not once:
                os.close(fd)
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.preadv(fd, [buffer], count % parts * nbytes)
            count += 1
            now_ns = time.monotonic_ns()
    finally:
        os.close(fd)
    return {"count": count, "elapsed_ns": now_ns - start_ns}


def pin(cpus: Sequence[int]) -> Operation:
    """Run on these processors alone from now on; returns nothing."""
    yield {}
    os.sched_setaffinity(0, cpus)
    return {}
