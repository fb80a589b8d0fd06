"""hyperslab.open: what it says of an array, and what it selects."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import numpy as np

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.comparison.selections import select

_SELECTIONS = 6


def described(case: Case) -> None:
    """Shape, names of axes and place are the library's."""
    dataset, ledger = case.dataset, case.ledger
    with ledger.attempt("open", case.folder, bool(case.refused)):
        view = hyperslab.open(dataset.url)
        for expected in case.expected.values():
            if view.shape != expected.shape:
                ledger.findings.append(f"open: its shape is {view.shape}, not {expected.shape}")
        if dataset.dims and view.dims != dataset.dims():
            ledger.findings.append(f"open: its axes are {view.dims}, not {dataset.dims()}")
        if dataset.affine and case.expected:
            _compare_affines(case, view)


def _compare_affines(case: Case, view: hyperslab.ArrayView) -> None:
    assert case.dataset.affine is not None
    try:
        expected = case.dataset.affine()
    except Exception:  # noqa: BLE001  # the library does not open the file: `unknown` says why
        return
    found = view.affine
    if found is None or not np.array_equal(
        found, expected, equal_nan=True
    ):  # a zero may have either sign
        said = f"{np.asarray(found).tolist()}, not {expected.tolist()}"
        case.ledger.findings.append(f"open: its affine is {said}")


def indexed(case: Case) -> None:
    """Stored and real values of random selections, also into memory that the caller has."""
    kinds: tuple[Values, ...] = get_args(Values)
    for values in kinds:
        with case.ledger.attempt(f"open, {values}", case.folder, values in case.refused):
            view = hyperslab.open(case.dataset.url, values)
            expected = case.expected.get(values)
            if expected is None:
                np.asarray(view)  # it may be refused, but not crash
            else:
                _compare(case, view, values, expected)


def _compare(case: Case, view: hyperslab.ArrayView, values: Values, expected: Array) -> None:
    # A library that masks puts its own NaN where another one was.
    masks = view.source.scaling is not None or case.dataset.kind.startswith(("netCDF", "Zarr"))
    any_nan = values == "real" and masks
    for _ in range(_SELECTIONS):
        selection = select(case.rng, expected.shape)
        part = selection.of(expected)
        if part.ndim and not part.dtype.hasobject and case.rng.random() < 0.2:
            out = _room(case.rng, part.shape, view.dtype)
            view.read(selection.parts, out)
            case.ledger.check(f"out, {values}", str(selection), unlike(out, part, any_nan), part)
        else:
            found = np.asarray(view[selection.parts], view.dtype)
            case.ledger.check(f"open, {values}", str(selection), unlike(found, part, any_nan), part)


def _room(rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Memory of this shape that lies in any order, backwards, or with gaps."""
    style = rng.randrange(4)
    if style == 0:
        return np.empty(shape, dtype, order="F")
    if style == 1:
        return np.empty(shape, dtype)[..., ::-1]
    if style == 2:
        wide = np.empty((*shape[:-1], 2 * shape[-1]), dtype)
        return wide[..., ::2]
    return np.empty(shape, dtype)
