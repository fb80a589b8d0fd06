"""NIfTI-1 and NIfTI-2, one file (.nii, .nii.gz), either byte order. Headers are nibabel's in both
directions.

An uncompressed image is one contiguous chunk in Fortran order. A compressed one is a single gzip
stream, which is inflated as a whole for a slab; where `hyperslab.blocks.reading.gzipindex` has
indexed it, it is entered in the middle instead.

- no value of a compressed image is returned before the checksums of what it comes from have been
  compared: those of the whole file, or, after an index was made in a pass that compared them, of
  each interval that is entered (`tests/formats/test_gzip_damage.py`)
- values: stored ones equal nibabel's unscaled ones, real ones `img.dataobj`
  (`tests/formats/test_nifti.py`)
- geometry: a block's file puts its voxels at the parent's millimetres, by sform and by qform,
  within 0.001 mm or 8 roundings of float32, whichever is larger
  (`tests/formats/test_nifti_geometry.py`)
- names of axes: x, y, z say where an axis runs, whichever place it has in the file; i, j, k are
  those that run between them (`tests/formats/test_nifti_geometry.py`)
"""

from __future__ import annotations

import gzip
import math
import zlib
from importlib import import_module
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import FIRST, Header
from hyperslab.arrays.naming import names_in_space
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import LEAST_INDEXED_NBYTES, ArrayInfo, ArraySource, ChunkTable, Codec
from hyperslab.errors import FormatError
from hyperslab.formats.identity import Identity, identify, identify_remote
from hyperslab.formats.nifti import ending
from hyperslab.formats.nifti.header import (
    DIMS,
    TIME_UNIT,
    NiftiHeader,
    header_errors,
    parse,
    real_dtype,
    sampling_of,
    scaling_of,
    shape_of,
    unit_of_space,
)
from hyperslab.formats.nifti.whole import corner, whole_shape
from hyperslab.storage.location import Remote
from hyperslab.storage.remote.file import open_binary
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.formats.nifti.sinks import assemble, encode, sink

__all__ = ["arrays", "assemble", "candidates", "encode", "open", "read_reference", "sink"]

_HEAD_NBYTES = 4096
_LARGEST_OFFSET = 2**28
_LARGEST_DEFLATE_RATIO = 1032
_GAP_NBYTES = 256
_PIECE_NBYTES = 64 * 1024
_SIZE_OF_FIRST = 348
"Size of the header of NIfTI-1, bytes (NIfTI-1 standard, sizeof_hdr)."
_WRITING = ("assemble", "encode", "sink")
"What writes files."
_GZIP_MAGIC = b"\x1f\x8b"


