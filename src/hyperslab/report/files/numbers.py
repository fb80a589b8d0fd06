"""Numbers of operations on files: by directory, by kind of file, by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hyperslab.accesses import OPERATIONS, Accesses, Count, Totals, Window
from hyperslab.report.files.phases import Words, phases_of

BY = ("directory", "kind", "phase")
"What operations can be grouped by."
PlaceOf = Callable[[str, bool, bool, bool], tuple[str, str]]
"Kind and directory of a path: was it written, opened, is it a directory?"
_WRITING = np.array([OPERATIONS.index(one) for one in ("create", "write", "truncate", "rename")])
_OPENING = OPERATIONS.index("open")
_OF_DIRECTORIES = np.array([OPERATIONS.index(one) for one in ("list", "mkdir")])


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that have something in common."""

    names: dict[str, str]
    "What they have in common: directory, kind, phase, as far as it was asked for."
    files: int | None
    "Number of different paths; None where nobody knows it."
    operations: dict[str, Count]
    "Operations that there were, in the order of OPERATIONS."

    def requested(self, *names: str) -> int:
        """Number of such operations, refused ones too; of all, if none is named."""
        chosen = names or self.operations
        return sum(self.operations[name].requested for name in chosen if name in self.operations)

    def actual(self, name: str) -> int:
        """Number of such operations that were done."""
        count = self.operations.get(name)
        return count.actual if count is not None else 0

    def nbytes(self, name: str) -> int:
        """Bytes of such operations."""
        count = self.operations.get(name)
        return count.nbytes if count is not None else 0

    def seconds(self, *names: str) -> float | None:
        """Time of such operations; of all, if none is named. None where it is not known."""
        chosen = names or self.operations
        times = [self.operations[name].seconds for name in chosen if name in self.operations]
        known = [one for one in times if one is not None]
        if times and not known:
            return None
        return sum(known)


@dataclass(frozen=True, slots=True)
class FileNumbers:
    """The operations of a command or a run as numbers."""

    way: str
    "How they were counted."
    total: Group
    groups: tuple[Group, ...]
    "Groups that take most time first, or that have most operations."
    seconds: float | None
    "Wall time in which they were counted."
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> FileNumbers:
        """Numbers of such a record."""
        groups = tuple(_read_group(one) for one in record["groups"])
        total = _read_group(record["total"])
        return cls(record["way"], total, groups, record["seconds"], tuple(record["notes"]))


def _read_group(record: Mapping[str, Any]) -> Group:
    operations = {name: Count(**one) for name, one in record["operations"].items()}
    return Group(record["names"], record["files"], operations)


def numbers_of(
    accesses: Accesses, place_of: PlaceOf, by: Sequence[str], windows: Sequence[Window] = ()
) -> FileNumbers:
    """Count accesses by what they have in common."""
    kinds, directories = _places(accesses, place_of)
    paths = accesses.columns["path"]
    columns = {"directory": directories.at(paths), "kind": kinds.at(paths)}
    if "phase" in by:
        columns["phase"] = phases_of(accesses, columns["kind"], windows)
    chosen = [columns[name] for name in by]
    groups = [
        _group(accesses, rows, dict(zip(by, names, strict=True)))
        for names, rows in _apart(chosen, len(accesses))
    ]
    groups.sort(key=lambda one: (-(one.seconds() or 0.0), -one.requested()))
    return FileNumbers(
        way=accesses.way,
        total=_group(accesses, slice(None), {}),
        groups=tuple(groups),
        seconds=_elapsed_s(accesses.meta),
        notes=tuple(accesses.meta.get("notes", ())),
    )


def numbers_of_totals(totals: Totals) -> FileNumbers:
    """The same of operations of which only sums are known."""
    total = Group({}, None, totals.operations)
    group = Group({"directory": totals.place}, None, totals.operations)
    return FileNumbers(totals.way, total, (group,), None, totals.notes)


def _elapsed_s(meta: dict[str, Any]) -> float | None:
    if "end_ns" not in meta:
        return None
    return float(meta["end_ns"] - meta["start_ns"]) / 1e9


def _places(accesses: Accesses, place_of: PlaceOf) -> tuple[Words, Words]:
    """Kind and directory of every path."""
    each = accesses.columns
    number = len(accesses.paths)
    done = each["has_failed"] == 0

    def seen(operations: Any) -> Any:
        rows = done & np.isin(each["operation"], operations)
        return np.bincount(each["path"][rows], minlength=number) > 0

    facts = zip(accesses.paths, seen(_WRITING), seen(_OPENING), seen(_OF_DIRECTORIES), strict=True)
    found = [place_of(path, *(bool(fact) for fact in rest)) for path, *rest in facts]
    kinds = Words.of([kind for kind, _ in found])
    return kinds, Words.of([directory for _, directory in found])


def _apart(columns: Sequence[Words], number: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Rows that say the same in all columns, with what they say."""
    if not number:
        return
    codes = np.zeros(number, np.int64)
    for column in columns:
        codes = codes * len(column.words) + column.numbers
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for rows in np.split(order, ends):
        yield tuple(column.words[column.numbers[rows[0]]] for column in columns), rows


def _group(accesses: Accesses, rows: Any, names: dict[str, str]) -> Group:
    each = {name: column[rows] for name, column in accesses.columns.items()}
    codes = each["operation"]
    size = len(OPERATIONS)
    counts = np.bincount(codes, minlength=size)
    failed = np.bincount(codes, weights=each["has_failed"], minlength=size)
    nbytes = np.bincount(codes, weights=each["nbytes"], minlength=size)
    times = np.bincount(codes, weights=each["duration_ns"], minlength=size)
    operations = {
        name: Count(int(counts[n]), int(failed[n]), int(nbytes[n]), float(times[n]) / 1e9)
        for n, name in enumerate(OPERATIONS)
        if counts[n]
    }
    return Group(names, len(np.unique(each["path"])), operations)
