"""Reads and writes at positions of an open file: regions of C-ordered arrays, in as few calls as
pay off.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.byteranges import (
    BUFFER_NBYTES,
    ascending,
    plan_spans,
    row_nbytes,
    span_offsets,
    turns,
)
from hyperslab.arrays.slab import Hyperslab, dense_level
from hyperslab.errors import FormatError
from hyperslab.units import show_count

_WIDE_NBYTES = 16 * 1024**2
"Least size of a region, bytes, for which several reads in flight are worth their threads."


@dataclass(slots=True, weakref_slot=True)
class OpenFile:
    """An open file that counts the bytes read of it."""

    fd: int
    where: str
    "Path and dataset, for messages."
    nbytes: int = 0
    is_copy: bool = False
    "Whether it is a copy of the file, on faster storage."

    @property
    def path(self) -> str:
        """A name under which the very file that is open can be opened again (proc(5))."""
        return f"/proc/self/fd/{self.fd}"

    def read_into(self, target: Array, offset: int) -> None:
        """Fill a contiguous uint8 array from a position. Raises FormatError when the file ends
        before.
        """
        if native.core is not None and target.nbytes >= _WIDE_NBYTES:
            self._read_wide(target, offset)
            return
        view = target.data
        while view:
            try:
                count = os.preadv(self.fd, [view], offset)
            except OSError as error:
                raise FormatError(
                    f"{self.where}: reading at byte {offset} failed: {error.strerror}"
                ) from error
            if count == 0:
                raise FormatError(
                    f"{self.where} ends at byte {offset}, {show_count(len(view), 'byte')} too"
                    " early; copy it again"
                )
            self.nbytes += count
            offset += count
            view = view[count:]

    def _read_wide(self, target: Array, offset: int) -> None:
        """Several reads in flight."""
        assert native.core is not None
        try:
            native.core.read_bytes(self.fd, offset, target, native.DEPTH)
        except native.core.ChunkError as error:
            raise FormatError(f"{self.where}: {error.text}; copy it again") from error
        self.nbytes += target.nbytes


def read_region(
    file: OpenFile, offset: int, shape: Sequence[int], slab: Hyperslab, target: Array
) -> None:
    """Read a region of a C-ordered array that begins at byte `offset`; `target` has its shape and
    the file's dtype.
    """
    block = target[turns(slab)]
    forward = ascending(slab)
    plan = plan_spans(shape, forward, target.dtype.itemsize)
    buffer: Array = np.empty(0, np.uint8)
    for position, index in span_offsets(plan, shape, forward, target.dtype.itemsize):
        part = block[index]
        nbytes = plan.span_nbytes(len(part))
        if nbytes == part.nbytes:
            _read_dense(file, part, offset + position)
        else:
            if buffer.size < nbytes:
                buffer = np.empty(nbytes, np.uint8)
            file.read_into(buffer[:nbytes], offset + position)
            part[...] = np.ndarray(
                part.shape, part.dtype, buffer, strides=plan.step_nbytes[plan.level :]
            )


def place_region(
    fd: int, offset: int, shape: Sequence[int], slab: Hyperslab, block: Array, dtype: np.dtype[Any]
) -> int:
    """Write a region of a C-ordered array that begins at byte `offset`, run by run; bytes
    written.
    """
    forward = ascending(slab)
    block = block[turns(slab)]
    level = dense_level(shape, forward)
    row = row_nbytes(shape, dtype.itemsize)
    base = offset + sum(first * n for first, n in zip(forward.start, row, strict=True))
    step = [s * n for s, n in zip(forward.stride, row, strict=True)]
    nbytes = 0
    for index in itertools.product(*(range(n) for n in forward.count[:level])):
        position = base + sum(i * n for i, n in zip(index, step, strict=False))
        for data in stored_bytes(np.atleast_1d(block[index]), dtype):
            nbytes += (count := write_at(fd, [data], position))
            position += count
    return nbytes


def write_at(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
    """Write all buffers one after the other from a position, in as many calls as the system needs;
    bytes written.
    """
    waiting = [data for data in buffers if data]
    done = 0
    while waiting:
        count = os.pwritev(fd, waiting, offset + done)
        done += count
        while waiting and count >= len(waiting[0]):
            count -= len(waiting.pop(0))
        if count:
            waiting[0] = waiting[0][count:]
    return done


def stored_bytes(stored: Array, dtype: np.dtype[Any]) -> Iterator[memoryview]:
    """The bytes of an array in C order and another byte order: itself where it is so already, else
    bounded copies.
    """
    if (stored.flags.c_contiguous and stored.dtype == dtype) or stored.nbytes <= BUFFER_NBYTES:
        yield np.ascontiguousarray(stored, dtype).reshape(-1).view(np.uint8).data
        return
    for part in _parts(stored):
        yield from stored_bytes(part, dtype)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Give errors that name no file, as those of descriptors, the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """An open file, which names the errors of its descriptor."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        with naming(path):
            yield fd
    finally:
        os.close(fd)


def _read_dense(file: OpenFile, target: Array, offset: int) -> None:
    """Read adjacent bytes: straight into adjacent elements, through a bounded buffer into
    others.
    """
    if target.flags.c_contiguous:
        file.read_into(target.reshape(-1).view(np.uint8), offset)
    elif target.nbytes <= BUFFER_NBYTES:
        buffer = np.empty(target.shape, target.dtype)
        file.read_into(buffer.reshape(-1).view(np.uint8), offset)
        target[...] = buffer
    else:
        for part in _parts(target):
            _read_dense(file, part, offset)
            offset += part.nbytes


def _parts(array: Array) -> Iterator[Array]:
    """Parts along the slowest axis, each within BUFFER_NBYTES or a single step of that axis."""
    steps = BUFFER_NBYTES // array[0].nbytes
    if steps == 0:
        yield from array
        return
    for first in range(0, len(array), steps):
        yield array[first : first + steps]