def __getattr__(name: str) -> Any:
    """Import what writes files at its first use, as most are only read."""
    if name in _WRITING:
        return getattr(import_module(f"{__name__}.sinks"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def arrays(path: str) -> list[ArrayInfo]:
    """The one array of the file."""
    source = open(path, "")
    return [ArrayInfo("", source.shape, str(source.stored))]


def candidates(path: str) -> list[str]:
    """The name of the one array."""
    return [""]


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this signature
    """Describe the image. Raises FormatError for a header that is wrong or promises more data than
    the file has.
    """
    with header_errors(path):
        raw, header, compressed, identity = _read_head(path)
        offset = header.get_data_offset()
        stored = header.get_data_dtype()
        shape = shape_of(header)
        scaling = scaling_of(header)
        base_affine = np.asarray(header.get_best_affine(), dtype=np.float64)
        unscalable = ""
        if scaling is not None and stored.names:
            unscalable = "it has colours and a slope"
        if unscalable:
            scaling = None
        real = real_dtype(stored, scaling)
    if stored.itemsize == 0 or min(shape, default=0) < 0:
        raise FormatError(
            f"{path}: data of type {header['datatype']} and shape {shape} cannot be read here;"
            " convert it"
        )
    nbytes = math.prod(shape) * stored.itemsize
    _check_complete(path, offset + nbytes, identity, compressed)
    chunks: ChunkTable | None = None
    codecs: tuple[Codec, ...] = (Codec("gzip"),)
    nbytes_stored = identity.file_size
    if not compressed:
        chunks = _contiguous(shape[::-1], offset, nbytes)
        codecs = ()
        nbytes_stored = nbytes
    return ArraySource(
        url=path,
        name="",
        format="nifti",
        shape=shape,
        dims=_dims(base_affine, shape),
        axes=tuple(reversed(range(len(shape)))),
        stored=stored,
        real=real,
        chunks=chunks,
        reason=_reason(path, compressed, nbytes),
        codecs=codecs,
        scaling=scaling,
        unscalable=unscalable,
        header=Header(
            base_affine=base_affine,
            native=raw[:offset],
            attributes=_attributes(header),
            corner=corner(header, raw[header.sizeof_hdr : offset]),
            whole_shape=whole_shape(raw[header.sizeof_hdr : offset]),
            base_sampling=sampling_of(header),
            space_unit=unit_of_space(header),
        ),
        nbytes_stored=nbytes_stored,
        file_size=identity.file_size,
        mtime_ns=identity.mtime_ns,
        version=identity.version,
    )


def read_reference(source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
    """Stored values of a region through nibabel.fileslice; a .nii.gz is inflated from its start to
    its end.

    gzip's checksum covers the whole stream, header included, and is compared at its end only.
    """
    from nibabel import fileslice

    if source.header.native is None:
        raise FormatError(
            f"{source.url}: the description of this image has lost its header; open it again"
        )
    offset = parse(source.header.native).get_data_offset()
    try:
        with _stream(source.url) as file:
            block = fileslice.fileslice(  # type: ignore[no-untyped-call]
                file, slab.slices(), source.shape, source.stored, offset, "F", _bridge_gaps
            )
            if source.codecs:
                _finish(file)
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise FormatError(
            f"{source.url}: the data end too early or are corrupt ({error}); fetch or copy the file"
            " again"
        ) from error
    return np.asarray(block).astype(source.dtype("stored"), copy=False)


def _read_head(path: str) -> tuple[bytes, NiftiHeader, bool, Identity]:
    """The bytes before the data, the header in them, whether the file is compressed, and its
    identity.
    """
    with cast(BufferedReader, open_binary(path)) as file:
        compressed = file.peek(2)[:2] == _GZIP_MAGIC
        stream: BinaryIO = file
        if compressed:
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=file))
        raw = stream.read(_HEAD_NBYTES)
        header = parse(raw)
        offset = header.get_data_offset()
        if not header.sizeof_hdr <= offset <= _LARGEST_OFFSET:
            where = "where none can be"
            if 0 <= offset < header.sizeof_hdr:
                where = "within the header"
            raise ValueError(f"its data would begin at byte {offset}, {where}")
        if offset > len(raw):
            raw += stream.read(offset - len(raw))
        raw = raw[:offset]
        if isinstance(path, Remote):
            return raw, header, compressed, identify_remote(path, raw)
        start = 0 if compressed else offset
        return raw, header, compressed, identify(file.fileno(), raw, start)


def _stream(path: str) -> BinaryIO:
    file = cast(BufferedReader, open_binary(path))  # the caller closes what is returned
    if file.peek(2)[:2] != _GZIP_MAGIC:
        return file
    if isinstance(path, Remote):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    file.close()
    return cast(BinaryIO, gzip.open(path, "rb"))


def _finish(file: BinaryIO) -> None:
    """Read up to the end of the file, where gzip compares its checksum."""
    while file.read(_PIECE_NBYTES):
        pass


def _bridge_gaps(index: slice, _extent: int, step_nbytes: int) -> str | None:
    """Whether nibabel reads through the gaps of a strided axis; never beyond the bounds of the
    slab.
    """
    if abs(index.step) * step_nbytes <= _GAP_NBYTES:
        return "contiguous"
    return None


def _check_complete(path: str, expected: int, identity: Identity, compressed: bool) -> None:
    file_size = identity.file_size
    available = file_size
    if compressed:
        available = file_size * _LARGEST_DEFLATE_RATIO
    if expected <= available:
        _check_end(path, expected, identity, compressed)
        return
    if compressed:
        raise FormatError(
            f"{path}: truncated: its {show_count(file_size, 'byte')} cannot hold"
            f" {show_count(expected, 'byte')} of image; fetch or copy it again"
        )
    raise FormatError(
        f"{path}: truncated: {show_count(expected - file_size, 'byte')} missing; fetch or copy"
        " it again"
    )


def _check_end(path: str, expected: int, identity: Identity, compressed: bool) -> None:
    if not compressed or isinstance(path, Remote):
        return
    fault = ending.fault_of(path, expected, identity.mtime_ns)
    if fault:
        raise FormatError(f"{path}: {fault}; fetch or copy the file again")


def _contiguous(stored_shape: tuple[int, ...], offset: int, nbytes: int) -> ChunkTable:
    rows = 0
    if nbytes:
        rows = 1
    return ChunkTable(
        chunk_shape=stored_shape,
        start=np.zeros((rows, len(stored_shape)), dtype=np.int64),
        offset=np.full(rows, offset, dtype=np.int64),
        nbytes=np.full(rows, nbytes, dtype=np.int64),
        mask=np.zeros(rows, dtype=np.int64),
    )


def _dims(affine: Array, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the axes: those of space by where they run, as in xarray."""
    numbered = DIMS[: len(shape)]
    in_space = names_in_space(affine, numbered, shape[: len(FIRST)])
    return (*in_space, *numbered[len(in_space) :])


def _reason(path: str, compressed: bool, nbytes: int) -> str:
    if not compressed:
        return "contiguous: a task reads its byte ranges directly"
    if isinstance(path, Remote):
        return (
            "one gzip stream in a remote store: every task fetches and inflates all of it; a copy"
            " here is indexed"
        )
    if nbytes < LEAST_INDEXED_NBYTES:
        return "one gzip stream, small enough for every task to inflate all of it"
    return (
        "one gzip stream: indexed once if several parts of it are read, so that each of them is"
        " read"
        " directly"
    )


def _attributes(header: NiftiHeader) -> dict[str, Any]:
    version = 2
    if header["sizeof_hdr"] == _SIZE_OF_FIRST:
        version = 1
    byte_order = "big"
    if header.endianness == "<":
        byte_order = "little"
    return {
        "version": version,
        "byte_order": byte_order,
        "zooms": tuple(float(zoom) for zoom in header.get_zooms()),
        "units": _units(int(header["xyzt_units"])),
        "sform_code": int(header["sform_code"]),
        "qform_code": int(header["qform_code"]),
        "intent": header.get_intent()[0],
        "description": bytes(header["descrip"].item()).partition(b"\0")[0].decode("latin-1"),
    }


def _units(code: int) -> tuple[str, str]:
    """Names of the units of space and of time; a number that the standard does not give one is
    shown as such.
    """
    from nibabel.nifti1 import unit_codes

    space = code % TIME_UNIT
    known = unit_codes.value_set()
    labels = [f"unknown code {space}", f"unknown code {code - space}"]
    for place, one in enumerate((space, code - space)):
        if one in known:
            labels[place] = str(unit_codes.label[one])
    return labels[0], labels[1]
