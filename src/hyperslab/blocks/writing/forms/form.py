"""Form: what a sink is written as, and what that means for all who ask.

In every form a task may be done twice, and writers of different regions need not know of each
other. What is not complete yet lies in an allocation, a hidden file or folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums
from hyperslab.blocks.writing.part_folders import discard_all, part_folders
from hyperslab.blocks.writing.places import hand_over
from hyperslab.errors import BlockError
from hyperslab.storage import fence, renaming
from hyperslab.storage.frame import Frame, Span, frame_of
from hyperslab.storage.renaming import remove
from hyperslab.storage.unfinished import beside
from hyperslab.trace import span

Note = Callable[[Path, Frame], None]
"Function that is told of a finished file, and its frame, just before it has its name."
_TRUTH_AS_BYTES = (np.uint8, np.int8)
"dtypes in which formats that have no bool hold it, of 0 and 1."
Check = Callable[[Path, str], None]
"""Function that is told of a whole file that is to get its name, and its checksum; what it raises
prevents that.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write."""

    path: str
    nbytes: int
    checksum: str
    """xxh3_128 of the bytes of a whole file, or of a region's values as the file's dtype has them,
    in hexadecimal; of a whole store both, see `checksums.with_documents`.
    """
    end: int = 0
    "Where its segment ends in a part that holds those of many regions."


class Landed(NamedTuple):
    """Where the bytes of a region went."""

    path: str
    nbytes: int
    end: int = 0
    "End of the segment, as `Written` has it."


class Ready(NamedTuple):
    """What is to get the name of a file, with all that is to be in it."""

    path: Path
    spans: list[Span]
    "Where it holds no values."
    beside: tuple[Path, ...] = ()
    "Folders that get a name with it."

    def secure(self) -> Frame:
        """Wait until all of it is on storage; its frame. Raises OSError."""
        for each in self.beside:
            renaming.synchronise(each)
        renaming.synchronise(self.path)
        return frame_of(self.path, self.spans)


class Form:
    """One form of writing; a subclass says what differs."""

    name: str
    has_shared_file = False
    "Whether writers of several regions write to the same pages."
    window_nbytes = 0
    "Memory that writing a region takes beside its block, in bytes."

    def write_file(self, sink: ArraySink, block: Array, temporary: Path) -> str:
        """Write a whole file under another name; its checksum. Raises OSError, UsageError."""
        raise NotImplementedError

    def allocate(self, sink: ArraySink, partial: str) -> None:
        """Make room for a file; what is in an allocation already stays. Raises OSError."""
        raise NotImplementedError

    def is_allocated(self, sink: ArraySink, partial: str) -> bool:
        """Whether an allocation is there, as far as sizes tell."""
        raise NotImplementedError

    def put(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Landed:
        """Write the block of a region into an allocation."""
        raise NotImplementedError

    def complete(self, sink: ArraySink, partial: str, written: Sequence[Written]) -> Ready:
        """The file of all regions. Raises FormatError where some are missing or damaged."""
        raise NotImplementedError

    def write(self, sink: ArraySink, block: Array, check: Check | None = None) -> Written:
        """Write a whole file, which appears under its name only when it is complete, and `check`
        has nothing against it.

        Raises OSError, BlockError.
        """
        require_block(sink, block, sink.shape)
        final = Path(sink.path)
        temporary = beside(final)
        try:
            with span("write") as mark:
                found = self.write_file(sink, block, temporary)
                mark.nbytes = stored_nbytes(temporary)
                hand_over(temporary)
                if check is not None:
                    check(temporary, found)
                fence.require_open()
                renaming.rename(temporary, final, True)
        except BaseException:
            remove(temporary)
            raise
        return Written(sink.path, mark.nbytes, found)

    def write_region(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Written:
        """Write the block of a region, whose edges are those of the sink's units; the checksum is
        of the values.
        """
        fence.require_open()
        with span("write") as mark:
            landed = self.put(sink, partial, slab, block)
            mark.nbytes = landed.nbytes
            hand_over(Path(landed.path))
            found = checksums.of_values(block.transpose(sink.axes), sink.dtype)
        return Written(landed.path, landed.nbytes, found, landed.end)

    def commit(
        self,
        sink: ArraySink,
        partial: str,
        written: Sequence[Written],
        overwrite: bool,
        note: Note,
    ) -> None:
        """Make a file appear under its name, after all its bytes are on storage."""
        final = Path(sink.path)
        ready = self.complete(sink, partial, written)
        note(ready.path, ready.secure())
        outdated = self.name_file(sink, partial, ready, overwrite)
        renaming.synchronise(final.parent, only_names=True)
        discard_all(outdated, final)

    def name_file(self, sink: ArraySink, partial: str, ready: Ready, overwrite: bool) -> list[Path]:
        """Give a file that is on storage its name; returns what may go once the name is, too.
        Raises FileExistsError, and other OSError.
        """
        final = Path(sink.path)
        replaced = part_folders(final)
        renaming.rename(ready.path, final, overwrite)
        return [*replaced, *self.left_over(partial)]

    def left_over(self, partial: str) -> list[Path]:
        """What is left of an allocation when its file has its name."""
        return []

    def allocation(self, written: Written) -> str:
        """Name of the allocation that a region was written to."""
        return os.path.basename(written.path)

    def is_of(self, sink: ArraySink, allocation: str) -> bool:
        """Whether the file that is there now can be what this allocation became."""
        return True

    def is_kept(self, sink: ArraySink, partial: str, written: Written) -> bool:
        """Whether what was written of a region is in its allocation, as far as sizes tell."""
        return self.is_allocated(sink, partial)

    def differs(self, sink: ArraySink, partial: str, slab: Hyperslab, written: Written) -> bool:
        """Whether an allocation holds in a region something else than was written there.

        Raises OSError, FormatError where it cannot be read.
        """
        return checksums.of_region_at(partial, slab, sink.array_name) != written.checksum

    def is_copied(self, sink: ArraySink, partial: str) -> bool:
        """Whether bytes are on disk twice for a while."""
        return False

    def operations(self, sink: ArraySink, slab: Hyperslab) -> int:
        """Number of writes by which a region is written."""
        return 1

    def files(self, sink: ArraySink, writers: int) -> int:
        """Files that it becomes by so many writes, at most; of several arrays of a file, the first
        one counts.
        """
        return int(sink.is_first)

    def folders(self, sink: ArraySink) -> int:
        """Directories that it becomes, at most."""
        return 0


def stored_nbytes(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def require_block(sink: ArraySink, block: Array, shape: Sequence[int]) -> None:
    """Raise BlockError for a block that is another one than was planned, or that cannot be told
    from missing values.
    """
    planned = tuple(shape)
    dtype = sink.dtype.newbyteorder("=")
    given = block.dtype.newbyteorder("=")
    is_truth = given.kind == "b" and dtype in _TRUTH_AS_BYTES
    if block.shape != planned or not (given == dtype or is_truth):
        raise BlockError(
            f"{sink.path}: the block is {block.shape} {block.dtype} where {planned} {dtype} was"
            " planned"
        )
    if sink.reserved is not None and (block == sink.reserved).any():
        raise BlockError(
            f"{sink.path}: the value {sink.reserved} would be taken for a missing one by readers of"
            " this format, whose default fill value it is: write .h5, or another --dtype"
        )
