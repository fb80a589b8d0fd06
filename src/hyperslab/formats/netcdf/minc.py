"""MINC volumes, in netCDF classic (MINC1) and in HDF5 (MINC2): names of axes, real values and place
of the image.

Source: MINC 1 Programmer's Guide (image conversion variables, dimension variables) and MINC 2.0
File Format Reference; values and affines equal nibabel.minc1's and nibabel.minc2's
(`tests/formats/test_minc.py`). What nibabel refuses has no real values here either: irregular
spacing, ranges that do not belong to the leading axes, a valid range that the stored dtype does not
hold. The axes stay in the file's order, and the affine is of those of space in that order, which
need not be the first three (a series of volumes, time first).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import FIRST
from hyperslab.arrays.sampling import Sampling, in_seconds
from hyperslab.arrays.source import Scaling
from hyperslab.formats.conventions.packing import Packing, text_of
from hyperslab.formats.netcdf.header import Variable
from hyperslab.units import show_count

IMAGE2 = "/minc-2.0/image/0/image"
"Path of the image in a MINC2 file."
STANDARD_VARIABLE = "MINC standard variable"
"How the attribute varid of an image begins."
OF_VARIABLES = frozenset(
    ("dimorder", "varid", "vartype", "version", "complete", "parent", "children")
)
"Attributes by which MINC keeps its variables."
VALID = frozenset(("valid_range", "valid_min", "valid_max"))
"Attributes of the valid range, which means nothing to floating values."
IMAGE1 = "image"
"Name of the image in a MINC1 file."
_IMAGES2 = "/minc-2.0/image/"
_COSINES = {"xspace": (1.0, 0.0, 0.0), "yspace": (0.0, 1.0, 0.0), "zspace": (0.0, 0.0, 1.0)}
_LARGEST_RANGES = 2**21
_REGULAR = "regular__"
_OF_A_DIMENSION = ("spacing", "direction_cosines", "step", "start", "units")
_TIMES = {"sec": "s", "seconds": "s", "msec": "ms", "milliseconds": "ms", "usec": "us"}
"Other words for units of time."
_SIGNS = {"unsigned": "u", "signed__": "i"}


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """One of image-min and image-max."""

    dims: tuple[str, ...]
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """What a file says of an image, whichever format it has."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    attributes: Mapping[str, Any]
    dimensions: Mapping[str, Mapping[str, Any]]
    "Attributes of each dimension's own variable."
    low: Range | None
    high: Range | None
    irregular: str
    "Why the spacing of an axis cannot be taken for regular; '' if it can."


@dataclass(frozen=True, slots=True, eq=False)
class Volume:
    """An image understood."""

    dims: tuple[str, ...]
    packing: Packing
    affine: Array | None
    "(4, 4) float64: voxel indices along the axes of space to millimetres."
    space: tuple[int, ...]
    "These axes."
    sampling: Mapping[str, Sampling]
    "Places along the dimensions that the file describes."


def is_lower_resolution(name: str) -> bool:
    """True for the reduced copies of an image that MINC2 may hold beside it."""
    return name.startswith(_IMAGES2) and name.endswith("/image") and name != IMAGE2


def understand(image: Image) -> Volume:
    """Work out the real values and the place of an image; what is not understood is said in
    `packing.unscalable`.
    """
    native = image.stored.newbyteorder("=")
    dims = image.dims
    affine = None
    try:
        if image.irregular:
            raise ValueError(image.irregular)
        affine = _affine(image)
        packing = _packing(image, native)
    except ValueError as error:
        packing = Packing(None, native, str(error))
    sampling = _sampling(image)
    space: tuple[int, ...] = FIRST
    if affine is not None:
        space = _axes_of_space(dims)
    return Volume(dims, packing, affine, space, sampling)


def _axes_of_space(dims: Sequence[str]) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(dims) if name.endswith("space"))


def _sampling(image: Image) -> dict[str, Sampling]:
    """Places along the dimensions that are regular and described by numbers; times in seconds."""
    found = {}
    for name in image.dims:
        said = image.dimensions.get(name, {})
        is_placed = name.endswith("space") and name in image.dimensions
        if image.irregular or not (is_placed or {"start", "step"} & said.keys()):
            continue
        try:
            found[name] = _sampled(name, said)
        except ValueError:  # what the affine is refused for, too
            continue
    return found


