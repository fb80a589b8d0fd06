"""The state of a file: size, time of change, and a checksum of the bytes that tell files apart."""

from __future__ import annotations

import itertools
import os
from typing import NamedTuple

import xxhash

from hyperslab.errors import SourceChanged
from hyperslab.storage.location import Remote

PAGE_NBYTES = 4096
PAGES = 8


class Identity(NamedTuple):
    """The state of a file at one moment."""

    file_size: int
    mtime_ns: int
    version: str
    "Equal for an untouched copy: depends on the bytes only."


def identify_path(
    path: str, metadata: bytes, data_start: int = 0, before: os.stat_result | None = None
) -> Identity:
    """Identify a file as `identify` does, or a remote object as `identify_remote` does."""
    if isinstance(path, Remote):
        return identify_remote(path, metadata)
    with open(path, "rb") as file:
        return identify(file.fileno(), metadata, data_start, before)


def identify_remote(remote: Remote, metadata: bytes) -> Identity:
    """Identify a remote object by its size, what its store calls its state, and its metadata bytes.

    Where the store says nothing of the state, a change of nothing but values is not seen.
    """
    digest = xxhash.xxh3_128(
        remote.size.to_bytes(8, "little") + remote.tag.encode() + b"\0" + metadata
    )
    return Identity(remote.size, 0, digest.hexdigest())


def size_and_time(path: str) -> tuple[int, int]:
    """The size of a file and its time of change, of a remote object 0, as an `Identity` has
    them.
    """
    if isinstance(path, Remote):
        return path.size, 0
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def identify(
    fd: int, metadata: bytes, data_start: int = 0, before: os.stat_result | None = None
) -> Identity:
    """Identify an open file by its size, its metadata bytes and 8 evenly spread pages of its data.

    `before` is its state when the reading of the metadata began. Raises SourceChanged if it is
    another one now.
    """
    status = os.fstat(fd)
    if before is not None and _state(before) != _state(status):
        raise SourceChanged(
            "the file was written to while its description was read; open it again when it is"
            " finished"
        )
    digest = xxhash.xxh3_128(status.st_size.to_bytes(8, "little"))
    digest.update(metadata)
    last = max(data_start, status.st_size - PAGE_NBYTES)
    for page in sorted({data_start + (last - data_start) * i // (PAGES - 1) for i in range(PAGES)}):
        digest.update(os.pread(fd, PAGE_NBYTES, page))
    return Identity(status.st_size, status.st_mtime_ns, digest.hexdigest())


def identify_files(folder: str, most: int) -> str | None:
    """Checksum of the names, sizes and times of change of all files below a folder; None for more
    than `most`.

    Raises OSError.
    """
    seen: list[tuple[str, int, int]] = []
    folders = [folder]
    while folders and len(seen) <= most:
        with os.scandir(folders.pop()) as entries:
            for entry in itertools.islice(entries, most + 1):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    status = entry.stat()
                    seen.append((entry.path, status.st_size, status.st_mtime_ns))
    if len(seen) > most:
        return None
    return xxhash.xxh3_128(repr(sorted(seen)).encode()).hexdigest()


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
