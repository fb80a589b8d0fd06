"""Codecs that do more than zarr-python's: Blosc, whose decoder does not know where a chunk ends,
and shards elsewhere.

numcodecs tells c-blosc nothing of the length of what it decodes. Where a chunk is cut short,
c-blosc reads what lies behind it in memory, and gives any values, without an error (numcodecs
0.16). Its header says how long it has to be (C-Blosc, README_CHUNK_FORMAT: bytes 12 to 15). Which
method of a codec zarr-python calls to decode a chunk is its own affair and differs by version: with
a version for which that is not known, nothing is read.

Of a shard in an object store zarr-python asks for one chunk after the other. Here its index is
asked for, and then, by few, joined requests at a time, the chunks that are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numcodecs
import zarr
import zarr.codecs.numcodecs
from zarr.abc.store import RangeByteRequest
from zarr.codecs import BloscCodec, ShardingCodec
from zarr.core.chunk_grids import RegularChunkGrid
from zarr.core.indexing import get_indexer

from hyperslab.formats.zarr.objects import ChunkObjects

_HEADER_NBYTES = 16
_KNOWN = (3, 1, 3), (3, 2)
"""Versions of zarr-python whose way to a codec is that below: from the first on, up to the second.
"""


def _require_known(version: str) -> None:
    """Raise ImportError for a version of zarr-python that may decode chunks past the classes
    below.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if not _KNOWN[0] <= numbers < _KNOWN[1]:
        raise ImportError(f"zarr {version} is there")


_require_known(zarr.__version__)


def _require_whole(chunk: Any) -> None:
    data = memoryview(chunk).cast("B")
    said = int.from_bytes(data[12:_HEADER_NBYTES], "little")
    if len(data) < max(said, _HEADER_NBYTES):
        raise ValueError(
            f"blosc data of {max(said, _HEADER_NBYTES)} bytes are cut short to {len(data)}"
        )


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
    """The codec of version 2 in version 3."""

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        _require_whole(chunk_data.as_numpy_array())
        return await super()._decode_single(chunk_data, chunk_spec)


class _Parts:
    """Parts of a shard, each asked for once and kept."""

    def __init__(self, shard: Any) -> None:
        self._shard = shard
        self._kept: dict[Any, Any] = {}

    async def get(self, prototype: Any, byte_range: Any = None) -> Any:
        if byte_range not in self._kept:
            self._kept[byte_range] = await self._shard.get(prototype, byte_range)
        return self._kept[byte_range]

    async def fetch(self, spans: Iterable[tuple[int, int]]) -> None:
        ranges = [RangeByteRequest(*span) for span in sorted(spans)]
        self._kept.update(
            zip(ranges, await self._shard.store.get_ranges(self._shard.path, ranges), strict=True)
        )


class _Sharded(ShardingCodec):
    """The codec of shards."""

    async def _decode_partial_single(
        self, byte_getter: Any, selection: Any, shard_spec: Any
    ) -> Any:
        if not isinstance(getattr(byte_getter, "store", None), ChunkObjects):
            return await super()._decode_partial_single(byte_getter, selection, shard_spec)
        per_shard = self._get_chunks_per_shard(shard_spec)
        grid = RegularChunkGrid(chunk_shape=self.chunk_shape)
        wanted = {
            place for place, *_ in get_indexer(selection, shape=shard_spec.shape, chunk_grid=grid)
        }
        if self._is_total_shard(wanted, per_shard):
            return await super()._decode_partial_single(byte_getter, selection, shard_spec)
        parts = _Parts(byte_getter)
        index = await self._load_shard_index_maybe(parts, per_shard)
        if index is not None:
            await parts.fetch(
                {span for place in wanted if (span := index.get_chunk_slice(place)) is not None}
            )
        return await super()._decode_partial_single(parts, selection, shard_spec)


def looking(codec: Any) -> Any:
    """A codec as a metadata document has it, or for Blosc and shards one of those above, also
    within shards.
    """
    if not isinstance(codec, dict):
        if isinstance(codec, list):
            return [looking(one) for one in codec]
        return codec
    if codec.get("id") == "blosc":
        return _Blosc2.from_config({name: value for name, value in codec.items() if name != "id"})
    if codec.get("name") in ("blosc", "numcodecs.blosc"):
        return (_Blosc3 if codec["name"] == "blosc" else _Numcodecs3).from_dict(codec)
    more = codec.get("configuration")
    if not isinstance(more, dict) or "codecs" not in more:
        return codec
    inner = {**codec, "configuration": {**more, "codecs": looking(more["codecs"])}}
    if codec.get("name") == "sharding_indexed":
        return _Sharded.from_dict(inner)
    return inner
