"""NIfTI headers: parse one, and build the head of a file for a block that was cut from an image."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

from hyperslab.affines import apart, tolerance
from hyperslab.array import Array, Header, Scaling
from hyperslab.errors import FormatError

NiftiHeader: TypeAlias = Any
"A nibabel Nifti1Header or Nifti2Header, whose methods carry no types."

DIMS = ("x", "y", "z", "t", "u", "v", "w")
LARGEST_NIFTI1_AXIS = 32767
_NIFTI2_MAGIC = b"n+2\0"
_OWN_FIELDS = {"sizeof_hdr", "magic", "eol_check", "vox_offset", "dim", "datatype", "bitpix", "scl_slope", "scl_inter"}
_ALIGNED_CODE = 2
_LARGEST_CARRIED_NBYTES = 40_000
_COMMENT_CODE = 6
_BLOCK_OF = b"hyperslab: a block of "
"How a comment begins that says the shape of the array that a block was cut from (NIfTI has no field for it)."


@contextmanager
def header_errors(path: str) -> Iterator[None]:
    """Turn what nibabel, gzip and the file system raise about a header into a FormatError."""
    import zlib

    from nibabel.spatialimages import HeaderDataError, HeaderTypeError
    from nibabel.wrapstruct import WrapStructError

    wrong = (HeaderDataError, HeaderTypeError, WrapStructError, ValueError, TypeError, OverflowError, struct.error)
    try:
        yield
    except (*wrong, EOFError, OSError, zlib.error) as error:
        raise FormatError(f"{path}: its NIfTI header cannot be used: {error}; fetch or copy the file again") from error


def parse(raw: bytes) -> NiftiHeader:
    """The header at the start of a file's bytes, without its extensions. Raises nibabel's errors."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    kind: Any = Nifti2Header if raw[4:8] == _NIFTI2_MAGIC else Nifti1Header
    return kind(raw[: kind.sizeof_hdr])


def build_head(path: str, shape: Sequence[int], dtype: np.dtype[Any], header: Header, scaling: Scaling | None) -> bytes:
    """The bytes before the data of a little-endian file: header, extensions, padding up to vox_offset.

    Keeps what the parent's header says of anything but the data, and moves its geometry to the block.
    """
    with header_errors(path):
        parent = _with_extensions(header.native)
        built = _blank(max(shape) > LARGEST_NIFTI1_AXIS, parent)
        built.set_data_dtype(dtype)
        built.set_data_shape(tuple(shape))
        origin, step = _padded(header.origin, 0.0), _padded(header.step, 1.0)
        _place_samples(built, parent, header, origin, step)
        _place_space(built, parent, header)
        _forget_cut_slices(built, parent, origin, step)
        _say_whole_shape(built, header)
        built["scl_slope"] = scaling.slope if scaling else 1.0
        built["scl_inter"] = scaling.inter if scaling else 0.0
        return _serialise(built)


def carried(shape: Sequence[int], header: Header) -> str:
    """The header of a block as text that files of other formats can keep; '' where the array is none of NIfTI's.

    Extensions are left out where they would make it larger than an attribute of HDF5 may be.
    """
    if header.native is None or not 1 <= len(shape) <= len(DIMS) or 0 in shape:
        return ""
    head = build_head("", shape, np.dtype(np.uint8), header, None)
    if len(head) > _LARGEST_CARRIED_NBYTES:
        fixed = replace(header, native=header.native[: parse(header.native).sizeof_hdr] + bytes(4))
        head = build_head("", shape, np.dtype(np.uint8), fixed, None)
    return base64.b64encode(head).decode("ascii")


def taken_over(text: object, shape: Sequence[int], affine: Array) -> bytes | None:
    """The header that `carried` gave, if it is of an array of this shape and in this place; None for anything else."""
    try:
        head = base64.b64decode(text if isinstance(text, str | bytes) else "", validate=True)
        with header_errors(""):
            found: NiftiHeader = _with_extensions(head)
            same = tuple(found.get_data_shape()) == tuple(shape)
            placed = apart(found.get_best_affine(), affine, shape) <= tolerance(affine, shape)
    except (FormatError, ValueError):
        return None
    return head if same and placed else None


def _with_extensions(native: bytes | None) -> NiftiHeader | None:
    return None if native is None else type(parse(native)).from_fileobj(BytesIO(native))


