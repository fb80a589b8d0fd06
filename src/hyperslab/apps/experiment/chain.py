"""A chain of increments, each of which leaves its block in a file for the next one: pipelines whose
steps are programs that know of each other by files alone.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from hyperslab.arrays import Array
from hyperslab.trace import span


def increment_by_way_of_files(
    block: Array, folder: str = "", iterations: int = 1, delay: float = 0.0
) -> Array:
    """Add one `iterations` times, sleep `delay` seconds after each, and hand the block on by a file
    in `folder` between two of them. Raises OSError.
    """
    for iteration in range(iterations):
        if iteration:
            block = _handed_on(block, Path(folder))
        block = np.add(block, 1, dtype=block.dtype)
        time.sleep(delay)
    return block


def _handed_on(block: Array, folder: Path) -> Array:
    """The block after a way through a file, which is on storage and out of memory in between."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="block-", dir=folder)
    try:
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            with span("write") as meter:
                meter.nbytes = _write_all(file.fileno(), block)
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            with span("read") as meter:
                found = np.fromfile(file, block.dtype, block.size)
                meter.nbytes = found.nbytes
        return found.reshape(block.shape)
    finally:
        os.unlink(name)


def _write_all(descriptor: int, block: Array) -> int:
    """Write a block, C order, at the start of a file; returns its bytes."""
    data = np.ascontiguousarray(block).data.cast("B")
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], done)
    return done