def _sampled(name: str, said: Mapping[str, Any]) -> Sampling:
    (first,) = _numbers(said, "start", 1, (0.0,))
    (step,) = _numbers(said, "step", 1, (1.0,))
    unit = text_of(said.get("units", "")).replace("\0", "").strip()
    sampling = in_seconds(float(first), float(step), _TIMES.get(unit, unit))
    if not name.endswith("space"):
        return sampling
    cosines = _numbers(said, "direction_cosines", 3, _COSINES.get(name))
    return replace(sampling, cosines=tuple(cosines.tolist()))


def _affine(image: Image) -> Array | None:
    """The affine of the space axes in their order; None where there are not three. As nibabel
    computes it.
    """
    names = [image.dims[axis] for axis in _axes_of_space(image.dims)]
    if len(names) != len(FIRST):
        return None
    cosines = np.eye(3)
    steps = np.ones(3)
    starts = np.zeros(3)
    for column, name in enumerate(names):
        said = image.dimensions.get(name)
        if said is None:
            raise ValueError(f"its dimension {name} has no variable that says where it lies")
        cosines[:, column] = _numbers(said, "direction_cosines", 3, _COSINES.get(name))
        steps[column] = _numbers(said, "step", 1, (1.0,))[0]
        starts[column] = _numbers(said, "start", 1, (0.0,))[0]
    affine = np.eye(4)
    affine[:3, :3] = cosines * steps
    affine[:3, 3] = np.dot(cosines, starts)
    return affine


def of_hdf5(dataset: Any) -> Image:
    """The image of a MINC2 file, opened by h5py."""
    group = dataset.parent
    dimensions = dataset.file.get("/minc-2.0/dimensions")
    dims = _dimorder(dataset)
    held = [name for name in dims if dimensions is not None and name in dimensions]
    found = {name: _said_of(dimensions[name]) for name in held}
    if len(dims) != dataset.ndim or len(set(dims)) != len(dims):
        dims = tuple(f"dim_{axis}" for axis in range(dataset.ndim))
        irregular = "its attribute dimorder is wrong"
    else:
        spacings = {
            name: text_of(said.get("spacing", b"regular__")) for name, said in found.items()
        }
        bent = [name for name, spacing in spacings.items() if spacing.rstrip("_") == "irregular"]
        irregular = ""
        if bent:
            irregular = f"the spacing along {bent[0]} is irregular"
    low, high = (_range_of_hdf5(group.get(name), dataset) for name in ("image-min", "image-max"))
    attributes = {name: dataset.attrs[name] for name in ("valid_range",) if name in dataset.attrs}
    return Image(dims, dataset.shape, dataset.dtype, attributes, found, low, high, irregular)


def _said_of(dimension: Any) -> dict[str, Any]:
    """The attributes of a dimension's dataset that say where it lies."""
    return {name: dimension.attrs[name] for name in _OF_A_DIMENSION if name in dimension.attrs}


def of_classic(
    variables: Mapping[str, Variable], read: Callable[[Variable], Array]
) -> Image | None:
    """The image of a MINC1 file, or None if the file is not MINC; `read` gives all values of a
    small variable.
    """
    image = variables.get(IMAGE1)
    if image is None or not is_minc1(image, variables):
        return None
    found = {name: variables[name].attributes for name in image.dims if name in variables}
    stored, odd = _signed(image)
    for name, said in found.items():
        if said.get("spacing") != _REGULAR:
            odd = odd or f"the spacing along {name} is not said to be regular"
    low, high = (
        _range_of_classic(variables.get(name), image, read) for name in ("image-min", "image-max")
    )
    return Image(image.dims, image.shape, stored, image.attributes, found, low, high, odd)


def is_minc1(image: Variable, variables: Mapping[str, Variable]) -> bool:
    """Whether a variable named 'image' is that of a MINC1 file with these variables."""
    said = str(image.attributes.get("varid", ""))
    return (
        said.startswith(STANDARD_VARIABLE)
        or "image-max" in variables
        or "rootvariable" in variables
    )


