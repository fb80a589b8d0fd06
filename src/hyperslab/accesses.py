"""Access and Accesses: what processes have asked of file systems, a row for each operation.

An access is named by what it asks of a file system, whichever call asks for it: opening what is
there is `open`, opening that makes a file is `create`. Whoever counts says by which way
(`Accesses.way`), as ways see different things: calls of programs, or what reaches a file system.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hyperslab.columns import number_column, places_of, word_column
from hyperslab.parquet import KEY, load_versioned

ACCESSES_VERSION = 1
FILE = "accesses.parquet"
"Name of the file that lies beside the trace of a run."

ON_DATA = ("read", "write", "map", "sync")
"Operations that move bytes, or make them lasting."
ON_NAMES = (
    *("open", "create", "stat", "list", "mkdir", "unlink", "rename", "link"),
    *("attributes", "truncate", "close"),
)
"Operations on names and attributes, which a metadata server answers."
OPERATIONS = (*ON_NAMES, *ON_DATA)
KNOWN = {name: number for number, name in enumerate(OPERATIONS)}


class Access(NamedTuple):
    """One operation, as whoever counts has seen it."""

    start_ns: int
    "Wall clock of this host."
    duration_ns: int
    "Time until it was answered, with what counting adds to it."
    process: int
    operation: str
    path: str
    "Path without links in its folder; '' where nobody knows it."
    nbytes: int
    "Bytes that it has read, written or mapped; 0 of all others."
    has_failed: bool


@dataclass(slots=True, eq=False)
class Accesses:
    """Accesses as columns: a row for each."""

    columns: dict[str, Any]
    """Arrays of NumPy by name: start_ns, duration_ns, process, nbytes; operation, a place in
    OPERATIONS; path, a place in `paths`; has_failed.
    """
    paths: list[str]
    way: str
    "How they were counted: bpf, strace, ..."
    meta: dict[str, Any] = field(default_factory=dict)
    "notes: what was not seen, in sentences; the command; when it began and ended."

    def __repr__(self) -> str:
        return f"<hyperslab.Accesses: {len(self):,} operations, by {self.way}>"

    def __len__(self) -> int:
        return len(self.columns["operation"])

    def save(self, path: Path) -> None:
        """Write the rows as Parquet (zstd), everything else as JSON in the file's metadata."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        about = {"version": ACCESSES_VERSION, "way": self.way, "meta": self.meta}
        each = self.columns
        table = pa.table(
            {
                "start_ns": number_column(each["start_ns"], pa.int64()),
                "duration_ns": number_column(each["duration_ns"], pa.int64()),
                "process": number_column(each["process"], pa.int32()),
                "operation": word_column(each["operation"].astype("i4"), list(OPERATIONS)),
                "path": word_column(each["path"], self.paths),
                "nbytes": number_column(each["nbytes"], pa.int64()),
                "has_failed": number_column(each["has_failed"], pa.int8()),
            }
        )
        told = table.replace_schema_metadata({KEY: json.dumps(about)})
        with path.open("wb") as file:  # Arrow takes no path that is not UTF-8
            pq.write_table(told, file, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Accesses:
        """Read back what `save` wrote. Raises ValueError for accesses of a newer version."""
        table, about = load_versioned(path, "accesses", ACCESSES_VERSION)
        paths: dict[str, int] = {}
        columns = {name: table[name].to_numpy() for name in _PLAIN}
        columns["operation"] = places_of(table["operation"], dict(KNOWN)).astype("i1")
        columns["path"] = places_of(table["path"], paths)
        return cls(columns, list(paths), about["way"], about["meta"])


_COLUMNS = {
    "start_ns": "q",
    "duration_ns": "q",
    "process": "i",
    "operation": "b",
    "path": "i",
    "nbytes": "q",
    "has_failed": "b",
}
"Columns, and the codes of their types in `array`."
_PLAIN = ("start_ns", "duration_ns", "process", "nbytes", "has_failed")


class Collected:
    """Accesses while they come in."""

    def __init__(self) -> None:
        self._columns = {name: array(code) for name, code in _COLUMNS.items()}
        self._paths: dict[str, int] = {}

    def add(self, access: Access) -> None:
        """Keep one more."""
        place = self._paths.setdefault(access.path, len(self._paths))
        each = self._columns
        each["start_ns"].append(access.start_ns)
        each["duration_ns"].append(access.duration_ns)
        each["process"].append(access.process)
        each["operation"].append(KNOWN[access.operation])
        each["path"].append(place)
        each["nbytes"].append(access.nbytes)
        each["has_failed"].append(access.has_failed)

    def done(self, way: str, meta: Mapping[str, Any]) -> Accesses:
        """All that came in."""
        import numpy as np

        columns = {
            name: np.array(column, column.typecode) for name, column in self._columns.items()
        }
        return Accesses(columns, list(self._paths), way, dict(meta))


class Window(NamedTuple):
    """A time of a run that has a name, such as the map tasks of a stage."""

    name: str
    start_ns: int
    "Wall clock."
    end_ns: int


@dataclass(frozen=True, slots=True)
class Count:
    """What one operation came to."""

    requested: int
    failed: int | None
    "Number of those that were refused; None where nobody can say."
    nbytes: int
    seconds: float | None
    "Time until they were answered, of all threads together; None where nobody has measured it."

    @property
    def actual(self) -> int:
        """Number of operations that were done."""
        return self.requested - (self.failed or 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """Operations of which only sums are known."""

    way: str
    place: str
    "Directory or process that they are of, as people read it."
    operations: dict[str, Count]
    notes: tuple[str, ...] = ()
