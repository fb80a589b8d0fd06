"""New NIfTI files: uncompressed ones are written at their positions, .nii.gz in runs that make one
gzip member.

Writers compress the runs; joined as pigz joins its blocks they are one member, which every reader
opens.

- the same array cut into the same runs makes the same bytes at any time
  (`tests/formats/test_nifti_sink.py`)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import FIRST, Header
from hyperslab.arrays.sink import ArraySink, Encoded
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Codec, Scaling
from hyperslab.errors import AGAIN, FormatError, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.conventions.agreement import agree, meaning
from hyperslab.formats.conventions.packing import Packing
from hyperslab.formats.nifti.header import (
    DIMS,
    build_head,
    parse_ours,
    real_dtype,
    scaling_of,
)
from hyperslab.units import show_count

_REMEDY = {"f": "float32 or float64", "c": "complex64 or complex128"}


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:
    """Describe a NIfTI file for an array of this shape and dtype that lies where `header` says;
    little-endian.

    `scaling` becomes scl_slope and scl_inter: give it when the values are stored ones of that
    scaling. bool is stored as uint8, of 0 and 1. NIfTI-2 is chosen where the header came from
    NIfTI-2 or an axis is longer than NIfTI-1 can say. Raises UsageError for what NIfTI cannot hold.
    """
    dtype = _storable(path, shape, dtype)
    _check_encoding(path, encoding)
    _check_scaling(path, scaling)
    _check_place(path, header)
    axes = tuple(reversed(range(len(shape))))
    little = dtype.newbyteorder("<")
    head = build_head(path, shape, little, header, scaling)
    _require_meant(path, head, meaning(scaling, dtype, header.real), dtype)
    about = (path, "nifti", tuple(shape), axes, little)
    if path.lower().endswith(".gz"):
        level = deflating.level_of(encoding)
        codecs = (Codec("gzip", (level,)),)
        return ArraySink(*about, None, header, scaling, "pieces", (), codecs, encoding)
    return ArraySink(*about, head, header, scaling, encoding=encoding)


def encode(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The runs of the file that a region is, each an open deflate stream with the number of its
    first element.
    """
    return deflating.runs(sink, slab, block)


def assemble(sink: ArraySink, pieces: Iterable[Encoded]) -> Iterator[bytes | memoryview]:
    """Join the runs, in their order, into one gzip member; the first part is that of the header.

    Raises FormatError when a run is missing.
    """
    head = build_head(sink.path, sink.shape, sink.dtype, sink.header, sink.scaling)
    member = deflating.Member()
    item = sink.dtype.itemsize
    yield member.head + bytes(
        member.add(deflating.open_stream([memoryview(head)], deflating.FASTEST))
    )
    for first, stream in pieces:
        if len(head) + first * item != member.length:
            break
        yield member.add(stream)
    missing = len(head) + math.prod(sink.shape) * item - member.length
    if missing:
        raise FormatError(f"{sink.path}: {show_count(missing, 'byte')} not written", AGAIN)
    yield member.tail()


def _storable(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as NIfTI has it. Raises UsageError for what it cannot hold."""
    from nibabel.nifti1 import data_type_codes

    if not 1 <= len(shape) <= len(DIMS) or 0 in shape:
        raise UsageError(
            f"{path}: NIfTI holds 1 to 7 axes of at least one element, not {shape}; write .h5"
            " instead"
        )
    stored = np.dtype(dtype)
    if stored.kind == "b":
        stored = np.dtype(np.uint8)
    if stored.newbyteorder("=") not in data_type_codes.dtype.values():
        remedy = _REMEDY.get(np.dtype(dtype).kind, "a number type that it has")
        raise UsageError(
            f"{path}: NIfTI cannot hold {dtype}; convert the block to {remedy}, or write .h5"
            " instead"
        )
    return stored


def _check_encoding(path: str, encoding: Encoding) -> None:
    if encoding.chunks or encoding.shards or encoding.version or encoding.name or encoding.virtual:
        raise UsageError(
            f"{path}: NIfTI has neither chunks nor shards, versions or names; write .h5 or .zarr"
            " for that"
        )
    gzipped = path.lower().endswith(".gz")
    level = deflating.level_of(encoding)
    own = "none"
    if gzipped:
        own = "gzip"
    fits = encoding.compression in (None, own)
    if (
        not fits
        or not deflating.FASTEST <= level <= deflating.SMALLEST
        or (encoding.level and not gzipped)
    ):
        given = encoding.compression or ""
        if encoding.level is not None:
            given += f":{encoding.level}"
        raise UsageError(
            f"--compression {given}: a .nii is not compressed, a .nii.gz by gzip:1 to gzip:9;"
            " choose one"
        )


def _check_scaling(path: str, scaling: Scaling | None) -> None:
    if scaling is not None and not scaling.is_linear:
        raise UsageError(
            f"{path}: NIfTI cannot say what these stored values mean: some stand for a missing"
            " value, are clipped to a range or unsigned, or each slice has a scale of its own; use"
            " --values real"
        )


def _check_place(path: str, header: Header) -> None:
    if header.space != FIRST:
        raise UsageError(
            f"{path}: NIfTI needs the axes of space first, but this array has"
            f" {', '.join(header.dims)}: convert the input to .nii with 'hyperslab convert' first,"
            " or write .h5 (--format h5)"
        )


def _is_truth_as_bytes(meant: Packing, said: Packing) -> bool:
    """Whether values are true or false, which NIfTI has as 1 and 0 of uint8."""
    return meant == Packing(None, np.dtype(np.bool_)) and said == Packing(None, np.dtype(np.uint8))


def _require_meant(path: str, head: bytes, meant: Packing, stored: np.dtype[Any]) -> None:
    """Raise UsageError where the header gives stored values other real ones than those that are
    meant.

    NIfTI-1 has float32 for slope and intercept, which rounds those of other formats; a slope of 0
    is none; and readers compute in float64, where netCDF's factors of float32 make values of
    float32.
    """
    kept = parse_ours(head)
    known = scaling_of(kept)
    said = Packing(known, real_dtype(stored, known))
    if agree(meant, said, stored) or _is_truth_as_bytes(meant, said):
        return
    scaling = meant.scaling or Scaling()
    numbers = (
        f"the slope {scaling.slope:.17g} and intercept {scaling.inter:.17g} of these stored values"
    )
    if (float(scaling.slope), float(scaling.inter)) != (
        float(kept["scl_slope"]),
        float(kept["scl_inter"]),
    ):
        raise UsageError(f"{path}: NIfTI-1 rounds {numbers}; use --values real")
    raise UsageError(
        f"{path}: NIfTI makes {said.real} by {numbers}, which mean other {meant.real}; use --values"
        " real"
    )
