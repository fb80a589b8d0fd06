"""Ways of reading: each says which sources it fits, what a read takes, and reads."""

from __future__ import annotations

from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading.ways.chunks import Chunks
from hyperslab.blocks.reading.ways.gzip import Gzip
from hyperslab.blocks.reading.ways.library import Library
from hyperslab.blocks.reading.ways.memory import Memory
from hyperslab.blocks.reading.ways.requests import Requests
from hyperslab.blocks.reading.ways.spans import Spans
from hyperslab.blocks.reading.ways.way import Way

__all__ = ["WAYS", "Way", "way_of"]

WAYS: tuple[Way, ...] = (Memory(), Gzip(), Library(), Requests(), Chunks(), Spans())
"All ways of reading; a source is read in the first that fits."


def way_of(source: ArraySource) -> Way:
    """The way in which a source is read on this machine.

    Every reader and every estimate asks here; nothing keeps the answer, as a source travels between
    processes and may get its index on the way.
    """
    for way in WAYS:
        if way.fits(source):
            return way
    raise AssertionError("spans fit what nothing else does")
