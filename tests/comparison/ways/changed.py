"""hyperslab.diff: of a copy of which some elements were changed, exactly these differ."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hyperslab
from hyperslab.arrays import Array
from tests.comparison import draws
from tests.comparison.cases import Case


def found(case: Case) -> None:
    dataset, known = case.dataset, case.dataset.known
    if (
        dataset.change is None
        or not dataset.is_copied_whole
        or known is None
        or not known.size
        or known.dtype.names
    ):
        return
    places = draws.positions(case.rng, known.shape) if draws.chance(case.rng, 0.8) else []
    new = draws.values(case.rng, (len(places),), known.dtype)
    copy = _copied(case)
    try:
        dataset.change(copy, places, new)
    except Exception as error:  # noqa: BLE001  # libraries raise anything
        case.ledger.unknown[f"diff: {type(error).__name__}"] += 1
        return
    expected = [
        place for place, value in zip(places, new, strict=True) if not _equal(known[place], value)
    ]
    with case.ledger.attempt("diff", case.folder, bool(case.refused)):
        (pair,) = hyperslab.diff(
            dataset.url, _renamed(case, copy), values="stored", threads=1
        ).pairs
        if pair.values is None:
            case.ledger.findings.append(f"diff: it compared no values: {pair}")
            return
        first = None if pair.values.first is None else pair.values.first.index
        said = _unlike(pair.values.differing, first, expected)
        case.ledger.check("diff", f"{places} changed", said, known)
        if pair.headers:
            case.ledger.findings.append(f"diff: headers differ: {pair.headers}")


def _copied(case: Case) -> Path:
    path = case.dataset.path
    folder = case.folder / "copy"
    folder.mkdir()
    copy = folder / path.name
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copy(path, copy)
    return copy


def _renamed(case: Case, copy: Path) -> str:
    return f"{copy}::{case.dataset.name}" if case.dataset.name else str(copy)


def _equal(one: Array, other: Array) -> bool:
    """As diff has it: the same number, or both NaN."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _unlike(count: int, first: tuple[int, ...] | None, expected: Sequence[tuple[int, ...]]) -> str:
    if count != len(expected):
        return f"{count} elements are said to differ, not {len(expected)}"
    if expected and first != min(expected):
        return f"the first is said to be {first}, not {min(expected)}"
    return ""
