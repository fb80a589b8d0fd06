"""The filters of HDF5 datasets: which of them are decoded here, and what their parameters mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperslab.arrays.source import Codec

_SHUFFLE, _FLETCHER32, _BLOSC, _LZ4, _BITSHUFFLE = 2, 3, 32001, 32004, 32008
_NAMES = {
    1: "deflate",
    _SHUFFLE: "shuffle",
    _FLETCHER32: "fletcher32",
    32000: "lzf",
    _LZ4: "lz4",
    32015: "zstd",
    _BLOSC: "blosc",
    _BITSHUFFLE: "bitshuffle",
}
_INSIDE = {_BLOSC: (6, {0, 1, 2, 4, 5}), _BITSHUFFLE: (4, {0, 2, 3})}
"""Number of the parameter that says what compresses inside a filter, 0 if it is not there, and its
values that are decoded here. blosc: blosclz, lz4, lz4hc, zlib, zstd; not 3, snappy (blosc.h).
bitshuffle: nothing, lz4, zstd (bshuf_h5filter.h).
"""
_LARGEST_RATIO = {
    "shuffle": 1,
    "fletcher32": 1,
    "deflate": 1032,
    "lzf": 88,
    "lz4": 255,
    "zstd": 2**15,
    "blosc": 2**15,
    "bitshuffle": 2**15,
}
"""Bytes that come out of a stored one, at most. deflate: zlib's technical details. lzf: 264 bytes
from 3. lz4: each byte of a length adds 255. zstd: a block of 4 bytes repeats one 128 KiB times (RFC
8878, 3.1.1.2); blosc and bitshuffle may have zstd inside.
"""


_BITSHUFFLED = {2: "bitshuffle lz4", 3: "bitshuffle zstd"}
"Names of what the core undoes, by the number of what compresses inside bitshuffle."


def codec_name(code: int, name: bytes) -> str:
    """What a filter is called here, or in its file."""
    return _NAMES.get(code) or name.decode(errors="replace") or f"number {code}"


def undecoded(code: int, options: Sequence[int], name: bytes) -> str:
    """Name the part of a filter that is not decoded here, '' if all of it is."""
    if code not in _NAMES:
        return codec_name(code, name)
    place, known = _INSIDE.get(code, (0, None))
    inner = _option(options, place)
    if known is None or inner in known:
        return ""
    return f"{_NAMES[code]} with codec {inner} inside"


def codec(code: int, options: tuple[int, ...], name: bytes) -> Codec:
    """A filter as a record, with what the core needs to undo it."""
    known = codec_name(code, name)
    return Codec(known, options, _undoing(known, options))


def _undoing(name: str, options: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """A name and numbers, which `_native.pyi` explains, of the parameters that HDF5 keeps.

    What is not decoded here gets a name that the core refuses.
    """
    if name == "shuffle":
        return name, (_option(options, 0),)
    if name != "bitshuffle":
        return name, ()
    place, _ = _INSIDE[_BITSHUFFLE]
    itemsize, block, inside = (_option(options, number) for number in (2, 3, place))
    if inside == 0:
        return name, (itemsize, block)
    return _BITSHUFFLED.get(inside, f"bitshuffle with codec {inside} inside"), (itemsize,)


def _option(options: Sequence[int], place: int) -> int:
    """A parameter of a filter, 0 if it is not there."""
    return options[place] if len(options) > place else 0


def is_packed_twice(codes: Sequence[int]) -> bool:
    """True where a filter follows lz4 or bitshuffle, whose many small blocks may take more room
    than what is in them.

    Checksums may: they need no room to decode.
    """
    return any(
        code in (_LZ4, _BITSHUFFLE) and set(codes[place + 1 :]) - {_FLETCHER32}
        for place, code in enumerate(codes)
    )


def is_senseless(code: int, options: Sequence[int]) -> bool:
    """True for what HDF5 itself refuses in reading (H5Zdeflate.c, H5Zshuffle.c,
    bshuf_h5filter.c).
    """
    if code == 1:
        return len(options) != 1 or options[0] > 9
    if code == _BITSHUFFLE:
        return len(options) < 3 or options[2] == 0 or any(block % 8 for block in options[3:4])
    return code == _SHUFFLE and (len(options) != 1 or options[0] == 0)


def largest_ratio(name: str) -> float:
    """How many bytes a filter of this name makes of a stored one at most, as far as that is
    known.
    """
    return _LARGEST_RATIO.get(name, math.inf)
