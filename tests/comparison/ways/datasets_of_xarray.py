"""xarray.open_dataset: the variables are those that xarray's other engines give."""

from __future__ import annotations

from typing import Any

import xarray

from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.connectors.opened import RAW, ours, theirs

_WAYS: tuple[dict[str, Any], ...] = ({}, {"mask_and_scale": False}, RAW)


def opened(case: Case) -> None:
    """Of netCDF files all variables as decoded by xarray, of other files the stored values."""
    if case.dataset.engine == "netcdf4":
        _compare_engines(case)
    elif case.dataset.engine and "stored" in case.expected:
        _compare_values(case)


def _compare_engines(case: Case) -> None:
    folder, _, _ = case.dataset.name.strip("/").rpartition("/")
    options = {**case.rng.choice(_WAYS), "group": folder or None}
    try:
        expected = theirs(case.dataset.path, case.dataset.engine, **options).load()
    except Exception as error:  # noqa: BLE001  # libraries raise anything
        case.ledger.unknown[f"xarray: {type(error).__name__}"] += 1
        return
    with case.ledger.attempt("xarray", case.folder), ours(case.dataset.path, **options) as found:
        _compare_datasets(case, found, expected)


def _compare_datasets(case: Case, found: xarray.Dataset, expected: xarray.Dataset) -> None:
    if list(found.variables) != list(expected.variables):
        case.ledger.findings.append(
            f"xarray: it has {list(found.variables)}, not {list(expected.variables)}"
        )
        return
    for name, variable in expected.variables.items():
        if "_Unsigned" in variable.encoding and not variable.encoding["dtype"].isnative:
            continue  # xarray looks for a _FillValue in the wrong byte order there
        is_decoded = "scale_factor" in variable.encoding or "_FillValue" in variable.encoding
        said = unlike(
            found[name].values, variable.values, is_decoded or "missing_value" in variable.encoding
        )
        case.ledger.check("xarray", str(name), said, variable.values)
        if found[name].dims != variable.dims:
            case.ledger.findings.append(
                f"xarray {name}: its dimensions are {found[name].dims}, not {variable.dims}"
            )
        if not xarray.Variable((), 0, found[name].attrs).identical(
            xarray.Variable((), 0, variable.attrs)
        ):
            said = f"{found[name].attrs}, not {variable.attrs}"
            case.ledger.findings.append(f"xarray {name}: its attributes are {said}")


def _compare_values(case: Case) -> None:
    folder, _, name = case.dataset.name.rpartition("/")
    expected = case.expected["stored"]
    if expected.dtype.hasobject:
        return
    may_refuse = "stored" in case.refused
    with (
        case.ledger.attempt("xarray", case.folder, may_refuse),
        ours(case.dataset.path, group=folder or None, **RAW) as found,
    ):
        if name not in found.variables:
            case.ledger.findings.append(f"xarray: it has {list(found.variables)}, but not {name}")
            return
        case.ledger.check("xarray", name, unlike(found[name].values, expected), expected)
