"""Content: an image of one file as a string of bytes, for who is handed files whole."""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np

from hyperslab.arrays import Array

SUFFIXES = (".nii", ".nii.gz")
KNOWN_BY_NBYTES = 1024
"So much of a file tells which NIfTI it is."


class Content(NamedTuple):
    """What is in an image."""

    head: bytes
    "Everything before the values: header and extensions."
    values: Array
    "Numbers as stored, in memory of their own."


def decode(name: str, content: bytes) -> Content:
    """The image in the bytes of a file of this name. Raises nibabel's errors for what is none."""
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    stored = _kind(content).from_bytes(content).dataobj
    return Content(content[: stored.offset], np.array(stored.get_unscaled()))


def encode(name: str, image: Content) -> bytes:
    """The bytes of a file of this name; values have the shape and dtype that the header tells."""
    content = image.head + image.values.tobytes(order="F")
    if name.endswith(".gz"):
        return gzip.compress(content, compresslevel=1)
    return content


def _kind(content: bytes) -> Any:
    if nib.Nifti2Header.may_contain_header(content[:KNOWN_BY_NBYTES]):  # type: ignore[no-untyped-call]
        return nib.Nifti2Image
    return nib.Nifti1Image
