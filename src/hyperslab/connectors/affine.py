"""The affine of an image in xarray, as it is and after it was cut: `image.hyperslab.affine`.

The attribute `affine` is that of the whole image in its file, as 16 numbers row by row, since
netCDF files hold no matrices; it stays as it is whatever is selected. Where the voxels of a part
are, its coordinates say.
"""

from __future__ import annotations

import numpy as np
import xarray

from hyperslab.arrays import Array
from hyperslab.arrays.header import OF_SPACE, WORLD
from hyperslab.errors import UsageError
from hyperslab.formats.netcdf.uncut import affine_here, uncut_of
from hyperslab.formats.netcdf.variables import Coordinate


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
        uncut = uncut_of({str(name): value for name, value in image.attrs.items()})
        if uncut is None:
            raise UsageError("the array has no affine: open an image with engine='hyperslab'")
        extents = {str(dim): image.sizes[dim] for dim in image.dims if str(dim) in OF_SPACE}
        if len(extents) != len(WORLD):
            raise UsageError(
                f"the array has {len(extents)} axes of space ({', '.join(extents) or 'none'}), and"
                " an affine needs 3: select a range, as x=slice(30, 31), instead of one place"
            )
        coordinates = {
            dim: Coordinate(dim, np.asarray(image.coords[dim]), image.coords[dim].attrs)
            for dim in extents
            if dim in image.coords
        }
        return affine_here(uncut, extents, coordinates)
