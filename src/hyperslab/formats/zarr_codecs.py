"""Codecs that look at a chunk before zarr-python decodes it: Blosc, whose decoder does not know where a chunk ends.

numcodecs tells c-blosc nothing of the length of what it decodes. Where a chunk is cut short, c-blosc reads what lies
behind it in memory, and gives any values, without an error (numcodecs 0.16). Its header says how long it has to be
(C-Blosc, README_CHUNK_FORMAT: bytes 12 to 15). Which method of a codec zarr-python calls to decode a chunk is its own
affair and differs by version: with a version for which that is not known, nothing is read.
"""

from __future__ import annotations

import re
from typing import Any

import numcodecs
import zarr
import zarr.codecs.numcodecs
from zarr.codecs import BloscCodec

_HEADER_NBYTES = 16
_KNOWN = (3, 1, 3), (3, 2)
"""Versions of zarr-python whose way to a codec is that below: from the first on, up to the second."""


def _require_known(version: str) -> None:
    """Raise ImportError for a version of zarr-python that may decode chunks past the classes below."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if not _KNOWN[0] <= numbers < _KNOWN[1]:
        raise ImportError(f"zarr {version} is there")


_require_known(zarr.__version__)


def _require_whole(chunk: Any) -> None:
    data = memoryview(chunk).cast("B")
    said = int.from_bytes(data[12:_HEADER_NBYTES], "little")
    if len(data) < max(said, _HEADER_NBYTES):
        raise ValueError(f"blosc data of {max(said, _HEADER_NBYTES)} bytes are cut short to {len(data)}")


class _Blosc2(numcodecs.Blosc):  # type: ignore[misc]  # it has no types
    """The codec of version 2."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        _require_whole(buf)
        return super().decode(buf, out)


class _Blosc3(BloscCodec):
    """The codec of version 3."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_whole(chunk_bytes.as_numpy_array())
        return await super()._decode_single(chunk_bytes, chunk_spec)


class _Numcodecs3(zarr.codecs.numcodecs.Blosc):
    """That of version 2 in version 3."""

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        _require_whole(chunk_data.as_numpy_array())
        return await super()._decode_single(chunk_data, chunk_spec)


def looking(codec: Any) -> Any:
    """A codec as a metadata document has it, or for Blosc, also within shards, one that looks before it decodes."""
    if not isinstance(codec, dict):
        return [looking(one) for one in codec] if isinstance(codec, list) else codec
    if codec.get("id") == "blosc":
        return _Blosc2.from_config({name: value for name, value in codec.items() if name != "id"})
    if codec.get("name") in ("blosc", "numcodecs.blosc"):
        return (_Blosc3 if codec["name"] == "blosc" else _Numcodecs3).from_dict(codec)
    more = codec.get("configuration")
    if not isinstance(more, dict) or "codecs" not in more:
        return codec
    return {**codec, "configuration": {**more, "codecs": looking(more["codecs"])}}
