"""hyperslab.convert: to another format and back, values and place are the same, or a sentence says
why not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hyperslab
from hyperslab import Encoding
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from hyperslab.report.progress import Quiet
from tests.comparison import written
from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.comparison.ways.pipelines import finished

_FORMATS = ("h5", "nc", "zarr", "nii", "nii.gz")


def there_and_back(case: Case) -> None:
    """Into a file of another format, and from there into one of the first."""
    if "stored" not in case.expected or case.expected["stored"].dtype.hasobject:
        return
    there, back = case.rng.choice(_FORMATS), _own(case)
    first, second = case.folder / f"there.{there}", case.folder / f"back.{back}"
    encoding = case.rng.choice(
        (Encoding(), Encoding(), Encoding(compression="none"), Encoding(compression="gzip:1"))
    )
    way = f"convert to {there}"
    with case.ledger.attempt(way, case.folder, bool(case.refused)):
        view = hyperslab.open(case.dataset.url, "stored")
        if there in ("nii", "nii.gz"):
            encoding = Encoding()
        _convert(case.dataset.url, first, encoding)
        stored = written.by_library(first, "stored")
        held = written.as_held(case.expected["stored"], there)
        case.ledger.check(way, "read by the library", unlike(stored, held), stored)
        if held.dtype != case.expected["stored"].dtype:
            return
        _compare(case, way, first, view)
        way = f"convert to {there} to {back}"
        with case.ledger.attempt(way, case.folder, bool(case.refused)):
            _convert(written.url_of(first), second, Encoding())
            _compare(case, way, second, view)


def _own(case: Case) -> str:
    suffix = "".join(
        case.dataset.path.suffixes[-2:]
        if case.dataset.path.suffix == ".gz"
        else [case.dataset.path.suffix]
    )
    return {".mnc": "h5"}.get(suffix, suffix.lstrip("."))


def _convert(source: str | Path, dest: Path, encoding: Encoding) -> None:
    finished(
        hyperslab.convert(
            source, dest, engine="serial", values="stored", encoding=encoding, progress=Quiet()
        )
    )


def _compare(case: Case, way: str, path: Path, before: hyperslab.ArrayView) -> None:
    """Both kinds of values, and the place."""
    for values, expected in case.expected.items():
        if values == "real" and before.source.unscalable:
            continue
        found = hyperslab.open(written.url_of(path), values)
        case.ledger.check(way, values, _unlike(np.asarray(found), expected, values), expected)
    after = hyperslab.open(written.url_of(path), "stored")
    if (
        before.affine is not None
        and after.affine is not None
        and not _is_near(before.affine, after.affine)
    ):
        case.ledger.findings.append(
            f"{way}: its affine is {after.affine.tolist()}, not {before.affine.tolist()}"
        )


def _unlike(found: Array, expected: Array, values: Values) -> str:
    """Real values may have a wider type elsewhere, but not another value."""
    if values == "stored":
        return unlike(found, expected)
    if found.dtype == expected.dtype or found.shape != expected.shape:
        return unlike(found, expected, any_nan=True)
    wide = np.result_type(found.dtype, expected.dtype)
    return unlike(found.astype(wide), expected.astype(wide), any_nan=True)


def _is_near(one: Array, other: Array) -> bool:
    """NIfTI holds places as float32."""
    return bool(np.allclose(one, other, rtol=1e-5, atol=1e-4))
