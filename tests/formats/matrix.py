"""What the feature matrices of all formats share: rows, the ways by which datasets are read, and
what to compare with.

A row is a kind of dataset, how to make one, and how it is read. `test_matrix` tests every row of
every format, and `page` writes docs/formats.md from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.reading import gzipindex, ways

Way = Literal["chunk table", "index", "spans", "h5py", "nibabel", "zarr", "refused"]
WAYS: dict[Way, str] = {
    "chunk table": (
        "tasks read and decode the stored bytes themselves, by a table of where they lie"
    ),
    "index": (
        "tasks enter a gzip file at the nearest of many points, which one pass over the file has"
        " found"
    ),
    "spans": "tasks read whole spans of a file, in which the values lie among others",
    "h5py": "tasks read through h5py, for the reason given",
    "nibabel": "tasks inflate the whole of a gzip file, through nibabel, for the reason given",
    "zarr": "tasks read and decode chunk files through zarr-python's codecs, without its metadata",
    "refused": "cannot be read; the reason is the error message",
}
_LIBRARIES: dict[str, Way] = {"hdf5": "h5py", "netcdf": "spans", "nifti": "nibabel", "zarr": "zarr"}

Expected = Callable[[str, Values], Array]
"All values at PATH::DATASET as the format's own library reads them."


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of dataset."""

    group: str
    name: str
    make: Callable[[Path], None]
    "Rows that share it share the file."
    way: Way = "chunk table"
    reason: str = ""
    "Words of the reason for another way than the chunk table."
    index: str = ""
    "By what HDF5 finds the chunks."
    real: str = ""
    "What the real values are, in words; '' where they are the stored ones."
    unscalable: str = ""
    "Words of the reason why there are no real values."
    arrays: tuple[str, ...] = ()
    "Names of the datasets in the file; () for the one name that the format's rows have."
    suffix: str = ""
    "Of the file; '' for the one that the format's rows have."
    expected: Expected | None = None
    """Where the format's library is not what ours has to equal: the reason is in the name or in
    `real`.
    """
    shown: str = ""
    "Name in the table where that is one for several rows."
    repeats: str = ""
    "Point that other rows make as well (tests/repetitions.py)."


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows of a format."""

    title: str
    rows: Callable[[], list[Row]]
    suffix: str
    array: str
    "Name of the dataset in the files of most rows."
    expected: Expected
    dims: Callable[[str], tuple[str, ...]] | None = None
    "Names of the axes at PATH::DATASET, where the format's library knows them."
    affine: Callable[[str], Array] | None = None
    "Voxel indices to millimetres, where the format's library knows it."

    def urls(self, row: Row, path: Path) -> list[str]:
        """PATH::DATASET of all that a row speaks of."""
        return [f"{path}::{name}" if name else str(path) for name in row.arrays or (self.array,)]


def opened(url: str) -> ArraySource:
    """A source as a run has it: a gzip file that is large enough is indexed."""
    source = formats.open_source(url)
    return gzipindex.indexed(source)


def way_of(source: ArraySource) -> Way:
    """By which way tasks read a source."""
    way = ways.way_of(source)
    if way.uses_library:
        return _LIBRARIES[source.format]
    return "index" if way.name == "gzip" else "chunk table"
