"""Pieces that writers encode: joined in their order, or, where the head is known, put anywhere
behind it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums
from hyperslab.blocks.writing import joining, places, segments
from hyperslab.blocks.writing.directio import WINDOW_NBYTES
from hyperslab.blocks.writing.forms.form import Form, Landed, Ready, Written
from hyperslab.blocks.writing.segments import Segment
from hyperslab.formats import hooks, module


class Pieces(Form):
    """Encoded pieces, in parts of their writers or where they stay."""

    name = "pieces"
    window_nbytes = 2 * WINDOW_NBYTES

    def write_file(self, sink: ArraySink, block: Array, temporary: Path) -> str:
        whole = Hyperslab.full(sink.shape)
        joining.write(sink, temporary, _format(sink).encode(sink, whole, block))
        return checksums.of_file(temporary)

    def allocate(self, sink: ArraySink, partial: str) -> None:
        Path(partial).mkdir(exist_ok=True)
        if is_in_place(sink, partial):
            joining.begin(sink, partial)

    def is_allocated(self, sink: ArraySink, partial: str) -> bool:
        return os.path.isdir(partial)

    def put(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Landed:
        pieces = _format(sink).encode(sink, slab, block)
        to_home = is_in_place(sink, partial) and os.path.exists(segments.home(partial))
        (path, end), nbytes = segments.append(partial, pieces, to_home)
        return Landed(path, nbytes, end)

    def complete(self, sink: ArraySink, partial: str, written: Sequence[Written]) -> Ready:
        held = [_segment(partial, each) for each in written]
        is_local = places.is_local(os.path.dirname(partial))
        return Ready(*joining.join(sink, partial, held, is_local))

    def left_over(self, partial: str) -> list[Path]:
        return [Path(partial)]

    def allocation(self, written: Written) -> str:
        return Path(written.path).parent.name

    def is_kept(self, sink: ArraySink, partial: str, written: Written) -> bool:
        return segments.is_there(_segment(partial, written))

    def differs(self, sink: ArraySink, partial: str, slab: Hyperslab, written: Written) -> bool:
        """Each piece has a checksum of its own, of the bytes as they are stored."""
        for _ in segments.pieces([_segment(partial, written)]):
            pass  # one that is damaged is an error
        return False

    def is_copied(self, sink: ArraySink, partial: str) -> bool:
        """Pieces that are joined are there until the file of them is."""
        return not is_in_place(sink, partial)


def is_in_place(sink: ArraySink, partial: str) -> bool:
    """Whether writers put pieces where they stay: only where one machine is sure to have all pages
    of the file.
    """
    return sink.head is not None and places.is_local(os.path.dirname(partial))


def _segment(partial: str, written: Written) -> Segment:
    """Where the pieces of a region lie in an allocation."""
    return Segment(os.path.join(partial, os.path.basename(written.path)), written.end)


def _format(sink: ArraySink) -> hooks.Encodes:
    return cast(hooks.Encodes, module(sink.format))
