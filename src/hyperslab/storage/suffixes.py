"""Suffixes: ends of the names of array files."""

from __future__ import annotations

SUFFIXES: dict[str, str] = {
    ".nii": "nifti",
    ".nii.gz": "nifti",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".he5": "hdf5",
    ".nc": "hdf5",
    ".nc4": "hdf5",
    ".cdf": "hdf5",
    ".mnc": "hdf5",
    ".zarr": "zarr",
}
"Suffixes of array files and the format in which such a file is written; a longer one wins."


def suffix_of(path: str) -> str | None:
    """The longest of the suffixes above in which a name ends, or None."""
    matches = [suffix for suffix in SUFFIXES if path.lower().endswith(suffix)]
    return max(matches, key=len, default=None)
