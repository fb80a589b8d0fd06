"""The head of Colin27 as other scanners and programs might have stored it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np

from hyperslab.arrays import Array
from tests.system.end_to_end.command import MRI, ROOT, affine_of, values_of

HEAD = ROOT / "examples" / "data" / "colin27_ch2_T1w.nii.gz"
BRAIN = MRI / "colin27_ch2bet_brain.nii.gz"
"The same head after FSL's bet, in the version that Debian ships."


class Head(NamedTuple):
    """A version of the head, and the brain that FSL has found, seen in its voxels."""

    path: Path
    reference: Array


def two_millimetres(folder: Path) -> Head:
    """Means of eight voxels, in an uncompressed file of 16 bits."""
    scale = np.diag([2.0, 2.0, 2.0, 1.0])
    scale[:3, 3] = 0.5
    values, reference = (_means(values_of(path), (2, 2, 2)) for path in (HEAD, BRAIN))
    return _save(folder / "2mm.nii", values.astype(np.int16), affine_of(HEAD) @ scale, reference)


def anisotropic(folder: Path) -> Head:
    """Slices of 3 mm, in floating point."""
    scale = np.diag([1.0, 1.0, 3.0, 1.0])
    scale[2, 3] = 1.0
    values, reference = (_means(values_of(path), (1, 1, 3)) for path in (HEAD, BRAIN))
    path = folder / "slices.nii.gz"
    return _save(path, values.astype(np.float32), affine_of(HEAD) @ scale, reference)


def big_endian_and_turned(folder: Path) -> Head:
    """Sagittal slices from left to right, other byte order, a tilted head, slope and intercept: as
    2 mm, as that takes less time.
    """
    head = two_millimetres(folder)
    values, affine = values_of(head.path), affine_of(head.path)
    turned = np.ascontiguousarray(values.transpose(1, 2, 0)[:, ::-1, ::-1])
    to_old = np.zeros((4, 4))
    to_old[0, 2], to_old[1, 0], to_old[2, 1] = -1, 1, -1
    to_old[:, 3] = values.shape[0] - 1, 0, values.shape[2] - 1, 1
    angle = np.deg2rad(15)
    tilt = np.eye(4)
    tilt[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    library: Any = nib  # which is typed in part
    header = library.Nifti1Header(endianness=">")
    header.set_slope_inter(2.0, 10.0)
    path = folder / "turned.nii.gz"
    library.Nifti1Image(turned.astype(">i2"), tilt @ affine @ to_old, header).to_filename(path)
    return Head(path, head.reference.transpose(1, 2, 0)[:, ::-1, ::-1])


def _means(values: Array, factors: tuple[int, int, int]) -> Array:
    """Means of boxes of voxels; what is left over at the ends is cut off."""
    sizes = [length // factor for length, factor in zip(values.shape, factors, strict=True)]
    cut = values[tuple(slice(n * f) for n, f in zip(sizes, factors, strict=True))]
    pairs = [number for pair in zip(sizes, factors, strict=True) for number in pair]
    return np.asarray(cut.reshape(pairs).mean(axis=(1, 3, 5)))


def _save(path: Path, values: Array, affine: Array, reference: Array) -> Head:
    nib.save(nib.Nifti1Image(values, affine), path)  # type: ignore[no-untyped-call]
    return Head(path, reference > 0)
