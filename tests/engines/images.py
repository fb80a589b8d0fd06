"""Real images that every engine runs over."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

IMAGES = [
    f"{ROOT}/examples/data/colin27_ch2_T1w.nii.gz",
    f"{ROOT}/tests/data/mri/anatomical.nii",
    f"{ROOT}/tests/data/mri/functional.nii",
    f"{ROOT}/tests/data/mri/example_nifti2.nii.gz",
    f"{ROOT}/tests/data/hdf5/layout/h5repack_filters.h5::dset_all",
    f"{ROOT}/tests/data/hdf5/layout/h5repack_filters.h5::dset_deflate",
]
"""A compressed head, big-endian, four axes, NIfTI-2, and HDF5 that its library reads and that its
chunk table reads.
"""
