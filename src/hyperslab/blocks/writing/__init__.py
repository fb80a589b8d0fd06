"""Arrays to files: whole ones, or region by region into a file that appears when it is complete.

How regions are written depends on the sink's form (`hyperslab.arrays.array.Form`); in every form a
task may be done twice, and writers of different regions need not know of each other.

- a failed or killed write leaves no file behind that looks finished (`tests/unit/test_sinkio.py`)
- what `commit` has returned from is on storage; on network file systems so is what a task has
  written when it is done, since the pages of its machine are no other's to flush
  (`tests/faults/test_lost_pages.py`)
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from hyperslab.arrays.array import Array, ArraySink, require_within
from hyperslab.arrays.byteranges import BUFFER_NBYTES
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.positioned import opened, scatter, stored_bytes, write_at
from hyperslab.blocks.writing import joining, segments
from hyperslab.blocks.writing.segments import Segment
from hyperslab.errors import BlockError, UsageError
from hyperslab.formats import facts_of_file_name, module
from hyperslab.machine.host import LOCAL_FILE_SYSTEMS, file_system, network_file_system
from hyperslab.storage import fence, frame, renaming
from hyperslab.storage.frame import Frame, Span, documents, frame_of
from hyperslab.storage.renaming import put_back, remove
from hyperslab.trace import span

_CACHED_NBYTES = 512 * 1024
"""Small enough that what the checksum has just read is still in the processor's cache when it is
written.
"""
_INDEX = "index-"
_AND = "+"
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}\.part")
"Name of a file of a store before it is complete."


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write."""

    path: str
    nbytes: int
    checksum: str
    """xxh3_128 of the bytes of a whole file, or of a region's values as the file's dtype has them,
    in hexadecimal; of a whole store both, see `with_documents`.
    """
    end: int = 0
    "Where its segment ends in a part that holds those of many regions."


def write(sink: ArraySink, block: Array) -> Written:
    """Write a whole file, which appears under its name only when it is complete. Raises OSError,
    BlockError.
    """
    _check_block(sink, block, sink.shape)
    final = Path(sink.path)
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.part")
    try:
        with span("write") as mark:
            found = _write_whole(sink, block, temporary)
            mark.nbytes = stored_nbytes(temporary)
            _hand_over(temporary)
            fence.require_open()
            renaming.rename(temporary, final, True)
    except BaseException:
        remove(temporary)
        raise
    return Written(sink.path, mark.nbytes, found)


def _write_whole(sink: ArraySink, block: Array, temporary: Path) -> str:
    """The checksum of the file, or of a store's values and documents."""
    whole = Hyperslab.full(sink.shape)
    if sink.form == "parts":
        raise UsageError(
            f"{sink.path}: a virtual dataset is for a file that several tasks write to (--keep"
            " volume)"
        )
    if sink.form == "placed":
        return _write_placed(sink, _head(sink), block, temporary)
    if sink.form == "store":
        module(sink.format).create(sink, str(temporary))
        module(sink.format).write_region(sink, str(temporary), whole, block)
        return with_documents(checksum(block.transpose(sink.axes), sink.dtype), temporary)
    joining.write(sink, temporary, module(sink.format).encode(sink, whole, block))
    return file_checksum(str(temporary))


def allocate(sink: ArraySink, partial_path: str) -> None:
    """Make room for a file, for `write_region` to fill: its space and head, or a directory. Raises
    OSError.

    What is in an allocation already stays, while the head, which no checksum covers, is written
    again.
    """
    if sink.form in ("pieces", "parts"):
        Path(partial_path).mkdir(exist_ok=True)
        if is_in_place(sink, partial_path):
            joining.begin(sink, partial_path)
        return
    if sink.form == "store":
        module(sink.format).create(sink, partial_path)
        return
    is_new = not os.path.exists(partial_path)
    try:
        with opened(partial_path, os.O_WRONLY | os.O_CREAT) as fd:
            os.posix_fallocate(fd, 0, sink.nbytes)
            write_at(fd, [memoryview(_head(sink))], 0)
    except BaseException:
        if is_new:
            Path(partial_path).unlink(missing_ok=True)
        raise


