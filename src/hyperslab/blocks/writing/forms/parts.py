"""A file for each region, in a folder, with one more beside it that says where they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums
from hyperslab.blocks.writing.forms import form_of
from hyperslab.blocks.writing.forms.form import Form, Ready, Written
from hyperslab.blocks.writing.part_folders import folder_of, index_of, part_folders
from hyperslab.errors import UsageError
from hyperslab.formats import hooks, module
from hyperslab.storage import renaming
from hyperslab.storage.frame import Span
from hyperslab.storage.renaming import remove


class Parts(Form):
    """Files of regions, each of them in a form of its own."""

    name = "parts"

    def write_file(self, sink: ArraySink, block: Array, temporary: Path) -> str:
        raise UsageError(
            f"{sink.path}: a virtual dataset is for a file that several tasks write to (--keep"
            " volume)"
        )

    def allocate(self, sink: ArraySink, partial: str) -> None:
        Path(partial).mkdir(exist_ok=True)

    def is_allocated(self, sink: ArraySink, partial: str) -> bool:
        return os.path.isdir(partial)

    def write_region(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Written:
        part = _format(sink).part_sink(sink, slab, partial)
        done = form_of(part).write(part, block)
        values = checksums.of_values(block.transpose(sink.axes), sink.dtype)
        return replace(done, checksum=values)

    def complete(self, sink: ArraySink, partial: str, written: Sequence[Written]) -> Ready:
        """The file that says where the parts are, in the folder that they will have."""
        final = Path(sink.path)
        allocation = Path(partial)
        whole = {_part(partial, each) for each in written}
        for stale in set(allocation.iterdir()) - whole:  # of attempts that were killed
            remove(stale)
        folder = folder_of(final, allocation)
        index = index_of(final, allocation)
        index.unlink(missing_ok=True)
        _format(sink).write_index(sink, sorted(map(str, whole)), folder.name, str(index))
        return Ready(index, [Span("", 0, index.stat().st_size)], (allocation,))

    def name_file(self, sink: ArraySink, partial: str, ready: Ready, overwrite: bool) -> list[Path]:
        """Give the parts a folder of their own beside the file, then let the file appear that says
        where they are.
        """
        final = Path(sink.path)
        allocation = Path(partial)
        replaced = part_folders(final)
        folder = folder_of(final, allocation)
        renaming.rename(allocation, folder, False)
        try:
            renaming.rename(ready.path, final, overwrite)
        except OSError:
            folder.rename(allocation)
            raise
        return replaced

    def allocation(self, written: Written) -> str:
        return Path(written.path).parent.name

    def is_of(self, sink: ArraySink, allocation: str) -> bool:
        """Parts get a name of their own before their file."""
        final = Path(sink.path)
        return folder_of(final, Path(allocation)) in part_folders(final)

    def is_kept(self, sink: ArraySink, partial: str, written: Written) -> bool:
        part = _part(partial, written)
        return part.is_file() and part.stat().st_size >= written.nbytes

    def differs(self, sink: ArraySink, partial: str, slab: Hyperslab, written: Written) -> bool:
        whole = Hyperslab.full(slab.count)
        return checksums.of_region_at(_part(partial, written), whole) != written.checksum

    def files(self, sink: ArraySink, writers: int) -> int:
        return 1 + writers


def _part(partial: str, written: Written) -> Path:
    """The file of a region in an allocation."""
    return Path(partial, os.path.basename(written.path))


def _format(sink: ArraySink) -> hooks.Divides:
    return cast(hooks.Divides, module(sink.format))
