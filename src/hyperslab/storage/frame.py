"""Frame: what a file or store holds beside its values - head, index, documents - and the checksum
of that.

Held by tests/system/faults/test_frames.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import xxhash

from hyperslab.storage.zarr_names import DOCUMENTS

_PIECE_NBYTES = 2**20


class Span(NamedTuple):
    """Adjacent bytes."""

    name: str
    "Path of a document in a store; '' for the file itself."
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What is not values, as it was when the file was finished."""

    spans: tuple[Span, ...]
    checksum: str
    """xxh3_128 of the file's size, or the names of the store's documents, and of the spans, in
    hexadecimal.
    """

    @property
    def nbytes(self) -> int:
        return sum(span.nbytes for span in self.spans)


def frame_of(path: Path, spans: Iterable[Span]) -> Frame:
    """The frame that these spans of a file or store are. Raises OSError."""
    found = tuple(spans)
    return Frame(found, checksum(path, found))


def checksum(path: Path, spans: Iterable[Span]) -> str:
    """xxh3_128 of spans of a file or store as they are now, and of how much there is. Raises
    OSError.
    """
    digest = xxhash.xxh3_128(_extent(path).encode())
    for span in spans:
        for data in _bytes(path / span.name, span):
            digest.update(data)
    return digest.hexdigest()


def _extent(path: Path) -> str:
    """Bytes of a file, or names of the documents of a store: what was added to either changes
    it.
    """
    if path.is_dir():
        return "\n".join(span.name for span in documents(path))
    return str(path.stat().st_size)


def documents(store: Path, *names: str) -> list[Span]:
    """All documents of a store, and where the arrays with its values have names, the chunks of the
    others.
    """
    own = names or ("",)
    found = sorted(path for path in _files(store) if _is_beside(path.relative_to(store), own))
    return [Span(str(path.relative_to(store)), 0, path.stat().st_size) for path in found]


def _is_beside(path: Path, names: Iterable[str]) -> bool:
    return path.name in DOCUMENTS or not any(map(path.is_relative_to, names))


def _files(store: Path) -> Iterator[Path]:
    return (Path(folder, name) for folder, _, names in os.walk(store) for name in names)


def _bytes(path: Path, span: Span) -> Iterator[bytes]:
    left = span.nbytes
    with path.open("rb") as file:
        file.seek(span.offset)
        while left and (data := file.read(min(left, _PIECE_NBYTES))):
            left -= len(data)
            yield data
