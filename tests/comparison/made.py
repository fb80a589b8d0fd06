"""A dataset that a generator has made, and everything that is known of it without hyperslab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values

Reference = Callable[[Values], Array]
"All values, stored or real, as the format's own library reads them."
Change = Callable[[Path, Sequence[tuple[int, ...]], Array], None]
"Put these values at these positions of a copy of the file, through the format's own library."


class NotMade(Exception):
    """A library that refuses to make what was drawn; the text is its own reason."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One array in a file of its own."""

    kind: str
    "Kind of file: the row of the table."
    path: Path
    name: str
    "Path of the dataset in the file; '' where a file is one array."
    said: str
    "How it was made, in words."
    reference: Reference
    known: Array | None = None
    """Stored values by construction, in native byte order; None where a library changes what it is
    given.
    """
    engine: str = ""
    "Engine of xarray that opens the file, too; '' for none."
    dims: Callable[[], tuple[str, ...]] | None = None
    "Names of the axes by the format's library."
    affine: Callable[[], Array] | None = None
    "Voxel indices to millimetres by the format's library."
    change: Change | None = None
    "None where no copy of the file can be changed in this way."
    is_copied_whole: bool = True
    "Whether a copy of `path` alone holds the values."

    @property
    def url(self) -> str:
        return f"{self.path}::{self.name}" if self.name else str(self.path)
