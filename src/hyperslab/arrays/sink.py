"""ArraySink: a file that is to be written, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.source import Codec, Scaling

Encoded = tuple[int, bytes | memoryview]
"A piece of a file that is joined of such, and its number."
Form = Literal["placed", "pieces", "parts", "store"]
"""How regions of a new file are written. placed: at their positions in a file of known head and
size. pieces: encoded by the writers, then joined in their order, or, where the head is known, put
anywhere behind it. parts: to a file each, with one more that says where they are. store: by the
format's own library into a directory of chunks.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ArraySink:
    """A file that an array will be written to: what to put where. Data; hyperslab.blocks.writing
    writes it.
    """

    path: str
    "Absolute path under which the finished file appears, by rename."
    format: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    "Axes of the array from slowest to fastest in the file, as ArraySource has them."
    dtype: np.dtype[Any]
    "dtype of the bytes in the file."
    head: bytes | None
    """The bytes before the data, where they are known before these; None for stores, parts and
    pieces that are joined.
    """
    header: Header = field(default_factory=Header)
    scaling: Scaling | None = None
    "What the file will say that the real values are."
    form: Form = "placed"
    unit: tuple[int, ...] = ()
    """Shape along the array's own axes of what one writer owns: regions that are written begin and
    end at multiples of it, or at the array's edge. A chunk, a shard; (): any region will do.
    """
    codecs: tuple[Codec, ...] = ()
    "Filters of every chunk, in the order in which writing applies them."
    encoding: Encoding = DEFAULT_ENCODING
    "What was asked for."
    reserved: np.generic | None = None
    """A value of the dtype that readers would take for a missing one: a block that holds it is
    refused.
    """
    members: tuple[ArraySink, ...] = ()
    """All arrays of a file that holds several, this one among them, each without this field; (): it
    holds this one alone.
    """
    offset: int | None = None
    """Position in a file of several arrays of its first value, or of the end of the root of its
    index of chunks; None: the end of the head.
    """

    @property
    def begin(self) -> int:
        """Position in the file of its first value, or of the end of the root of its index."""
        if self.offset is None:
            return len(self.head or b"")
        return self.offset

    @property
    def nbytes(self) -> int:
        """Bytes of the finished file where head is known, of the values otherwise."""
        return max(one.end for one in self.in_file)

    @property
    def end(self) -> int:
        """Position behind its last value, where these lie one after the other."""
        return self.begin + math.prod(self.shape) * self.dtype.itemsize

    @property
    def in_file(self) -> tuple[ArraySink, ...]:
        """All arrays of its file."""
        return self.members or (self,)

    @property
    def is_first(self) -> bool:
        """Whether it is the first array of its file."""
        return self.in_file[0].encoding.name == self.encoding.name

    @property
    def array_name(self) -> str:
        """Name by which the array is found in its file; '' where the file holds it alone."""
        if not self.members:
            return ""
        return self.encoding.name
