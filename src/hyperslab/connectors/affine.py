"""The affine of an image in xarray, as it is and after it was cut: `image.hyperslab.affine`.

The attribute `affine` is that of the whole image in its file, as 16 numbers row by row, since
netCDF files hold no matrices; it stays as it is whatever is selected. Where the voxels of a part
are, its coordinates say.
"""

from __future__ import annotations

import numpy as np
import xarray

from hyperslab.arrays import Array
from hyperslab.arrays.header import SPACE as MINC
from hyperslab.errors import UsageError
from hyperslab.formats.netcdf.coordinates import SPACE, VOXELS

_DECIMALS = 6
"Decimals of numbers of voxels, which are whole, or halves after averaging."


@xarray.register_dataarray_accessor("hyperslab")
class Placed:
    """What hyperslab says of an image that its engine has opened."""

    def __init__(self, image: xarray.DataArray) -> None:
        self._image = image

    @property
    def affine(self) -> Array:
        """(4, 4) float64: indices along the axes of space, in the order in which the array has
        them, to millimetres.

        Raises UsageError where the array has no affine, lacks an axis of space, or is not evenly
        spaced along one.
        """
        image = self._image
        if np.size(image.attrs.get("affine", ())) != len(np.eye(4).flat):
            raise UsageError("the array has no affine: open an image with engine='hyperslab'")
        whole = np.reshape(np.asarray(image.attrs["affine"], np.float64), (4, 4))
        dims = [str(dim) for dim in image.dims if str(dim) in {*SPACE, *VOXELS, *MINC}]
        if len(dims) != len(SPACE):
            raise UsageError(
                f"the array has {len(dims)} axes of space ({', '.join(dims) or 'none'}), and an"
                " affine needs 3: select a range, as x=slice(30, 31), instead of one place"
            )
        motion = np.zeros((4, 4))
        motion[3, 3] = 1
        for column, dim in enumerate(dims):
            axis, numbers = _voxels(image, dim, whole)
            first, step = _spaced(dim, numbers)
            motion[axis, column] = step
            motion[axis, 3] = first
        found: Array = whole @ motion
        return found


def _voxels(image: xarray.DataArray, dim: str, affine: Array) -> tuple[int, Array]:
    """The axis of the whole image that a dimension is of, and the numbers of its voxels along
    it.
    """
    if dim not in image.coords:
        raise UsageError(f"the array has no coordinates along {dim}: open the image again")
    places = np.asarray(image.coords[dim], np.float64)
    if dim in VOXELS:
        return VOXELS.index(dim), places
    if dim in SPACE:
        along = SPACE.index(dim)
        axis = int(np.argmax(np.abs(affine[along, :3])))
        return axis, (places - affine[along, 3]) / affine[along, axis]
    said = image.coords[dim].attrs
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    turned = said["direction_cosines"] @ affine[:3, :3] / lengths
    return int(np.argmax(np.abs(turned))), (places - said["start"]) / said["step"]


def _spaced(dim: str, numbers: Array) -> tuple[float, float]:
    """The first number and the step. Raises UsageError where they are not evenly spaced."""
    numbers = np.round(numbers, _DECIMALS)
    if not numbers.size:
        raise UsageError(f"the array has no elements along {dim}")
    steps = np.unique(np.round(np.diff(numbers), _DECIMALS))
    if steps.size > 1:
        raise UsageError(f"the array is not evenly spaced along {dim}, so it has no affine")
    step = 1.0
    if steps.size:
        step = float(steps[0])
    return float(numbers[0]), step
