"""Names of unfinished files: a run finds what one of an earlier version has left."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.source import Codec, Scaling
from hyperslab.plan.sinks import allocation_digest

HEADER = Header(base_affine=np.diag([2.0, 3.0, 4.0, 1.0]), origin=(0.0,) * 3, step=(1.0,) * 3)
DEFLATED = Encoding(chunks=(4, 3, 5), compression="gzip:4", name="there/x")
SHARDED = Encoding(chunks=(2, 3, 5), shards=(4, 3, 5), compression="zstd:3")
OF_EARLIER = [
    ("v.nii", Encoding(), "2a7afc85987e"),
    ("v.nii.gz", Encoding(), "9d2cd0e21e82"),
    ("v.nii.gz", Encoding(compression="gzip:6"), "8feb63edc2f1"),
    ("v.h5", Encoding(), "dc5d1e8e5b8d"),
    ("v.h5", DEFLATED, "60fe52473402"),
    ("v.h5", Encoding(virtual=True), "7a91cfd44f9f"),
    ("v.nc", Encoding(chunks=(4, 3, 5), compression="gzip"), "a1d36667ffe4"),
    ("v.zarr", Encoding(), "7f3b50eaf727"),
    ("v.zarr", SHARDED, "57956d09061b"),
    ("v.zarr", Encoding(compression="gzip:1", version=2), "9b9b3db05b6c"),
]
"File, how it is stored, and its digest as commit 2407745, before the rooms, computed it."


def described(name: str, encoding: Encoding) -> ArraySink:
    """A file of 4 x 5 x 6 float32; its head, which holds versions of libraries, is another one."""
    describe = formats.module(formats.format_of_name(name)).sink
    sink = describe(f"/x/{name}", (4, 5, 6), np.dtype("<f4"), HEADER, None, encoding)
    if sink.head is not None:
        sink = replace(sink, head=b"head")
    if name == "v.nii":
        sink = replace(sink, scaling=Scaling(2.0, 1.0))
    return sink


@pytest.mark.parametrize(("name", "encoding", "digest"), OF_EARLIER)
def test_the_digest_is_that_of_earlier_versions(name: str, encoding: Encoding, digest: str) -> None:
    assert allocation_digest(described(name, encoding)) == digest


def test_how_a_codec_is_undone_is_not_told() -> None:
    sink = replace(described("v.h5", DEFLATED), codecs=(Codec("deflate", (4,)),))
    undone = replace(sink, codecs=(Codec("deflate", (4,), ("inflate", (1,))),))
    assert allocation_digest(undone) == allocation_digest(sink)


CHANGED: dict[str, object] = {
    "chunks": (4, 5, 6),
    "compression": "none",
    "level": 9,
    "shards": (4, 5, 6),
    "version": 3,
    "name": "elsewhere",
    "virtual": True,
}


@pytest.mark.parametrize("field", [one.name for one in fields(Encoding)])
def test_whatever_is_asked_for_is_told(field: str) -> None:
    """A new field has to be told, too."""
    sink = described("v.h5", Encoding())
    other = Encoding(**{field: CHANGED[field]})  # type: ignore[arg-type]
    assert allocation_digest(replace(sink, encoding=other)) != allocation_digest(sink)
