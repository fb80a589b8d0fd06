"""Arrays to files: whole ones, or region by region into a file that appears when it is complete.

How regions are written depends on the sink's form (`forms`); in every form a task may be done
twice, and writers of different regions need not know of each other.

- a failed or killed write leaves no file behind that looks finished
  (`tests/blocks/test_writing.py`)
- what `commit` has returned from is on storage; on network file systems so is what a task has
  written when it is done, since the pages of its machine are no other's to flush
  (`tests/system/faults/test_lost_pages.py`)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab, require_within
from hyperslab.blocks.writing.forms import form_of
from hyperslab.blocks.writing.forms.form import Check, Note, Written, require_block
from hyperslab.storage.frame import Frame

__all__ = [
    "Written",
    "allocate",
    "commit",
    "is_as_written",
    "require_block",
    "settle",
    "write",
    "write_region",
]


def write(sink: ArraySink, block: Array, check: Check | None = None) -> Written:
    """Write a whole file, which appears under its name only when it is complete, and once `check`
    has returned. Raises OSError, BlockError.
    """
    return form_of(sink).write(sink, block, check)


def settle(path: Path) -> None:
    """Wait until a file is on storage, and forget what the page cache has of it, so that who reads
    it reads what is there. A directory of chunks is left to `commit`.
    """
    if not path.is_file():
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def is_as_written(sink: ArraySink, partial_path: str, slab: Hyperslab, written: Written) -> bool:
    """Whether a region of an allocation, read back from storage, is what was written there. Raises
    OSError, FormatError.
    """
    settle(Path(written.path))
    return not form_of(sink).differs(sink, partial_path, slab, written)


def allocate(sink: ArraySink, partial_path: str) -> None:
    """Make room for a file, for `write_region` to fill: its space and head, or a directory. Raises
    OSError.

    What is in an allocation already stays, while the head, which no checksum covers, is written
    again.
    """
    form_of(sink).allocate(sink, partial_path)


def write_region(sink: ArraySink, partial_path: str, slab: Hyperslab, block: Array) -> Written:
    """Write the block of a region, whose edges are those of the sink's units; the checksum is of
    the values.
    """
    require_within(sink.path, sink.shape, slab)
    require_block(sink, block, slab.count)
    return form_of(sink).write_region(sink, partial_path, slab, block)


def commit(
    sink: ArraySink,
    partial_path: str,
    written: Sequence[Written],
    overwrite: bool = True,
    note: Note | None = None,
) -> None:
    """Make a file of which all regions are written appear under its name, after all its bytes are
    on storage.

    One that has the name already is replaced in the same step; without `overwrite` it stays, and so
    does the allocation. `note` is told of the finished file, and its frame, just before it has the
    name. Raises FileExistsError, other OSError, and FormatError when pieces are missing or damaged.
    """
    form_of(sink).commit(sink, partial_path, written, overwrite, note or _unnoted)


def _unnoted(path: Path, frame: Frame) -> None:
    """Nobody notes which file it is."""
