"""What a format offers beside `Format`, by the forms in which its files are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink, Encoded
from hyperslab.arrays.slab import Hyperslab


class Unites(Protocol):
    """A format whose new files may hold several arrays."""

    def together(self, sinks: Sequence[ArraySink]) -> tuple[ArraySink, ...]:
        """The same arrays, of one path and with different names, in one file.

        Raises UsageError for what such a file cannot hold.
        """


class TellsOfGroups(Protocol):
    """A format whose groups have attributes, but whose variables are not listed."""

    def group_attributes(self, path: str, group: str) -> Mapping[str, Any]:
        """The attributes of a group, '' for the root. Raises FormatError."""


class Encodes(Protocol):
    """A format with sinks in pieces."""

    def encode(self, sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
        """The pieces of a region, each with its number in the file."""


class Joins(Protocol):
    """A format with sinks in pieces whose head is not known before these."""

    def assemble(self, sink: ArraySink, pieces: Iterable[Encoded]) -> Iterator[bytes | memoryview]:
        """The file of all pieces, which come in the order of their numbers.

        The first part that it yields holds no values.
        """


class Indexes(Protocol):
    """A format with sinks in pieces that can lie anywhere behind a head."""

    def index(
        self, sink: ArraySink, numbers: Array, nbytes: Array, offsets: Array, size: int
    ) -> Iterator[tuple[int, bytes]]:
        """What to write where, to complete a file of that size in which the pieces are."""


class Divides(Protocol):
    """A format with sinks in parts."""

    def part_sink(self, whole: ArraySink, slab: Hyperslab, folder: str) -> ArraySink:
        """The file of a region."""

    def write_index(self, whole: ArraySink, parts: Iterable[str], folder: str, path: str) -> None:
        """Write the file that says where the parts are; they will be in `folder`, a name beside
        it.
        """

    def parts_folder(self, path: str) -> str:
        """Name of the folder beside a file in which its parts are, '' for none."""


class Stores(Protocol):
    """A format whose files are stores: directories of chunks."""

    def create(self, sink: ArraySink, path: str) -> None:
        """Make a store, without values."""

    def beside(self, sink: ArraySink) -> Sequence[tuple[ArraySink, Array]]:
        """The other arrays of a store, with their values, all of which `create` makes."""

    def write_region(self, sink: ArraySink, path: str, slab: Hyperslab, block: Array) -> int:
        """Write the chunks of a region; bytes stored."""
