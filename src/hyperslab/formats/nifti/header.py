"""NIfTI headers: parse one, and build the head of a file for a block that was cut from an image."""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import apart, tolerance
from hyperslab.arrays.header import Header
from hyperslab.arrays.sampling import Sampling, in_seconds
from hyperslab.arrays.source import Scaling
from hyperslab.errors import FormatError
from hyperslab.formats.nifti import axes as nifti_axes
from hyperslab.formats.nifti import space
from hyperslab.formats.nifti import whole as nifti_whole

NiftiHeader: TypeAlias = Any
"A nibabel Nifti1Header or Nifti2Header, whose methods carry no types."

DIMS = ("x", "y", "z", "t", "u", "v", "w")
"Names of the axes of an image whose first three run along x, y and z."
LARGEST_NIFTI1_AXIS = 32767
TIME_UNIT = 8
"""The smallest code of a unit of time (NIfTI-1 standard, xyzt_units): those of space are added to
it.
"""
_UNITS_OF_TIME = {8: "s", 16: "ms", 24: "us", 32: "Hz", 40: "ppm", 48: "rad s-1"}
"Codes of units of the fourth axis (NIfTI-1 standard, xyzt_units)."
_TIME = 3
"Axis of time."
_CODES_OF_SPACE = {"m": 1, "mm": 2, "um": 3}
_UNITS_OF_SPACE = {code: unit for unit, code in _CODES_OF_SPACE.items()}
_CODES_OF_TIME = {unit: code for code, unit in _UNITS_OF_TIME.items()}
SAID_BESIDE = (
    "dim_info",
    "slice_start",
    "slice_end",
    "slice_code",
    "slice_duration",
    "toffset",
    "cal_min",
    "cal_max",
    "intent_p1",
    "intent_p2",
    "intent_p3",
    "intent_name",
    "aux_file",
)
"""Fields by which two headers may differ that are alike in place, units, form codes, intent and
description.
"""
_NIFTI1_MAGIC = b"n+1\0"
_NIFTI2_MAGIC = b"n+2\0"
_OWN_FIELDS = {
    "sizeof_hdr",
    "magic",
    "eol_check",
    "vox_offset",
    "dim",
    "datatype",
    "bitpix",
    "scl_slope",
    "scl_inter",
}
_LARGEST_CARRIED_NBYTES = 40_000
_NEAR_TIMES = 1e-6
"Relative difference of times that is only rounding."


@contextmanager
def header_errors(path: str) -> Iterator[None]:
    """Turn what nibabel, gzip and the file system raise about a header into a FormatError."""
    import zlib

    from nibabel.spatialimages import HeaderDataError, HeaderTypeError
    from nibabel.wrapstruct import WrapStructError

    wrong = (
        HeaderDataError,
        HeaderTypeError,
        WrapStructError,
        ValueError,
        TypeError,
        OverflowError,
        struct.error,
    )
    try:
        yield
    except (*wrong, EOFError, OSError, zlib.error) as error:
        raise FormatError(
            f"{path}: its NIfTI header cannot be used: {error}; fetch or copy the file again"
        ) from error


def parse(raw: bytes) -> NiftiHeader:
    """The header at the start of a file's bytes, without its extensions.

    Raises nibabel's errors.
    """
    kind = _kind_of(raw)
    return kind(raw[: kind.sizeof_hdr])


def parse_ours(head: bytes) -> NiftiHeader:
    """The header that `build_head` has made, without its extensions: there is nothing to check."""
    kind = _kind_of(head)
    return kind(head[: kind.sizeof_hdr], check=False)


def _kind_of(raw: bytes) -> Any:
    """nibabel's class for the header at the start of a file's bytes.

    The mark of NIfTI-2 lies in a field of NIfTI-1 that means nothing, so that the mark of NIfTI-1
    is looked for first.
    """
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    if raw[4:8] == _NIFTI2_MAGIC and raw[344:348] != _NIFTI1_MAGIC:
        return Nifti2Header
    return Nifti1Header


def unit_of_space(header: NiftiHeader) -> str:
    """Unit of the affine; '' where the header does not say one."""
    code = int(header["xyzt_units"]) % TIME_UNIT
    return _UNITS_OF_SPACE.get(code, "")


