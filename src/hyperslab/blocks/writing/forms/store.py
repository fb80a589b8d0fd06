"""Stores: directories of chunk files, which the format's own library writes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums
from hyperslab.blocks.writing.forms.form import Form, Landed, Ready, Written
from hyperslab.formats import hooks, module
from hyperslab.storage.frame import documents
from hyperslab.storage.unfinished import is_beside


class Store(Form):
    """Chunks, or shards of them, in files of their own."""

    name = "store"

    def write_file(self, sink: ArraySink, block: Array, temporary: Path) -> str:
        whole = Hyperslab.full(sink.shape)
        _format(sink).create(sink, str(temporary))
        _format(sink).write_region(sink, str(temporary), whole, block)
        values = checksums.of_values(block.transpose(sink.axes), sink.dtype)
        return checksums.with_documents(values, temporary, sink.encoding.name)

    def allocate(self, sink: ArraySink, partial: str) -> None:
        _format(sink).create(sink, partial)

    def is_allocated(self, sink: ArraySink, partial: str) -> bool:
        return os.path.isdir(partial)

    def put(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Landed:
        return Landed(partial, _format(sink).write_region(sink, partial, slab, block))

    def complete(self, sink: ArraySink, partial: str, written: Sequence[Written]) -> Ready:
        store = Path(partial)
        _remove_unfinished(store)
        names = [one.encoding.name for one in sink.in_file]
        return Ready(store, documents(store, *names))

    def operations(self, sink: ArraySink, slab: Hyperslab) -> int:
        return math.prod(_grid(slab.count, sink.unit))

    def files(self, sink: ArraySink, writers: int) -> int:
        return math.prod(_grid(sink.shape, sink.unit)) + len(_format(sink).beside(sink))

    def folders(self, sink: ArraySink) -> int:
        """Count the folders above its array, those of its chunks by all axes but the last, and
        those of coordinates.
        """
        grid = _grid(sink.shape, sink.unit)
        above = 2 + len(Path(sink.encoding.name).parts)
        others = 2 * len(_format(sink).beside(sink))
        return above + others + sum(math.prod(grid[:depth]) for depth in range(1, len(grid)))


def _grid(shape: Sequence[int], unit: Sequence[int]) -> list[int]:
    """How many units there are along every axis."""
    return [math.ceil(n / u) for n, u in zip(shape, unit, strict=True)]


def _remove_unfinished(store: Path) -> None:
    """Remove the half-written chunk files of attempts that were killed."""
    for folder, _, names in os.walk(store):
        for name in filter(is_beside, names):
            Path(folder, name).unlink()


def _format(sink: ArraySink) -> hooks.Stores:
    return cast(hooks.Stores, module(sink.format))