def write_region(sink: ArraySink, partial_path: str, slab: Hyperslab, block: Array) -> Written:
    """Write the block of a region, whose edges are those of the sink's units; the checksum is of
    the values.
    """
    require_within(sink.path, sink.shape, slab)
    _check_block(sink, block, slab.count)
    if sink.form == "parts":
        done = write(module(sink.format).part_sink(sink, slab, partial_path), block)
        return replace(done, checksum=checksum(block.transpose(sink.axes), sink.dtype))
    path, end = partial_path, 0
    fence.require_open()
    with span("write") as mark:
        if sink.form == "pieces":
            pieces = module(sink.format).encode(sink, slab, block)
            to_home = is_in_place(sink, partial_path) and os.path.exists(
                segments.home(partial_path)
            )
            (path, end), mark.nbytes = segments.append(partial_path, pieces, to_home)
        elif sink.form == "store":
            mark.nbytes = module(sink.format).write_region(sink, partial_path, slab, block)
        else:
            mark.nbytes = _place(sink, partial_path, slab, block)
        _hand_over(Path(path))
        found = checksum(block.transpose(sink.axes), sink.dtype)
    return Written(path, mark.nbytes, found, end)


def is_in_place(sink: ArraySink, partial_path: str) -> bool:
    """Whether writers put pieces where they stay: only where one machine is sure to have all pages
    of the file.
    """
    return (
        sink.form == "pieces" and sink.head is not None and _is_local(os.path.dirname(partial_path))
    )


def _hand_over(path: Path) -> None:
    """Wait until a network has what this machine has written: nobody else can have that flushed
    later.
    """
    if _is_on_network(str(path.parent)):
        renaming.synchronise(path)


@lru_cache(maxsize=16)
def _is_on_network(folder: str) -> bool:
    return bool(network_file_system(folder))


@lru_cache(maxsize=16)
def _is_local(folder: str) -> bool:
    return file_system(folder) in LOCAL_FILE_SYSTEMS


def _place(sink: ArraySink, path: str, slab: Hyperslab, block: Array) -> int:
    """Write a region to its positions in an allocated file."""
    shape = tuple(sink.shape[a] for a in sink.axes)
    with opened(path, os.O_WRONLY) as fd:
        stored = block.transpose(sink.axes)
        return scatter(fd, len(_head(sink)), shape, slab.permute(sink.axes), stored, sink.dtype)


def commit(
    sink: ArraySink,
    partial_path: str,
    written: Sequence[Written],
    overwrite: bool = True,
    note: Callable[[Path, Frame], None] = lambda *_: None,
) -> None:
    """Make a file of which all regions are written appear under its name, after all its bytes are
    on storage.

    One that has the name already is replaced in the same step; without `overwrite` it stays, and so
    does the allocation. `note` is told of the finished file, and its frame, just before it has the
    name. Raises FileExistsError, other OSError, and FormatError when pieces are missing or damaged.
    """
    final, ready = Path(sink.path), Path(partial_path)
    replaced = parts(final)
    if sink.form == "parts":
        _commit_parts(sink, ready, written, overwrite, note)
        _discard(final, replaced)
        return
    ready, spans = _complete(sink, ready, written)
    renaming.synchronise(ready)
    note(ready, frame_of(ready, spans))
    renaming.rename(ready, final, overwrite)
    renaming.synchronise(final.parent, only_names=True)
    _discard(final, [*replaced, *([Path(partial_path)] if sink.form == "pieces" else [])])


def _complete(
    sink: ArraySink, partial: Path, written: Sequence[Written]
) -> tuple[Path, list[Span]]:
    """What is to get the file's name, with all that is to be in it, and where it holds no
    values.
    """
    if sink.form == "pieces":
        held = [segment(str(partial), w) for w in written]
        return joining.join(sink, str(partial), held, is_local=_is_local(str(partial.parent)))
    if sink.form == "store":
        _remove_unfinished(partial)
        return partial, documents(partial)
    return partial, [Span("", 0, len(_head(sink)))]


def _remove_unfinished(store: Path) -> None:
    """Remove the half-written chunk files of attempts that were killed."""
    for folder, _, names in os.walk(store):
        for name in filter(_UNFINISHED.fullmatch, names):
            Path(folder, name).unlink()


def segment(partial_path: str, written: Written) -> Segment:
    """Where the pieces of a region lie in an allocation."""
    return Segment(os.path.join(partial_path, os.path.basename(written.path)), written.end)


def has_part(sink: ArraySink, partial_path: str, written: Written) -> bool:
    """Whether the part that a region was written to is in an allocation, as far as sizes tell."""
    if sink.form == "pieces":
        return segments.is_there(segment(partial_path, written))
    part = Path(partial_path, os.path.basename(written.path))
    return part.is_file() and part.stat().st_size >= written.nbytes


def discard(path: Path, final: Path) -> None:
    """Remove what the file `final` needs no longer, by way of a name that says so should this be
    interrupted.
    """
    gone = final.with_name(f".{final.name}.gone-{secrets.token_hex(6)}.part")
    path.rename(gone)
    remove(gone)


def _discard(final: Path, folders: Iterable[Path]) -> None:
    for folder in folders:
        discard(folder, final)


