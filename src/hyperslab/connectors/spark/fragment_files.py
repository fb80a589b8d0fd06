"""Fragment files: a hidden folder beside the file that is to be written, with what its tasks have
finished.

It is named as what is unfinished everywhere is (`hyperslab.storage.unfinished.LEFTOVER`), holds a
file of every attempt, which has its name only when it is complete, and goes as a whole, with
whatever attempts that nobody waited for have left. A driver that lives holds the lock in it.

- a folder whose driver was killed goes with the next `h5write` of the same path, if it is sure that
  nobody is left: the lock is free, and on this machine, or it was taken since this machine has
  started (`tests/connectors/spark/test_write_faults.py`)
- that of a data source, which has no process that lives as long as the write does, stays until it
  is removed by hand
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from hyperslab.blocks.positioned import naming, stored_bytes, write_at
from hyperslab.blocks.writing.part_folders import discard
from hyperslab.connectors.spark.fragments import Numbers, Staged
from hyperslab.connectors.spark.rows import Piece
from hyperslab.errors import FormatError, UsageError
from hyperslab.machine.host import boot_id
from hyperslab.storage import renaming
from hyperslab.storage.mounts import file_system
from hyperslab.storage.tiers.file_systems import LOCAL_FILE_SYSTEMS, network_file_system

_LOCK = "lock"
_LOCKLESS = frozenset((errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL))
"What flock(2) says where a file system was mounted without it."


def begin(final: str) -> str:
    """Make the folder for a write of a file; returns its path. Raises UsageError where nothing can
    be made.
    """
    path = Path(final)
    folder = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        folder.mkdir()
    except OSError as error:
        raise UsageError(
            f"{final} cannot be written: {error.strerror}: choose another folder"
        ) from error
    return str(folder)


@contextmanager
def begun(final: str) -> Iterator[str]:
    """The folder for a write of a file, locked by this process, and removed at the end; leftovers
    go first.
    """
    _remove_abandoned(Path(final))
    folder = begin(final)
    try:
        lock = _locked(folder)
        try:
            yield folder
        finally:
            os.close(lock)
    finally:
        end(folder, final)


def _locked(folder: str) -> int:
    """The descriptor that holds the lock of a folder, in which there is none before it is held.

    Where the file system has no locks there is none, so that nobody takes the folder for one that
    is left.
    """
    new = os.path.join(folder, f".{_LOCK}")
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, boot_id().encode())
    except OSError as error:
        if error.errno not in _LOCKLESS:
            os.close(fd)
            raise
    else:
        os.rename(new, os.path.join(folder, _LOCK))
    return fd


def end(folder: str, final: str) -> None:
    """Remove the folder of a write; by way of another name, so that tasks that nobody waits for
    find it gone.
    """
    if os.path.isdir(folder):
        discard(Path(folder), Path(final))


def stage(pieces: Iterable[Piece], folder: str, partition: int) -> Staged:
    """Write what a task has to a file of its own; what cannot be written at all is said in what is
    returned.

    Raises OSError, of which nothing stays.
    """
    name = f"{partition:06d}-{secrets.token_hex(8)}"
    unfinished = os.path.join(folder, f".{name}")
    path = os.path.join(folder, name)
    try:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            staged = _Appended(partition, name, fd, unfinished).write(pieces)
        finally:
            os.close(fd)
        if staged.name:
            if network_file_system(folder):  # nobody else can have this machine's pages flushed
                renaming.synchronise(Path(unfinished))
            os.rename(unfinished, path)
            return staged
    except UsageError as error:
        staged = Staged(partition, refused=str(error))
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        if isinstance(error, FileNotFoundError) and not os.path.isdir(folder):
            what = (
                "is not there: it went with a write that failed, or driver and executors do not"
                " share its folder"
            )
            raise FileNotFoundError(errno.ENOENT, what, folder) from error
        raise
    os.unlink(unfinished)
    return staged


class _Appended:
    """What a task appends to its file."""

    def __init__(self, partition: int, name: str, fd: int, path: str) -> None:
        self._partition = partition
        self._name = name
        self._fd = fd
        self._path = path
        self._first: Piece | None = None
        self._is_reversed = False
        self._offset = self._rows = 0
        self._tables: list[Numbers] = []

    def write(self, pieces: Iterable[Piece]) -> Staged:
        for piece in pieces:
            self._append(piece)
        if self._first is None:
            return Staged(self._partition)
        kind = self._first.kind
        block = self._first.block
        if kind != "blocks":
            table = _merged(np.concatenate(self._tables))
        else:
            table = np.concatenate(self._tables)
        with naming(self._path):
            write_at(
                self._fd,
                [np.ascontiguousarray(table).reshape(-1).view(np.uint8).data],
                self._offset,
            )
        row = ()
        if kind != "blocks":
            row = block.shape[1:]
        return Staged(
            self._partition,
            self._name,
            kind,
            block.dtype.str,
            row,
            block.ndim,
            self._is_reversed,
            self._offset,
            len(table),
            self._rows,
        )

    def _append(self, piece: Piece) -> None:
        block = piece.block
        if self._first is None:
            self._first = piece
            fortran = block.flags.f_contiguous and not block.flags.c_contiguous
            self._is_reversed = piece.kind == "blocks" and fortran
        self._require_alike(piece)
        with naming(self._path):
            for data in stored_bytes(
                np.atleast_1d(block.T if self._is_reversed else block), block.dtype
            ):
                self._offset += write_at(self._fd, [data], self._offset)
        if piece.kind == "blocks":
            table = np.array([[*piece.start, *block.shape]], np.int64)
        else:
            if piece.index is not None:
                index = piece.index
            else:
                index = np.arange(self._rows, self._rows + len(block))
            table = _merged(np.stack([index, np.ones_like(index)], axis=1))
        self._tables.append(table)
        self._rows += len(block)

    def _require_alike(self, piece: Piece) -> None:
        """Raise UsageError for what the file cannot hold beside its first elements."""
        assert self._first is not None
        where = f"partition {self._partition} of the data"
        first = self._first
        if piece.kind != first.kind:
            raise UsageError(
                f"{where} holds {first.kind} and {piece.kind}: write elements of one kind"
            )
        if piece.block.dtype != first.block.dtype:
            both = f"{first.block.dtype} and {piece.block.dtype}"
            raise UsageError(f"{where} holds {both}: say dtype= to have one of them")
        if piece.kind == "blocks" and piece.block.ndim != first.block.ndim:
            raise UsageError(
                f"{where} has blocks of {first.block.ndim} and {piece.block.ndim} axes: blocks are"
                " of one array"
            )
        if piece.kind != "blocks" and piece.block.shape[1:] != first.block.shape[1:]:
            both = f"{first.block.shape[1:]} and {piece.block.shape[1:]}"
            raise UsageError(
                f"{where} has rows of shape {both}: all rows of an array have one shape"
            )


def _merged(table: Numbers) -> Numbers:
    """Runs of rows that follow each other as one."""
    if not len(table):
        return table
    start, count = table.T
    end = start + count
    breaks = np.flatnonzero(start[1:] != end[:-1]) + 1
    first = np.concatenate([[0], breaks])
    merged: Numbers = np.stack([start[first], np.add.reduceat(count, first)], axis=1)
    return merged


def table_of(folder: str, staged: Staged) -> Numbers:
    """The fragments of a task's file: start and count of each. Raises OSError, FormatError for a
    file that is cut.
    """
    path = os.path.join(folder, staged.name)
    width = 2
    if staged.kind == "blocks":
        width = 2 * staged.ndim
    found: Numbers = np.fromfile(path, np.int64, staged.entries * width, offset=staged.table)
    if len(found) < staged.entries * width:
        raise FormatError(f"{path} is shorter than what its task wrote: write again")
    table: Numbers = found.reshape(staged.entries, width)
    return table


def _remove_abandoned(final: Path) -> None:
    """Remove folders of writes of a file whose driver was killed."""
    name = re.compile(re.escape(f".{final.name}.") + r"[0-9a-f]{16}\.part")
    for folder in [path for path in final.parent.iterdir() if name.fullmatch(path.name)]:
        lock = folder / _LOCK
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # of a data source, or gone by now
            continue
        try:
            is_ours = (
                file_system(str(folder)) in LOCAL_FILE_SYSTEMS
                or os.pread(fd, 64, 0) == boot_id().encode()
            )
            if is_ours and _is_free(fd) and lock.exists():  # else somebody else has just removed it
                discard(folder, final)
        finally:
            os.close(fd)


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
