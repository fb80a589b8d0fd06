"""hyperslab.run: a function over every block of a random partition, into a file or into one
number.
"""

from __future__ import annotations

import zlib
from typing import Any, get_args

import numpy as np

import hyperslab
from hyperslab import Fold, Options, Pipeline
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from hyperslab.errors import HyperslabError
from hyperslab.report.progress import Quiet
from tests.comparison import written
from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.comparison.ways.blocks import rule
from tests.formats.matrix import opened

_FORMATS = ("h5", "nc", "zarr", "nii", "nii.gz")


def turned(block: Array) -> Array:
    """The sign or the bits of every element, turned; bits of NaN stay."""
    if block.dtype.kind in "iu?b":
        return np.asarray(np.invert(block))
    return np.asarray(np.negative(block))


def _counted(block: Array) -> dict[str, int]:
    """How often each element's bits occur, as a checksum that does not depend on their order."""
    width = block.dtype.itemsize
    raw = np.ascontiguousarray(block).tobytes()
    return {
        "count": block.size,
        "sum": sum(zlib.crc32(raw[at : at + width]) for at in range(0, len(raw), width)),
    }


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one[name] + other[name] for name in one}


counting = Fold(_counted, _added)


def mapped(case: Case) -> None:
    """Blocks of any cut become one file, which its library reads."""
    if (chosen := _chosen(case)) is None:
        return
    values, expected = chosen
    ending = case.rng.choice(_FORMATS)
    way = f"run to {ending}, {values}"
    with case.ledger.attempt(way, case.folder, values in case.refused):
        pipeline = Pipeline(case.dataset.url, values=values).map(turned)
        pipeline = pipeline.write(case.folder / "run", ending, "volume", name=f"made.{ending}")
        finished(hyperslab.run(pipeline, _options(case), progress=Quiet()))
        meant = written.as_held(turned(expected), ending)
        found = written.by_library(case.folder / "run" / f"made.{ending}", "stored")
        case.ledger.check(way, "", unlike(found, meant, values == "real"), meant)


def reduced(case: Case) -> None:
    """Every element is seen once."""
    if (chosen := _chosen(case)) is None:
        return
    values, expected = chosen
    if values == "real" and expected.dtype.kind in "fc":  # of NaN there are many
        expected = case.expected.get("stored", expected)
        values = "stored"
    with case.ledger.attempt(f"reduce, {values}", case.folder, values in case.refused):
        pipeline = Pipeline(case.dataset.url, values=values).reduce(counting)
        result = finished(
            hyperslab.run(pipeline, _options(case), out=case.folder / "reduced", progress=Quiet())
        )
        said = (
            ""
            if result.value == _counted(expected)
            else f"{result.value}, not {_counted(expected)}"
        )
        case.ledger.check(f"reduce, {values}", "", said, expected)


def _chosen(case: Case) -> tuple[Values, Array] | None:
    values: Values = case.rng.choice(get_args(Values))
    expected: Any = case.expected.get(values)
    if expected is None or expected.dtype.kind not in "biufc" or expected.dtype.char in "gG":
        return None
    return values, expected


def finished(result: hyperslab.Result) -> hyperslab.Result:
    """A result without failed tasks. Raises HyperslabError with the reason of the first."""
    if not result.ok:
        raise HyperslabError(f"a task failed: {result.failures[0].message}")
    return result


def _options(case: Case) -> Options:
    source = opened(case.dataset.url)
    return Options(engine="serial", rule=rule(case.rng, source))
