"""The end of a gzip stream, which says how much it inflates to (RFC 1952, 2.3.1: ISIZE).

- a file whose end says what its header needs is not inflated to be opened
- a file whose end says anything else may be cut short, or hold several members, or more than an
  image: it is inflated once, to tell which, unless that takes long
- no sound file is refused (`tests/formats/test_nifti_ending.py`)
"""

from __future__ import annotations

import functools
import os
import zlib
from typing import BinaryIO

from hyperslab.units import show_count

MOST_NBYTES = 256 << 20
"Stored bytes of a file that is inflated to see where it ends: 1 to 2 s; of a larger one tasks do."
_TRAILER_NBYTES = 8
_HEAD_NBYTES = 4
_FLAGS_AT = 3
_HAS_EXTRA = 4
"""Flag of a header with fields of its own, as programs write them that make a member of each block
of a file (bgzip, mgzip, MiGz).
"""
_PIECE_NBYTES = 1 << 16
_GZIP = 31
"How zlib is told that a stream has the header and the end of gzip."
_MODULUS = 1 << 32


def fault_of(path: str, expected: int, mtime_ns: int) -> str:
    """What is wrong with the end of a gzip file of this machine that is to inflate to so many
    bytes, in words; '' where nothing is, or it cannot be told quickly. Raises OSError.
    """
    with open(path, "rb") as file:
        flags = file.read(_HEAD_NBYTES)[_FLAGS_AT:]
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TRAILER_NBYTES))
        trailer = file.read()
    said = int.from_bytes(trailer[-4:], "little")
    has_members = bool(flags) and bool(flags[0] & _HAS_EXTRA)
    if said == expected % _MODULUS or has_members or size > MOST_NBYTES:
        return ""
    return _fault(path, size, mtime_ns, expected)


@functools.lru_cache(maxsize=64)
def _fault(path: str, size: int, mtime_ns: int, expected: int) -> str:
    """The same of one state of a file, by inflating it. Damage within is told by who reads it."""
    try:
        found, is_whole = _inflated(path)
    except zlib.error:
        return ""
    if not is_whole and found >= expected:
        return "truncated: the data end too early, without the checksum behind them"
    if not is_whole:
        needed = show_count(expected, "byte")
        return f"truncated: the data end too early, after {found:,} of {needed}"
    if found < expected:
        return f"the data end too early: it inflates to {found} bytes where {expected} are needed"
    return ""


def _inflated(path: str) -> tuple[int, bool]:
    """Number of bytes that a file inflates to, and whether its last member is whole. Raises OSError
    and zlib.error.
    """
    found = 0
    member = zlib.decompressobj(_GZIP)
    with open(path, "rb") as file:
        while data := file.read(_PIECE_NBYTES):
            while data:
                if member.eof:
                    member = zlib.decompressobj(_GZIP)
                found += len(member.decompress(data))
                data = member.unused_data.lstrip(b"\0")  # a file may be filled up with zeros
            if member.eof:
                _skip_zeros(file)
    return found, member.eof


def _skip_zeros(file: BinaryIO) -> None:
    """Go on to the next byte that is not zero."""
    while data := file.read(_PIECE_NBYTES):
        left = data.lstrip(b"\0")
        if left:
            file.seek(-len(left), os.SEEK_CUR)
            return
