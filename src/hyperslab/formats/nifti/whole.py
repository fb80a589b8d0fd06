"""What the file of a block says of the image that it was cut from, in comments among a NIfTI
header's extensions.

NIfTI has no fields for it: the shape of the image, where the block begins along axes that no affine
places, and, in the block with the image's first voxel, the image's own header. The last is for
merging: cutting clears the times of slices of which some are elsewhere, and says the place of
images that had none.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.arrays.header import Header

_COMMENT_CODE = 6
_BLOCK_OF = b"hyperslab: a block of "
_BEGINS_AT = b"hyperslab: begins along the axes after the third at "
_HEADER_OF = b"hyperslab: header of the whole "
_OURS = (_BLOCK_OF, _BEGINS_AT, _HEADER_OF)
_FIRST_FURTHER = 3
GEOMETRY = (
    "pixdim",
    "sform_code",
    "qform_code",
    "srow_x",
    "srow_y",
    "srow_z",
    "quatern_b",
    "quatern_c",
    "quatern_d",
    "qoffset_x",
    "qoffset_y",
    "qoffset_z",
)
SLICES = ("slice_start", "slice_end", "slice_code", "slice_duration")


def whole_shape(raw: bytes) -> tuple[int, ...]:
    """Shape of the array that a block was cut from, by the bytes before its data; () where they do
    not say.
    """
    found = re.search(re.escape(_BLOCK_OF) + rb"((?:\d+ ?)+)", raw)
    if found:
        return tuple(map(int, found[1].split()))
    return ()


def corner(header: Any, raw: bytes) -> tuple[float, ...]:
    """Where a block begins along the axes after the third, in its voxels; () where nothing says so.

    Along the fourth that is the time of its first volume, where the header has one.
    """
    found = re.search(re.escape(_BEGINS_AT) + rb"((?:[-+.\de]+ ?)+)", raw)
    if found:
        return tuple(map(float, found[1].split()))
    return _first_volume(header)


def _first_volume(header: Any) -> tuple[float, ...]:
    step = float(header["pixdim"][4])
    first = float(header["toffset"])
    known = int(header["dim"][0]) > _FIRST_FURTHER and step > 0 and math.isfinite(first / step)
    if known:
        return (first / step,)
    return ()


def headers_of_wholes(parent: Any) -> list[bytes]:
    """The headers of what a block was cut from, and that from, and so on."""
    if parent is None:
        return []
    said = (
        extension.get_content()
        for extension in parent.extensions
        if extension.get_code() == _COMMENT_CODE
    )
    encoded = (text.removeprefix(_HEADER_OF) for text in said if text.startswith(_HEADER_OF))
    return [head for text in encoded if (head := _decoded(text))]


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text.rstrip(b"\0"), validate=True)
    except binascii.Error:  # somebody else's comment
        return b""


def begins_with(header: Header) -> bool:
    """Whether a block has the first voxel of the array that it is cut from, and all its voxels as
    they are.
    """
    return not any(header.origin) and all(step == 1 for step in header.step)


def say(built: Any, parent: Any, header: Header, wholes: Sequence[bytes]) -> None:
    """Give the header of a new file the comments, in place of those that came from its parent's
    file.
    """
    from nibabel.nifti1 import Nifti1Extension, Nifti1Extensions

    shape = built.get_data_shape()
    said = []
    if header.whole_shape:
        said = [_BLOCK_OF + " ".join(map(str, header.whole_shape)).encode()]
    place = _place(header, len(shape))
    if any(
        abs(a - b) > 0
        for a, b in itertools.zip_longest(place, _as_said(built, place), fillvalue=0.0)
    ):
        said.append(_BEGINS_AT + " ".join(f"{first:.17g}" for first in place).encode())
    kept = [whole for whole in wholes if begins_with(header)]
    own = []
    if parent is not None and header.whole_shape and begins_with(header):
        own = [parent.binaryblock]
    said += [_HEADER_OF + base64.b64encode(whole) for whole in dict.fromkeys([*kept, *own])]
    others = without_comments(built.extensions)
    built.extensions = Nifti1Extensions(
        [*others, *(Nifti1Extension(_COMMENT_CODE, text) for text in said)]
    )


def without_comments(extensions: Any) -> Any:
    """The extensions that are not of this module."""
    return type(extensions)(
        e
        for e in extensions
        if not (e.get_code() == _COMMENT_CODE and e.get_content().startswith(_OURS))
    )


def _place(header: Header, ndim: int) -> tuple[float, ...]:
    """Where a block begins along the axes after the third, in the array that was cut first."""
    further = max(0, ndim - _FIRST_FURTHER)
    origin: tuple[float, ...] = ()
    if len(header.origin) == ndim:
        origin = header.origin[_FIRST_FURTHER:]
    pairs = itertools.zip_longest(header.corner[:further], origin, fillvalue=0.0)
    return tuple(first + more for first, more in pairs)


def _as_said(built: Any, place: Sequence[float]) -> tuple[float, ...]:
    """The same by the header's fields, which round it."""
    said = _first_volume(built)
    is_near = bool(said and place) and math.isclose(said[0], place[0], rel_tol=1e-6, abs_tol=1e-6)
    if is_near:
        return tuple(place[:1])
    return said


def restore(built: Any, parent: Any, as_cut: Any, whole: Any) -> None:
    """Give a merged image what its header had before it was cut, but for what somebody has changed
    since.

    `as_cut` is what the header of the `whole` becomes in the block that the parent's was of.
    """
    for fields in (GEOMETRY, SLICES):
        if all(np.array_equal(parent[name], as_cut[name], equal_nan=True) for name in fields):
            for name in fields:
                built[name] = whole[name]