def sampling_of(header: NiftiHeader) -> dict[str, Sampling]:
    """Where the volumes of a series lie in time, or along what else its fourth axis is."""
    code = int(header["xyzt_units"])
    step = float(header["pixdim"][_TIME + 1])
    first = float(header["toffset"])
    unit = _UNITS_OF_TIME.get(code - code % TIME_UNIT, "")
    found = in_seconds(first, step, unit)
    if int(header["dim"][0]) <= _TIME or step <= 0 or not found.is_usable:
        return {}
    return {DIMS[_TIME]: found}


def scaling_of(header: NiftiHeader) -> Scaling | None:
    """What a header says of its values; None where they are the real ones, as by a slope of 0."""
    slope, inter = header.get_slope_inter()
    if slope is None or (slope, inter) == (1, 0):
        return None
    return Scaling(slope, inter)


def real_dtype(stored: np.dtype[Any], scaling: Scaling | None) -> np.dtype[Any]:
    """dtype of `img.dataobj`: nibabel.volumeutils.apply_read_scaling widens integers until nothing
    overflows.
    """
    from nibabel.volumeutils import int_scinter_ftype

    if scaling is None:
        return stored.newbyteorder("=")
    if stored.kind not in "iu":
        return np.result_type(stored, np.float64)
    wide = int_scinter_ftype(
        stored, np.float64(scaling.slope), np.float64(scaling.inter), np.float64
    )
    return np.result_type(stored, wide)


def shape_of(header: NiftiHeader) -> tuple[int, ...]:
    """The shape of the image. Raises ValueError where the header gives it a number of axes that
    cannot be.
    """
    with np.errstate(over="ignore"):  # nibabel adds 1 to the number of axes, in int16
        shape = tuple(int(n) for n in header.get_data_shape())
    if not shape:
        raise ValueError(f"it gives its image {int(header['dim'][0])} axes")
    return shape


def build_head(
    path: str, shape: Sequence[int], dtype: np.dtype[Any], header: Header, scaling: Scaling | None
) -> bytes:
    """The bytes before the data of a little-endian file: header, extensions, padding up to
    vox_offset.

    Keeps what the parent's header says of anything but the data, and moves its geometry to the
    block. A block becomes the whole again where it has the whole's shape.
    """
    header = _in_sayable_unit(header)
    # What is not finite in a header stays so in that of a block, without NumPy's warnings.
    with header_errors(path), np.errstate(all="ignore"):
        parent = _parent(header)
        built = _built(shape, dtype, parent, header)
        wholes = nifti_whole.headers_of_wholes(parent)
        same = next(
            (whole for whole in map(parse, wholes) if whole.get_data_shape() == tuple(shape)), None
        )
        if parent is not None and same is not None and nifti_whole.begins_with(header):
            cut = _built(parent.get_data_shape(), dtype, same, _uncut(same))
            nifti_whole.restore(built, parent, cut, same)
            wholes.remove(same.binaryblock)
        nifti_whole.say(built, parent, header, wholes)
        _say_scaling(built, parent, scaling)
        return _serialise(built)


def _in_sayable_unit(header: Header) -> Header:
    """The header in millimetres where NIfTI has no code for its unit of space, as centimetres."""
    is_sayable = header.unit_of_space in ("", *_CODES_OF_SPACE)
    if is_sayable or header.base_affine is None or not header.has_known_unit:
        return header
    uncut = replace(header, origin=(), step=()).affine_mm
    beside = {name: one for name, one in header.base_sampling.items() if not one.cosines}
    return replace(header, base_affine=uncut, base_sampling=beside, space_unit="mm")


def _parent(header: Header) -> NiftiHeader | None:
    """The header of the uncut array, with the axes that it has."""
    parent = _with_extensions(header.native)
    if parent is None:
        return None
    if header.is_other_quantity:
        nifti_axes.forget_values(parent)
    if header.axes is None:
        return parent
    shape = header.axes.shape(parent.get_data_shape())
    return nifti_axes.changed(_blank(max(shape) > LARGEST_NIFTI1_AXIS, parent), parent, header)


