"""NIfTI headers of arrays that have other axes than the image that they were made of, such as a map
of a time series.

What the fields say of axes that are gone goes with them: sizes, the unit and the first moment of
time, the order and times of slices. So does what they say of the values: intent, range for display.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.arrays.header import Header
from hyperslab.formats.nifti.whole import SLICES, without_comments

_SPACE = 0x07
"Bits of xyzt_units that hold the unit of space (nifti1.h)."
_TIME = 3
_OF_VALUES = ("intent_code", "intent_p1", "intent_p2", "intent_p3", "cal_min", "cal_max")


def changed(blank: Any, parent: Any, header: Header) -> Any:
    """The parent's header, copied to `blank`, as it would be of an image with the header's axes."""
    axes = header.axes
    assert axes is not None
    shape = axes.shape(parent.get_data_shape())
    keeps_space = axes.kept[:_TIME] == tuple(range(_TIME))
    blank.set_data_shape(shape)
    blank["pixdim"] = _sizes(parent, header, keeps_space)
    forget_values(blank)
    if axes.told[_TIME : _TIME + 1] != (_TIME,):
        _forget_time(blank)
    if not keeps_space:
        _move_space(blank, parent, header)
    blank.extensions = without_comments(parent.extensions)
    return blank


def forget_values(header: Any) -> None:
    """Clear what a header says of its image's values."""
    for name in _OF_VALUES:
        header[name] = 0
    header["intent_name"] = b""


def _sizes(parent: Any, header: Header, keeps_space: bool) -> Any:
    from nibabel.affines import voxel_sizes

    assert header.axes is not None
    known = np.array(parent["pixdim"], np.float64)
    sizes = np.ones(8)
    sizes[0] = known[0]
    if keeps_space:
        sizes[1 : _TIME + 1] = known[1 : _TIME + 1]
    elif header.base_affine is not None:
        sizes[1 : _TIME + 1] = voxel_sizes(header.base_affine)  # type: ignore[no-untyped-call]
    placed = _TIME
    if header.base_affine is None:
        placed = 0
    for position, axis in enumerate(header.axes.told[placed:], placed + 1):
        if axis is not None:
            sizes[position] = known[axis + 1]
    return sizes


def _forget_time(blank: Any) -> None:
    """Clear the unit and the first moment of time, and when slices were acquired."""
    blank["xyzt_units"] = int(blank["xyzt_units"]) & _SPACE
    blank["toffset"] = 0
    for name in SLICES:
        blank[name] = 0


def _move_space(blank: Any, parent: Any, header: Header) -> None:
    """Say the place by an sform alone; which axes the scanner encoded is no longer known."""
    code = int(parent["sform_code"]) or int(parent["qform_code"])
    blank["dim_info"] = 0
    blank["qform_code"] = 0
    blank["sform_code"] = 0
    if header.base_affine is None:
        blank["xyzt_units"] = int(blank["xyzt_units"]) & ~_SPACE & 0xFF
    elif code:
        blank.set_sform(header.base_affine, code)