def _commit_parts(
    sink: ArraySink,
    partial: Path,
    written: Sequence[Written],
    overwrite: bool,
    note: Callable[[Path, Frame], None],
) -> None:
    """Give the parts a folder of their own beside the file, then let the file appear that says
    where they are.

    The folder has a name that no other has, so that a file that is replaced keeps its parts until
    then.
    """
    final, whole = Path(sink.path), {partial / os.path.basename(part.path) for part in written}
    for stale in set(partial.iterdir()) - whole:  # of attempts that were killed
        remove(stale)
    renaming.synchronise(partial)
    folder = parts_of_allocation(sink, str(partial))
    index = final.with_name(f".{final.name}.{_INDEX}{_token(partial)}.part")
    index.unlink(missing_ok=True)
    module(sink.format).write_index(sink, sorted(map(str, whole)), folder.name, str(index))
    renaming.synchronise(index)
    note(index, frame_of(index, [Span("", 0, index.stat().st_size)]))
    renaming.rename(partial, folder, False)
    try:
        renaming.rename(index, final, overwrite)
    except OSError:
        folder.rename(partial)
        raise
    renaming.synchronise(final.parent, only_names=True)


def parts_of_allocation(sink: ArraySink, partial_path: str) -> Path:
    """The folder that an allocation of a sink in parts becomes."""
    final = Path(sink.path)
    return final.with_name(f"{final.name}.parts-{_token(Path(partial_path))}")


def _token(partial: Path) -> str:
    return partial.stem.rpartition("-")[2]


def parts(final: Path) -> list[Path]:
    """The folder of parts that a file says it has, if that bears the file's name."""
    facts = facts_of_file_name(final.name)
    if facts is None or not facts.has_parts or not final.is_file():
        return []
    name = module(facts.name).parts_folder(str(final))
    own = re.fullmatch(re.escape(final.name) + r"\.parts-[0-9a-f]+", name)
    return [final.with_name(name)] if own and final.with_name(name).is_dir() else []


def remove_output(path: Path) -> None:
    """Remove a file that was written here, with the folder of its parts."""
    for part in (*parts(path), path):
        remove(part)


def remove_stale(path: Path) -> None:
    """Remove what an interrupted run left; with an index that has not become a file, also the parts
    that it is of.

    A directory that was put aside for one that never came gets its name back.
    """
    if put_back(path):
        return
    name, _, token = path.name[1:].removesuffix(".part").rpartition(f".{_INDEX}")
    if name:
        remove(path.with_name(f"{name}.parts-{token}"))
    remove(path)


def file_checksum(path: str) -> str:
    """xxh3_128 of a file's bytes, in bounded memory."""
    digest, buffer = xxhash.xxh3_128(), bytearray(BUFFER_NBYTES)
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()


def with_documents(values: str, store: Path) -> str:
    """The checksum of a whole store: that of its values, and that of its documents."""
    return f"{values}{_AND}{frame.checksum(store, documents(store))}"


def covers_documents(recorded: str) -> bool:
    """Whether a checksum is of `with_documents`; those of earlier versions are of values alone."""
    return _AND in recorded


def stored_nbytes(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _check_block(sink: ArraySink, block: Array, shape: Sequence[int]) -> None:
    if block.shape != tuple(shape) or block.dtype.newbyteorder("=") != sink.dtype.newbyteorder("="):
        expected = f"{tuple(shape)} {sink.dtype.newbyteorder('=')}"
        raise BlockError(
            f"{sink.path}: the block is {block.shape} {block.dtype} where {expected} was planned"
        )
    if sink.reserved is not None and (block == sink.reserved).any():
        raise BlockError(
            f"{sink.path}: the value {sink.reserved} would be taken for a missing one by readers of"
            " this format, whose default fill value it is: write .h5, or another --dtype"
        )


def _head(sink: ArraySink) -> bytes:
    assert sink.head is not None
    return sink.head


def _write_placed(sink: ArraySink, head: bytes, block: Array, temporary: Path) -> str:
    digest, offset = xxhash.xxh3_128(head), 0
    pending = [memoryview(head)]
    with opened(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        for data in stored_bytes(block.transpose(sink.axes), sink.dtype):
            for first in range(0, len(data), _CACHED_NBYTES):
                piece = data[first : first + _CACHED_NBYTES]
                digest.update(piece)
                offset += write_at(fd, [*pending, piece], offset)
                pending = []
        if pending:  # an array without elements
            write_at(fd, pending, offset)
    return digest.hexdigest()


def checksum(stored: Array, dtype: np.dtype[Any]) -> str:
    """xxh3_128 of values in stored order, as a file of this dtype has them."""
    digest = xxhash.xxh3_128()
    for data in stored_bytes(stored, dtype):
        digest.update(data)
    return digest.hexdigest()
