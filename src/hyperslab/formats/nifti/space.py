"""Space in NIfTI headers: sform and qform of a block that was cut from an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import apart, tolerance
from hyperslab.arrays.header import Header

_ALIGNED_CODE = 2


def place(built: Any, parent: Any | None, header: Header) -> None:
    """Move sform and qform, each with its code; without either, say the parent's affine as an
    sform.

    An array without an affine gets neither, nor does a region of one that has no place; only blocks
    that are to be merged again count their place in voxels.
    """
    is_numbered = parent is None and header.is_unplaced_region
    if is_numbered or (header.base_affine is None and not header.whole_shape):
        built["sform_code"] = 0
        built["qform_code"] = 0
        return
    motion = header.motion()
    shifts = type(built) is type(parent) and np.array_equal(motion[:3, :3], np.eye(3))
    if shifts and _shift_space(built, parent, header):
        return
    sform, sform_code = None, 0
    qform, qform_code = None, 0
    if parent is not None:
        sform, sform_code = parent.get_sform(coded=True)
        qform, qform_code = _qform_of(parent)
    if not sform_code and not qform_code:
        sform = header.base_affine
        if sform is None:
            sform = np.eye(4)
        sform_code = _ALIGNED_CODE
    if sform is not None and sform_code:
        built.set_sform(header.placing(sform), int(sform_code))
    if qform is None or not qform_code:
        built["qform_code"] = 0
        return
    placed = header.placing(qform)
    if not _set_qform(built, placed, int(qform_code)) and not sform_code:
        built.set_sform(placed, int(qform_code))


def _qform_of(parent: Any) -> tuple[Array | None, int]:
    """The qform and its code; none where its numbers are no rotation, which an image with an sform
    may have.
    """
    from nibabel.spatialimages import HeaderDataError

    try:
        qform, code = parent.get_qform(coded=True)
    except (HeaderDataError, ValueError):
        return None, 0
    if qform is None or not np.isfinite(qform).all():
        return None, 0
    return qform, int(code)


def _shift_space(built: Any, parent: Any, header: Header) -> bool:
    """Move sform and qform, copied from the parent, by their offsets alone; False where none is to
    be moved.
    """
    motion = header.motion()
    if not motion[:3, 3].any():
        same = np.array_equal(
            built["dim"][1:4], parent["dim"][1:4]
        )  # without a form, the middle is at 0 mm
        return bool(same or parent["sform_code"] or parent["qform_code"])
    if parent["sform_code"]:
        offsets = header.placing(parent.get_sform())[:3, 3]
        for name, offset in zip(("srow_x", "srow_y", "srow_z"), offsets, strict=True):
            built[name][3] = offset
    qform, qform_code = _qform_of(parent)
    if qform is None or not qform_code:
        built["qform_code"] = 0
    else:
        offsets = header.placing(qform)[:3, 3]
        for name, offset in zip(("qoffset_x", "qoffset_y", "qoffset_z"), offsets, strict=True):
            built[name] = offset
    return bool(parent["sform_code"] or built["qform_code"])


def _set_qform(built: Any, affine: Array, code: int) -> bool:
    """Set the qform if its float32 quaternion can hold the affine: close to half a turn it cannot
    hold every angle.
    """
    sizes = np.array(built["pixdim"])
    built.set_qform(affine, code)
    shape = [int(n) for n in built["dim"][1:4]]
    if apart(built.get_qform(), affine, shape) <= tolerance(affine, shape):
        return True
    built["qform_code"] = 0
    built["pixdim"] = sizes
    return False


def orientation(affine: Array) -> str:
    """Where the axes of an image run, such as RAS: to the right, to the front, upwards; ??? where
    the affine does not say.
    """
    if not np.isfinite(affine).all():
        return "???"
    from nibabel.orientations import aff2axcodes

    codes = aff2axcodes(affine)  # type: ignore[no-untyped-call]
    return "".join(code or "?" for code in codes)


def is_assumed(attributes: Mapping[str, Any]) -> bool:
    """Whether the file that these attributes are of says no place of its image, for which readers
    then take one around its middle: neither by an sform nor by a qform.
    """
    codes = [attributes.get(name) for name in ("sform_code", "qform_code")]
    return codes == [0, 0]
