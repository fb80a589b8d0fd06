"""stats: count, minimum, maximum, mean, standard deviation and sum of an array, exact whatever the
blocks.

Sums of values and of their squares are carried exactly, as Python integers: of the values
themselves for integers, of multiples of 2**-1074 for floats (see kernels.float_sums). So the result
is the same, bit by bit, for every partition and order of merging. Rounding happens once, at the
end: mean and sum are the float64 nearest to the exact value, the standard deviation is within 0.51
units in the last place of it; sums of integers are not rounded at all.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import output_dtype
from hyperslab.plan.pipeline import Fold, Pipeline
from hyperslab.storage.recordfile import save_json
from hyperslab.storage.whole import replacement
from hyperslab.workloads import kernels, selection

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = (
    "Count, minimum, maximum, mean, standard deviation and sum, exact for every partition; NaN"
    " counted apart."
)
PARAMS: Mapping[str, str] = selection.PARAMS
INPUTS = selection.INPUTS
_GUARD_BITS = 128


@dataclass(frozen=True, slots=True)
class Stats:
    """Measures of the finite values; None where there are none."""

    count: int
    "Finite values."
    min: int | float | None
    max: int | float | None
    mean: float | None
    std: float | None
    "Standard deviation of the whole population: divided by count."
    sum: int | float | None
    "None also where float64 cannot hold it."
    nan: int
    "NaN values."
    infinite: int
    "Values of plus or minus infinity."

    def lines(self) -> list[str]:
        """The measures, to print."""
        return [f"{name:<10} {value}" for name, value in asdict(self).items()]

    @property
    def warning(self) -> str:
        """Why it holds nothing; '' where it does."""
        if self.count or self.nan or self.infinite:
            return ""
        return selection.NOTHING_INSIDE


@dataclass(frozen=True, slots=True)
class LabelStats:
    """Measures of each label's finite values."""

    rows: Mapping[int, Stats]
    "Labels that have voxels, in their order, without 0."

    def lines(self) -> list[str]:
        """A table of the most important measures, to print."""
        shown = ("count", "min", "max", "mean", "std")
        lines = [f"{'label':>8} " + " ".join(f"{name:>12}" for name in shown)]
        for label, stats in self.rows.items():
            numbers = (_short(getattr(stats, name)) for name in shown)
            lines.append(f"{label:>8} " + " ".join(f"{number:>12}" for number in numbers))
        return lines

    @property
    def warning(self) -> str:
        """Why it holds nothing; '' where it does."""
        if self.rows:
            return ""
        return selection.NOTHING_LABELLED


def _short(value: float | None) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums over some finite values, and how many others there were."""

    count: int = 0
    low: int | float | None = None
    high: int | float | None = None
    total: int = 0
    "Sum of the values, in units of 2**-unit_bits."
    squares: int = 0
    "Sum of their squares, in units of 2**-(2 * unit_bits)."
    unit_bits: int = 0
    nan: int = 0
    infinite: int = 0


def build(pipeline: Pipeline, mask_above: float | None = None) -> Pipeline:
    """End the pipeline with the statistics of its values: of all, of those within its input `mask`,
    or of each label of its input `labels`. Raises UsageError for values that are not real numbers.
    """
    params = selection.params_of(pipeline, mask_above)
    dtype = output_dtype(pipeline)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(
            f"stats needs real numbers of up to 64 bits, not {dtype}: map a function that converts"
            " them first"
        )
    selects = selection.kind_of(pipeline)
    if not selects:
        return pipeline.reduce(f"{__name__}:FOLD", temporaries=1.0)
    fold = {"mask": "IN_MASK", "labels": "PER_LABEL"}[selects]
    pipeline = pipeline.altered(notes=selection.notes_of(pipeline, mask_above))
    return pipeline.reduce(f"{__name__}:{fold}", params, temporaries=selection.TEMPORARIES)


def measure(block: Array) -> Moments:
    """Lift: the exact sums of a block."""
    found = Moments()
    if block.dtype.kind == "f":
        found = Moments(unit_bits=kernels.UNIT_BITS)
    for piece in kernels.pieces(block):
        found = combine(found, _measure_piece(piece))
    return found


def _measure_piece(piece: Array) -> Moments:
    values, nan, below, above = kernels.finite(piece)
    floating = piece.dtype.kind == "f"
    bits = 0
    if floating:
        bits = kernels.UNIT_BITS
    if not values.size:
        return Moments(unit_bits=bits, nan=nan, infinite=below + above)
    if floating:
        total, squares = kernels.float_sums(values)
    else:
        total, squares = kernels.integer_sums(values)
    low, high = (_plain(end) for end in (values.min(), values.max()))
    return Moments(len(values), low, high, total, squares, bits, nan, below + above)


def _plain(value: Any) -> int | float:
    """A Python number; zero loses its sign, which would depend on the blocks."""
    if value.dtype.kind == "f":
        return float(value) + 0.0
    return int(value)


def combine(a: Moments, b: Moments) -> Moments:
    """Merge: sums add exactly."""
    lows = [low for low in (a.low, b.low) if low is not None]
    highs = [high for high in (a.high, b.high) if high is not None]
    return Moments(
        a.count + b.count,
        min(lows, default=None),
        max(highs, default=None),
        a.total + b.total,
        a.squares + b.squares,
        a.unit_bits,
        a.nan + b.nan,
        a.infinite + b.infinite,
    )


def conclude(found: Moments) -> Stats:
    """Finish: round once."""
    n = found.count
    if not n:
        return Stats(0, None, None, None, None, None, found.nan, found.infinite)
    total: float | None = found.total
    if found.unit_bits:
        total = _nearest(found.total, 1 << found.unit_bits)
    mean = _nearest(found.total, n << found.unit_bits)
    return Stats(
        n, found.low, found.high, mean, _deviation(found), total, found.nan, found.infinite
    )


def _deviation(found: Moments) -> float | None:
    """sqrt(n * squares - total**2) / n, by an integer root of at least 64 bits."""
    n = found.count
    spread = n * found.squares - found.total * found.total
    return _nearest(math.isqrt(spread << _GUARD_BITS), n << (found.unit_bits + _GUARD_BITS // 2))


def _nearest(numerator: int, denominator: int) -> float | None:
    """The nearest float64 (Python divides integers so), or None beyond the largest one."""
    try:
        return numerator / denominator
    except OverflowError:
        return None


def save(result: Stats, folder: Path) -> Sequence[Path]:
    """Write stats.json."""
    path = folder / "stats.json"
    save_json(path, asdict(result))
    return [path]


def save_rows(result: LabelStats, folder: Path) -> Sequence[Path]:
    """Write stats.csv, a row per label, and stats.json with the same."""
    rows = [{"label": label, **asdict(stats)} for label, stats in result.rows.items()]
    table = folder / "stats.csv"
    with replacement(table) as file:
        writer = csv.DictWriter(file, ["label", *Stats.__slots__], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    plain = folder / "stats.json"
    save_json(plain, rows)
    return [table, plain]


FOLD = Fold(measure, combine, conclude, save=save)
IN_MASK = selection.within_mask(FOLD)
PER_LABEL = selection.of_labels(FOLD, LabelStats, save_rows)
