"""Chunks that libhdf5's filters decode, read twice over other bytes in fresh memory: what differs
is not in the file.

Filters give as values what their memory held before, for parts of a damaged chunk that they could
not decode, and libhdf5 does not ask how much they decoded. Seen with LZF, Zstandard, szip, Blosc 2,
SZ, SZ3, SPERR, FCIDECOMP and ZFP. glibc fills memory that it hands out with a byte of one's choice
(mallopt(3), M_PERTURB). With each of two bytes that share no bit, what was never written comes out
otherwise. Where there is no glibc, nothing is read twice.

- values that are in no file are FormatError, those of sound chunks stay
  (`tests/formats/test_hdf5_repetition.py`)
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import FormatError

_M_PERTURB = -6
"Number of the setting (malloc.h)."
_BYTES = (0x55, 0xAA)
_FLETCHER32 = 3
_CERTAIN = {1, 2, _FLETCHER32, 5, 6}
"""Filters that notice what they could not decode, or decode anything: deflate by its checksum,
shuffle, fletcher32, nbit, scaleoffset.
"""


def may_differ(dataset: Any) -> bool:
    """Whether the filters of an h5py dataset may give values that are in no file, and nothing else
    tells of damage.
    """
    creation = dataset.id.get_create_plist()
    codes = {creation.get_filter(number)[0] for number in range(creation.get_nfilters())}
    return bool(codes - _CERTAIN and _FLETCHER32 not in codes and _mallopt() is not None)


def read_twice(read: Callable[[], Array], where: str) -> Array:
    """What `read` gives, which opens and closes the file each time, so that libhdf5 keeps no chunk
    in between.

    The byte is that of the whole process, so h5py's own lock is held from the first reading to the
    second: a lock of another kind would wait for ever where a thread reads here in a callback of
    h5py.

    Raises FormatError, which says where, if it gives something else the second time.
    """
    from h5py._objects import phil

    with phil:
        with _memory_of(_BYTES[0]):
            first = _checksum(read())
        with _memory_of(_BYTES[1]):
            block = read()
    if _checksum(block) != first:
        what = "corrupt: a filter gives other values each time, so that a chunk must be damaged"
        raise FormatError(f"{where}: {what}; copy the file again")
    return block


@cache
def _mallopt() -> Any:
    """The function of glibc; None where the C library is another one."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "mallopt", None)


@contextmanager
def _memory_of(byte: int) -> Iterator[None]:
    """Let glibc fill memory with a byte when it is freed, and with the other bits when it is
    allocated.
    """
    _mallopt()(_M_PERTURB, byte)
    try:
        yield
    finally:
        _mallopt()(_M_PERTURB, 0)


def _checksum(values: Array, before: int = 0) -> int:
    """CRC-32 of elements, without the gaps between fields, which no file fills."""
    if values.dtype.fields:
        for name in values.dtype.fields:
            before = _checksum(values[name], before)
        return before
    if values.dtype.hasobject:
        for element in values.flat:
            before = _checksum_of_object(element, before)
        return before
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, before)


def _checksum_of_object(element: Any, before: int) -> int:
    """CRC-32 of a list or a text of any length, as h5py gives them."""
    if isinstance(element, np.ndarray):
        return _checksum(element, zlib.crc32(repr(element.shape).encode(), before))
    return zlib.crc32(repr(element).encode(), before)