def _built(
    shape: Sequence[int], dtype: np.dtype[Any], parent: NiftiHeader | None, header: Header
) -> NiftiHeader:
    """The header of a block, without what it says of its parent and of what its values mean."""
    built = _blank(max(shape) > LARGEST_NIFTI1_AXIS, parent)
    built.set_data_dtype(dtype)
    built.set_data_shape(tuple(shape))
    origin = _padded(header.origin, 0.0)
    step = _padded(header.step, 1.0)
    _place_samples(built, parent, header, origin, step)
    space.place(built, parent, header)
    _forget_cut_slices(built, parent, origin, step)
    return built


def _uncut(parent: NiftiHeader) -> Header:
    """The header of a block with the first voxel of an image."""
    zeros = (0.0,) * len(parent.get_data_shape())
    affine = np.asarray(parent.get_best_affine(), np.float64)
    return Header(base_affine=affine, origin=zeros, step=tuple(1.0 for _ in zeros))


def _say_scaling(built: NiftiHeader, parent: NiftiHeader | None, scaling: Scaling | None) -> None:
    """Set slope and intercept; those that mean nothing, such as a slope of 0, stay as they are."""
    stated = scaling or Scaling()
    built["scl_slope"] = stated.slope
    built["scl_inter"] = stated.inter
    if scaling is None and parent is not None and scaling_of(parent) is None:
        built["scl_slope"] = parent["scl_slope"]
        built["scl_inter"] = parent["scl_inter"]


def said_beside(shape: Sequence[int], header: Header) -> dict[str, Any]:
    """The fields beside geometry, units and values that the header of an array has, or would have
    in one file.
    """
    if header.native is None:
        return {}
    built = parse(build_head("", shape, np.dtype(np.uint8), header, None))
    return {name: built[name].item() for name in SAID_BESIDE}


def carried(shape: Sequence[int], header: Header) -> str:
    """The header of a block as text that files of other formats can keep; '' where the array is
    none of NIfTI's.

    Extensions are left out where they would make it larger than an attribute of HDF5 may be.
    """
    if header.native is None or not 1 <= len(shape) <= len(DIMS) or 0 in shape:
        return ""
    head = build_head("", shape, np.dtype(np.uint8), header, None)
    if len(head) > _LARGEST_CARRIED_NBYTES:
        fixed = replace(header, native=header.native[: parse(header.native).sizeof_hdr] + bytes(4))
        head = build_head("", shape, np.dtype(np.uint8), fixed, None)
    return base64.b64encode(head).decode("ascii")


def taken_over(
    text: object,
    shape: Sequence[int],
    affine: Array,
    sampling: Mapping[str, Sampling] | None = None,
) -> bytes | None:
    """The header that `carried` gave, if it is of an array of this shape, in this place, and of
    these times where some are known; None for anything else.
    """
    try:
        head = base64.b64decode(text if isinstance(text, str | bytes) else "", validate=True)
        with header_errors(""):
            found: NiftiHeader = _with_extensions(head)
            same = shape_of(found) == tuple(shape)
            placed = apart(found.get_best_affine(), affine, shape) <= tolerance(affine, shape)
            timed = _is_timed(
                sampling_of(found).get(DIMS[_TIME]), (sampling or {}).get(DIMS[_TIME])
            )
    except (FormatError, ValueError):
        return None
    if same and placed and timed:
        return head
    return None


def _is_timed(own: Sampling | None, said: Sampling | None) -> bool:
    """Whether times that a file says beside a header are those of the header."""
    if said is None:
        return True
    if own is None or own.unit != said.unit:
        return False
    atol = _NEAR_TIMES * abs(own.step)
    return bool(np.allclose((said.first, said.step), (own.first, own.step), _NEAR_TIMES, atol))


def _with_extensions(native: bytes | None) -> NiftiHeader | None:
    """A copy of the header at the start of these bytes. Raises nibabel's errors."""
    if native is None:
        return None
    return _read(native).copy()


@functools.lru_cache(maxsize=8)
def _read(native: bytes) -> NiftiHeader:
    """The header at the start of these bytes, which is read and checked once for all blocks that
    are cut from an image.
    """
    return _kind_of(native).from_fileobj(BytesIO(native))