def _blank(long_axis: bool, parent: NiftiHeader | None) -> NiftiHeader:
    """A little-endian header with the parent's fields and extensions, in NIfTI-2 if either side needs it."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    kind: Any = Nifti2Header if long_axis or isinstance(parent, Nifti2Header) else Nifti1Header
    built = kind(endianness="<")
    if parent is not None:
        for field in set(built.keys()) & set(parent.keys()) - _OWN_FIELDS:
            built[field] = parent[field]
        built.extensions = parent.extensions
    return built


def _place_samples(
    built: NiftiHeader, parent: NiftiHeader | None, header: Header, origin: Sequence[float], step: Sequence[float]
) -> None:
    """Set voxel sizes and the time of the first volume; NIfTI has no way to say that time runs backwards."""
    from nibabel.affines import voxel_sizes

    ndim = int(built["dim"][0])
    sizes = np.ones(8)
    if parent is not None:
        known = min(ndim, int(parent["dim"][0]))
        sizes[: known + 1] = parent["pixdim"][: known + 1]
        built["toffset"] = float(parent["toffset"]) + (origin[3] * sizes[4] if ndim > 3 else 0.0)
    else:
        if header.base_affine is not None:
            sizes[1:4] = voxel_sizes(header.base_affine)  # type: ignore[no-untyped-call]
        built["toffset"] = sum(header.corner[:1]) + origin[3] if ndim > 3 else 0.0
    sizes[1 : ndim + 1] *= np.abs(step[:ndim])
    built["pixdim"] = sizes


def _place_space(built: NiftiHeader, parent: NiftiHeader | None, header: Header) -> None:
    """Move sform and qform, each with its code; without either, say the parent's affine as an sform."""
    motion = header.motion()
    sform, sform_code = parent.get_sform(coded=True) if parent is not None else (None, 0)
    qform, qform_code = parent.get_qform(coded=True) if parent is not None else (None, 0)
    if not sform_code and not qform_code:
        sform, sform_code = (np.eye(4) if header.base_affine is None else header.base_affine), _ALIGNED_CODE
    if sform_code:
        built.set_sform(sform @ motion, int(sform_code))
    if qform_code and not _set_qform(built, qform @ motion, int(qform_code)) and not sform_code:
        built.set_sform(qform @ motion, int(qform_code))


def _set_qform(built: NiftiHeader, affine: Array, code: int) -> bool:
    """Set the qform if its float32 quaternion can hold the affine: close to half a turn it cannot hold every angle."""
    sizes = np.array(built["pixdim"])
    built.set_qform(affine, code)
    shape = [int(n) for n in built["dim"][1:4]]
    if apart(built.get_qform(), affine, shape) <= tolerance(affine, shape):
        return True
    built["qform_code"], built["pixdim"] = 0, sizes
    return False


def _forget_cut_slices(
    built: NiftiHeader, parent: NiftiHeader | None, origin: Sequence[float], step: Sequence[float]
) -> None:
    """Clear the order and times of acquired slices where the block does not hold all of them (third axis if unsaid)."""
    if parent is None:
        return
    said = parent.get_dim_info()[2]
    axis = 2 if said is None else said
    whole = int(built["dim"][axis + 1]) == int(parent["dim"][axis + 1])
    if not whole or origin[axis] != 0 or step[axis] != 1:
        for field in ("slice_start", "slice_end", "slice_code", "slice_duration"):
            built[field] = 0


def whole_shape(raw: bytes) -> tuple[int, ...]:
    """Shape of the array that a block was cut from, by the bytes before its data; () where they do not say."""
    found = re.search(re.escape(_BLOCK_OF) + rb"((?:\d+ ?)+)", raw)
    return tuple(map(int, found[1].split())) if found else ()


def _say_whole_shape(built: NiftiHeader, header: Header) -> None:
    from nibabel.nifti1 import Nifti1Extension, Nifti1Extensions

    others = (e for e in built.extensions if not (e.get_code() == _COMMENT_CODE and _BLOCK_OF in e.get_content()))
    built.extensions = Nifti1Extensions(others)
    if header.whole_shape:
        said = _BLOCK_OF + " ".join(map(str, header.whole_shape)).encode()
        built.extensions.append(Nifti1Extension(_COMMENT_CODE, said))


def _serialise(built: NiftiHeader) -> bytes:
    built["vox_offset"] = built.single_vox_offset + built.extensions.get_sizeondisk()
    file = BytesIO()
    built.write_to(file)
    return file.getvalue().ljust(built.get_data_offset(), b"\0")


def _padded(values: Sequence[float], rest: float) -> tuple[float, ...]:
    return (*values, *(rest,) * (8 - len(values)))