def _signed(image: Variable) -> tuple[np.dtype[Any], str]:
    """The dtype with the sign that MINC gives to netCDF's signed types, and what is odd about
    it.
    """
    if image.dtype.kind != "i":
        return image.dtype, ""
    sign = _SIGNS.get(str(image.attributes.get("signtype")))
    if sign is None:
        return image.dtype, "its attribute signtype does not say whether its numbers have a sign"
    return np.dtype(f"{sign}{image.dtype.itemsize}").newbyteorder(">"), ""


def _range_of_classic(
    variable: Variable | None, image: Variable, read: Callable[[Variable], Array]
) -> Range | None:
    if variable is None or not _is_range(variable.shape, image.shape):
        return None
    return Range(variable.dims, read(variable))


def _range_of_hdf5(dataset: Any, image: Any) -> Range | None:
    if dataset is None or dataset.shape is None or not _is_range(dataset.shape, image.shape):
        return None
    return Range(_dimorder(dataset), np.asarray(dataset[()]))


def _is_range(shape: Sequence[int], image: Sequence[int]) -> bool:
    """True for the extents of the image's first axes; looked at before anything is read."""
    return tuple(shape) == tuple(image[: len(shape)]) and math.prod(shape) <= _LARGEST_RANGES


def _dimorder(dataset: Any) -> tuple[str, ...]:
    """Names of a dataset's dimensions; a dimorder that is longer than its rank says nothing of the
    rest.
    """
    said = text_of(dataset.attrs.get("dimorder", b""))
    if said:
        return tuple(said.split(",")[: dataset.ndim])
    return ()


def _packing(image: Image, native: np.dtype[Any]) -> Packing:
    """Whole numbers are mapped from the valid range to that of their slice; floating ones are as
    they are.
    """
    if native.kind == "f":
        return Packing(None, native)
    if native.kind not in "iu":
        raise ValueError(f"its elements are {native}, not whole or floating numbers")
    if image.low is None or image.high is None:
        raise ValueError("it has no image-min and image-max of its first axes")
    first, last = _valid_range(image, native)
    for name, bound in (("image-min", image.low), ("image-max", image.high)):
        extent = image.shape[: len(bound.dims)]
        if (
            bound.dims != image.dims[: len(bound.dims)]
            or bound.values.shape != extent
            or len(extent) >= len(image.shape)
        ):
            raise ValueError(f"its {name} is not one number per slice along its first axes")
        if bound.values.dtype.kind not in "iuf":
            raise ValueError(f"its {name} holds no numbers")
    if image.low.dims != image.high.dims:
        raise ValueError("its image-min and image-max have different dimensions")
    low, high = (
        bound.values.astype(bound.values.dtype.newbyteorder("="))
        for bound in (image.low, image.high)
    )
    with np.errstate(all="ignore"):
        slope = (high - low) / (last - first)
        inter = low - first * slope
    spread = (*low.shape, *(1,) * (len(image.shape) - low.ndim))
    slope, inter = (
        np.asarray(factor, np.float64).reshape(spread if low.ndim else ())
        for factor in (slope, inter)
    )
    return Packing(
        Scaling(slope[()], inter[()], clip=(float(first), float(last))), np.dtype(np.float64)
    )


def _valid_range(image: Image, native: np.dtype[Any]) -> tuple[np.float64, np.float64]:
    info = np.iinfo(native)
    ends = [
        _numbers(image.attributes, name, 1, (end,))
        for name, end in (("valid_min", info.min), ("valid_max", info.max))
    ]
    first, last = _numbers(image.attributes, "valid_range", 2, (ends[0][0], ends[1][0]))
    if not info.min <= first < last <= info.max:
        raise ValueError(f"its valid range from {first:g} to {last:g} is not one of {native}")
    return np.float64(first), np.float64(last)


def _numbers(
    said: Mapping[str, Any], name: str, size: int, default: Sequence[float] | None
) -> Array:
    """An attribute of so many finite numbers, as float64."""
    values = np.asarray(said.get(name, default or ()))
    if values.size != size or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise ValueError(f"its attribute {name} is not {show_count(size, 'finite number')}")
    return values.astype(np.float64).reshape(-1)