def _blank(long_axis: bool, parent: NiftiHeader | None) -> NiftiHeader:
    """A little-endian header with the parent's fields and extensions, in NIfTI-2 if either side
    needs it.
    """
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    kind: Any = Nifti1Header
    if long_axis or isinstance(parent, Nifti2Header):
        kind = Nifti2Header
    blank = kind(endianness="<")
    if parent is None:
        return blank
    if type(parent) is kind:
        built = parent.as_byteswapped("<")
        fields = _OWN_FIELDS & set(blank.keys())
        _take(built, blank, fields)
    else:
        built = blank
        fields = set(blank.keys()) & set(parent.keys()) - _OWN_FIELDS
        _take(built, parent, fields)
    built.extensions = parent.extensions
    return built


def _take(built: NiftiHeader, other: NiftiHeader, fields: Iterable[str]) -> None:
    for field in fields:
        built[field] = other[field]


def _place_samples(
    built: NiftiHeader,
    parent: NiftiHeader | None,
    header: Header,
    origin: Sequence[float],
    step: Sequence[float],
) -> None:
    """Set voxel sizes and the time of the first volume; NIfTI has no way to say that time runs
    backwards.
    """
    from nibabel.affines import voxel_sizes

    ndim = int(built["dim"][0])
    sizes = np.ones(8)
    if parent is not None:
        known = int(parent["dim"][0])
        sizes[:] = parent["pixdim"]
        sizes[known + 1 : ndim + 1] = 1
        if known == ndim:
            built["dim"][ndim + 1 :] = parent["dim"][ndim + 1 :]
        built["toffset"] = float(parent["toffset"]) + (origin[3] * sizes[4] if ndim > 3 else 0.0)
    else:
        if header.base_affine is not None:
            sizes[1:4] = voxel_sizes(header.base_affine)  # type: ignore[no-untyped-call]
        else:
            sizes[1 : ndim + 1] = _steps(header, ndim)
        built["toffset"] = sum(header.corner[:1]) + origin[3] if ndim > 3 else 0.0
        time = header.base_sampling.get(header.dims[_TIME]) if len(header.dims) > _TIME else None
        if time is not None and time.is_usable:
            sizes[_TIME + 1] = abs(time.step)
            built["toffset"] = time.moved(origin[_TIME], 1).first
        built["xyzt_units"] = _unit_codes(header, time)
    sizes[1 : ndim + 1] *= np.abs(step[:ndim])
    built["pixdim"] = sizes


def _steps(header: Header, ndim: int) -> list[float]:
    """The voxel sizes of an array without a place, as far as its axes say them."""
    sizes = [1.0] * ndim
    for axis, name in enumerate(header.dims[:ndim]):
        found = header.base_sampling.get(name)
        if found is not None and found.is_usable:
            sizes[axis] = abs(found.step)
    return sizes


def _unit_codes(header: Header, time: Sampling | None) -> int:
    """The units of space and of time, where the header of another format says them."""
    code = 0
    if header.base_affine is not None:
        code = _CODES_OF_SPACE.get(header.unit_of_space, 0)
    if time is not None:
        code += _CODES_OF_TIME.get(time.unit, 0)
    return code


def _forget_cut_slices(
    built: NiftiHeader, parent: NiftiHeader | None, origin: Sequence[float], step: Sequence[float]
) -> None:
    """Clear the order and times of acquired slices where the block does not hold all of them (third
    axis if unsaid).
    """
    if parent is None:
        return
    said = parent.get_dim_info()[2]
    axis = said
    if said is None:
        axis = 2
    whole = int(built["dim"][axis + 1]) == int(parent["dim"][axis + 1])
    if not whole or origin[axis] != 0 or step[axis] != 1:
        for field in ("slice_start", "slice_end", "slice_code", "slice_duration"):
            built[field] = 0


def _serialise(built: NiftiHeader) -> bytes:
    built["vox_offset"] = built.single_vox_offset + built.extensions.get_sizeondisk()
    file = BytesIO()
    built.write_to(file)
    return file.getvalue().ljust(built.get_data_offset(), b"\0")


def _padded(values: Sequence[float], rest: float) -> tuple[float, ...]:
    return (*values, *(rest,) * (8 - len(values)))
