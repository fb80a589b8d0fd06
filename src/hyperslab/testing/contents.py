"""What files hold, written and read by the formats' own libraries, for the suite of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.driver.result import Result

AFFINE = np.array([[-0.7, 0.1, 0, 31], [0, 0.9, -0.2, -12.5], [0.05, 0, 1.3, 7], [0, 0, 0, 1]])
"The affine of images that the suite writes."
_ADDRESSES = {"DIMENSION_LIST", "REFERENCE_LIST"}
"Attributes that point to other datasets, wherever these lie in the file."


def save(values: Array, path: Path) -> None:
    """Write a NIfTI image."""
    nib.save(nib.Nifti1Image(values, AFFINE), path)  # type: ignore[no-untyped-call]


def only_output(result: Result) -> Path:
    """The one file of a run that has succeeded."""
    assert result.ok, result.failures
    (path,) = result.outputs
    return path


def require_match(expected: str, message: str) -> None:
    """Fail, and say how they differ, where a message does not match."""
    with pytest.raises(RuntimeError, match=expected):
        raise RuntimeError(message)


def values_of(path: str | Path) -> Array:
    """Values of a NIfTI image, as nibabel reads them."""
    return np.asanyarray(nib.load(path).dataobj)  # type: ignore[attr-defined]


def affine_of(path: str | Path) -> Array:
    """Affine of a NIfTI image, as nibabel reads it."""
    return np.asarray(nib.load(path).affine)  # type: ignore[attr-defined]


def reference_values(url: str) -> Array:
    """Values of PATH or PATH::DATASET, as nibabel or h5py reads them."""
    path, dataset = formats.split_url(url)
    if not dataset:
        return values_of(path)
    import h5py

    with h5py.File(path) as file:
        return np.asarray(file[dataset])


def content_of(path: Path) -> bytes:
    """The bytes of a file; for HDF5, which need not repeat them, the values and the attributes."""
    if path.suffix != ".h5":
        return path.read_bytes()
    import h5py

    with h5py.File(path) as file:
        return b"".join(_said(dataset) for dataset in file.values())


def _said(dataset: Any) -> bytes:
    """The values of a dataset of HDF5, and what is said of them."""
    attributes = {}
    for name in sorted(set(dataset.attrs) - _ADDRESSES):
        attributes[name] = np.asarray(dataset.attrs[name]).tolist()
    about = repr((dataset.name, dataset.shape, dataset.dtype, attributes))
    return np.asarray(dataset).tobytes() + about.encode()
