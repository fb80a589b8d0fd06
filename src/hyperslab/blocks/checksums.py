"""Checksums of what was written: of the bytes of a file, of the values of a region, of a store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import xxhash

from hyperslab import formats
from hyperslab.arrays import Array, DType
from hyperslab.arrays.byteranges import BUFFER_NBYTES
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import reading
from hyperslab.blocks.positioned import stored_bytes
from hyperslab.storage import frame
from hyperslab.storage.frame import documents

_AND = "+"


def _unheard(_nbytes: int) -> None:
    """Nobody asks."""


def of_values(stored: Array, dtype: DType) -> str:
    """xxh3_128 of values in stored order, as a file of this dtype has them."""
    digest = xxhash.xxh3_128()
    for data in stored_bytes(stored, dtype):
        digest.update(data)
    return digest.hexdigest()


def of_file(path: str | os.PathLike[str], took: Callable[[int], None] = _unheard) -> str:
    """xxh3_128 of a file's bytes, in bounded memory; `took` is told of each piece, and may raise
    what ends it.
    """
    digest = xxhash.xxh3_128()
    with Path(path).open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        # all of a buffer is written to as it is made: 10 ms for the largest one
        buffer = bytearray(max(1, min(size, BUFFER_NBYTES)))
        while count := file.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
            took(count)
    return digest.hexdigest()


def with_documents(values: str, store: Path, name: str) -> str:
    """The checksum of a whole store: that of the values of the array with this name, and that of
    all else.
    """
    return f"{values}{_AND}{frame.checksum(store, documents(store, name))}"


def of_region(source: ArraySource, slab: Hyperslab) -> str:
    """The checksum of the stored values that a region of a source holds now.

    Raises OSError, FormatError.
    """
    block = reading.read(source, slab, values="stored")
    return of_values(block.transpose(source.axes), source.stored)


def of_region_at(path: str | os.PathLike[str], slab: Hyperslab, name: str = "") -> str:
    """The same of a file, or of its allocation; of the array with this name where it holds
    several.
    """
    return of_region(source_at(path, name), slab)


def source_at(path: str | os.PathLike[str], name: str) -> ArraySource:
    """The array of a file, or that with a name where it holds several. Raises OSError,
    FormatError.
    """
    url = os.fspath(path)
    if name:
        url += f"::{name}"
    return formats.open_source(url)


def of_output(path: Path, recorded: str) -> str:
    """The checksum of a file or store as it is now, of what the recorded one covers.

    Raises OSError, FormatError.
    """
    if not path.is_dir():
        return of_file(path)
    source = formats.open_source(os.fspath(path))
    values = of_region(source, Hyperslab.full(source.shape))
    if _AND in recorded:
        return with_documents(values, path, source.name)
    return values  # those of earlier versions are of values alone
