"""New NIfTI files: uncompressed ones are written at their positions, .nii.gz in runs that make one gzip member.

Writers compress the runs; joined as pigz joins its blocks they are one member, which every reader opens.

- the same array cut into the same runs makes the same bytes at any time (`tests/formats/test_nifti_sink.py`)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hyperslab.array import Array, ArraySink, Codec, Encoded, Header, Scaling
from hyperslab.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.nifti_header import DIMS, build_head, parse
from hyperslab.slab import Hyperslab, dense_level

_REMEDY = {"b": "uint8", "f": "float32 or float64", "c": "complex64 or complex128"}


def sink(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], header: Header, scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:  # fmt: skip
    """Describe a NIfTI file for an array of this shape and dtype that lies where `header` says; little-endian.

    `scaling` becomes scl_slope and scl_inter: give it when the values are stored ones of that scaling. NIfTI-2 is
    chosen where the header came from NIfTI-2 or an axis is longer than NIfTI-1 can say. Raises UsageError for what
    NIfTI cannot hold.
    """
    _check_storable(path, shape, dtype)
    _check_encoding(path, encoding)
    _check_scaling(path, scaling)
    axes = tuple(reversed(range(len(shape))))
    little = np.dtype(dtype).newbyteorder("<")
    head = build_head(path, shape, little, header, scaling)
    _check_kept(path, head, scaling)
    about = (path, "nifti", tuple(shape), axes, little)
    if path.lower().endswith(".gz"):
        level = deflating.FASTEST if encoding.level is None else encoding.level
        codecs = (Codec("gzip", (level,)),)
        return ArraySink(*about, None, header, scaling, "pieces", (), codecs, encoding)
    return ArraySink(*about, head, header, scaling, encoding=encoding)


def encode(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The runs of the file that a region is, each an open deflate stream with the number of its first element."""
    stored, shape = slab.permute(sink.axes), [sink.shape[axis] for axis in sink.axes]
    level, values = dense_level(shape, stored), block.transpose(sink.axes)
    for index in itertools.product(*map(range, stored.count[:level])):
        corner = [first + i for first, i in itertools.zip_longest(stored.start, index, fillvalue=0)]
        planes = np.atleast_2d(values[index])
        parts = (np.ascontiguousarray(plane, sink.dtype).reshape(-1).view(np.uint8).data for plane in planes)
        yield int(np.ravel_multi_index(corner, shape)), deflating.open_stream(parts, sink.codecs[0].options[0])


def assemble(sink: ArraySink, pieces: Iterable[Encoded]) -> Iterator[bytes | memoryview]:
    """Join the runs, in their order, into one gzip member. Raises FormatError when one is missing."""
    head = build_head(sink.path, sink.shape, sink.dtype, sink.header, sink.scaling)
    member, item = deflating.Member(), sink.dtype.itemsize
    yield member.head
    yield member.add(deflating.open_stream([memoryview(head)], deflating.FASTEST))
    for first, stream in pieces:
        if len(head) + first * item != member.length:
            break
        yield member.add(stream)
    missing = len(head) + math.prod(sink.shape) * item - member.length
    if missing:
        raise FormatError(f"{sink.path}: {missing} bytes of it were not written; run again with --resume")
    yield member.tail()


def _check_storable(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    from nibabel.nifti1 import data_type_codes

    if not 1 <= len(shape) <= len(DIMS) or 0 in shape:
        raise UsageError(f"{path}: NIfTI holds 1 to 7 axes of at least one element, not {shape}; write .h5 instead")
    if np.dtype(dtype).newbyteorder("=") not in data_type_codes.dtype.values():
        remedy = _REMEDY.get(np.dtype(dtype).kind, "a number type that it has")
        raise UsageError(f"{path}: NIfTI cannot hold {dtype}; convert the block to {remedy}, or write .h5 instead")


def _check_encoding(path: str, encoding: Encoding) -> None:
    if encoding.chunks or encoding.shards or encoding.version or encoding.name or encoding.virtual:
        raise UsageError(f"{path}: NIfTI has neither chunks nor shards, versions or names; write .h5 or .zarr for that")
    gzipped, level = path.lower().endswith(".gz"), deflating.FASTEST if encoding.level is None else encoding.level
    fits = encoding.compression in (None, "gzip" if gzipped else "none")
    if not fits or not deflating.FASTEST <= level <= deflating.SMALLEST or (encoding.level and not gzipped):
        given = (encoding.compression or "") + ("" if encoding.level is None else f":{encoding.level}")
        raise UsageError(f"--compression {given}: a .nii is not compressed, a .nii.gz by gzip:1 to gzip:9; choose one")


def _check_scaling(path: str, scaling: Scaling | None) -> None:
    if scaling is not None and not scaling.is_linear:
        raise UsageError(
            f"{path}: NIfTI cannot say what these stored values mean: some are missing, or scaled by slices; "
            "use --values real"
        )


def _check_kept(path: str, head: bytes, scaling: Scaling | None) -> None:
    """NIfTI-1 has float32 for slope and intercept, which rounds those of other formats."""
    kept = parse(head)
    said = () if scaling is None else ((kept["scl_slope"], scaling.slope), (kept["scl_inter"], scaling.inter))
    if scaling is not None and any(float(number) != float(meant) for number, meant in said):
        raise UsageError(
            f"{path}: NIfTI-1 rounds the slope {scaling.slope:.17g} and intercept {scaling.inter:.17g} of these stored "
            "values; use --values real"
        )
