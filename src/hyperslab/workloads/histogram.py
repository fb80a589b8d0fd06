"""histogram: how often each value, or each range of values, occurs in an array. Counts are exact.

Bins, by the dtype of the values:

- bool: two; 8- and 16-bit integers: one for every value that the dtype can hold, 65,536 for uint16;
- wider integers: one for every value from the smallest to the largest, where these are fewer than
  65,536;
- all else, and wherever `bins` or `range` is given: equal bins, 1,024 of them if not said, from
  `range`, or from the smallest to the largest finite value. Edges and counts are those of
  numpy.histogram over the whole array (float16 counted as float32); where the range is too narrow
  for so many bins of distinct edges, their number is halved until it is not.

NaN, and values beyond `range` or infinite, are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import output_dtype
from hyperslab.plan.pipeline import Fold, Pipeline
from hyperslab.storage.whole import replace_text
from hyperslab.workloads import kernels, selection

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = (
    "Count values: one bin per value for 8- and 16-bit integers, equal bins for others (CSV, NPZ"
    " and a picture)."
)
PARAMS: Mapping[str, str] = {
    "bins": "number of equal bins, from 1 to 1048576",
    "range": "lower edge of the first and upper edge of the last bin",
    **selection.PARAMS,
}
INPUTS = selection.INPUTS
DEFAULT_BINS = 1024
MOST_BINS = 2**20
"Most bins: in float32, a bin's number is known to less than one up to here."
MOST_VALUES = 65536
_EXACT_BELOW = 2**52
_APART = ("below", "above", "nan")


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts per bin; every bin holds its lower edge, the last one its upper edge too."""

    counts: Array
    "(bins,) int64."
    first: int | None
    """Where every bin counts one integer: the integer of the first bin. None for bins of equal
    width.
    """
    equal_edges: Array | None
    "(bins + 1,), in the dtype of the values or float64; None where every bin counts one integer."
    below: int = 0
    "Values under the first bin, minus infinity included."
    above: int = 0
    "Values over the last bin, plus infinity included."
    nan: int = 0

    @property
    def values(self) -> Array | None:
        """(bins,) the integer that each bin counts; None for bins of equal width."""
        if self.first is None:
            return None
        last = self.first + len(self.counts) - 1
        steps = np.arange(len(self.counts))
        if last >= 2**63:
            return steps.astype(np.uint64) + self.first
        return steps.astype(np.int64) + self.first

    @property
    def edges(self) -> Array:
        """(bins + 1,) increasing edges, half-way between integers; from the first value on where
        float64 ends.
        """
        if self.equal_edges is not None:
            return self.equal_edges
        return np.arange(len(self.counts) + 1) - 0.5 + (self._origin or 0)

    @property
    def _origin(self) -> int | None:
        """The first value, if float64 can tell it and those after it from their neighbours."""
        fits = self.first is not None and abs(self.first) + len(self.counts) < _EXACT_BELOW
        if fits:
            return self.first
        return None

    @property
    def title(self) -> str:
        """What a picture of it shows, and what it leaves out."""
        apart = {"NaN": self.nan, "below": self.below, "above": self.above}
        left_out = ", ".join(f"{n:,} {name}" for name, n in apart.items() if n)
        since = ""
        if self.first is not None and self._origin is None:
            since = f", from value {self.first} on"
        text = f"{int(self.counts.sum()):,} values in {len(self.counts):,} bins{since}"
        if left_out:
            text += f" ({left_out})"
        return text

    @property
    def warning(self) -> str:
        """Why it holds nothing; '' where it does."""
        if self.counts.any() or self.below or self.above or self.nan:
            return ""
        return selection.NOTHING_INSIDE

    def lines(self) -> list[str]:
        """A few numbers to print."""
        if not self.counts.any():
            return [f"histogram  {self.title}"]
        fullest = int(np.argmax(self.counts))
        if self.first is not None:
            where = str(self.first + fullest)
        else:
            where = f"{self.edges[fullest]!s} to {self.edges[fullest + 1]!s}"
        return [
            f"histogram  {self.title}",
            f"fullest    {where}: {int(self.counts[fullest]):,} values",
        ]


@dataclass(frozen=True, slots=True, eq=False)
class LabelHistograms:
    """Counts of each label's values, all in the same bins."""

    rows: Mapping[int, Histogram]
    "Labels that have voxels, in their order, without 0."

    def lines(self) -> list[str]:
        """A line per label, to print."""
        return [f"label {label:>8}  {row.title}" for label, row in self.rows.items()]

    @property
    def warning(self) -> str:
        """Why it holds nothing; '' where it does."""
        if self.rows:
            return ""
        return selection.NOTHING_LABELLED


class Range(NamedTuple):
    """Smallest and largest finite value; None when there is none."""

    low: Any
    high: Any


def build(
    pipeline: Pipeline,
    bins: int | None = None,
    range: tuple[float, float] | None = None,
    mask_above: float | None = None,
) -> Pipeline:
    """End the pipeline with the histogram of its values: of all, of those within its input `mask`,
    or of each label of its input `labels`, in bins that all labels share. Raises UsageError.
    """
    dtype = countable(output_dtype(pipeline))
    chosen = selection.params_of(pipeline, mask_above)
    pipeline = pipeline.altered(notes=selection.notes_of(pipeline, mask_above))
    if bins is not None and not 1 <= bins <= MOST_BINS:
        raise UsageError(f"--param bins={bins}: give {PARAMS['bins']}")
    if range is not None and not (range[0] < range[1] and max(map(abs, range)) <= _largest(dtype)):
        raise UsageError(
            f"--param range={range[0]},{range[1]}: give two finite numbers that {dtype} can hold,"
            " the smaller one first"
        )
    if range is not None:
        return _reduce(
            pipeline, "IN_RANGE", {"bins": bins or DEFAULT_BINS, "range": range, **chosen}
        )
    few = has_few_values(dtype)
    if selection.kind_of(pipeline) == "labels":
        few = few and dtype.itemsize == 1  # 65,536 bins for every label would be too many
    if bins is None and few:
        return _reduce(pipeline, "PER_VALUE", chosen)
    return _reduce(pipeline, "FROM_LOW_TO_HIGH", {"bins": bins, **chosen})


def _reduce(pipeline: Pipeline, fold: str, params: Mapping[str, Any]) -> Pipeline:
    selects = selection.kind_of(pipeline)
    temporaries = selection.TEMPORARIES if selects else 1.0
    suffix = {"": "", "mask": "_IN_MASK", "labels": "_OF_LABELS"}[selects]
    return pipeline.reduce(f"{__name__}:{fold}{suffix}", params, temporaries=temporaries)


def countable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype itself. Raises UsageError unless its values are real numbers."""
    if dtype.kind not in "biuf":
        raise UsageError(
            f"a histogram needs real numbers, not {dtype}: map a function such as numpy.abs first"
        )
    return dtype


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest edge of a bin."""
    binned = np.dtype(np.float64)
    if dtype.kind == "f":
        binned = kernels.binned_dtype(dtype)
    return float(np.finfo(binned).max)


def has_few_values(dtype: np.dtype[Any]) -> bool:
    """True for bool, 8- and 16-bit integers."""
    return dtype.kind in "biu" and dtype.itemsize <= 2


def count_values(block: Array) -> Histogram:
    """Lift: a bin for every value that the dtype can hold."""
    if block.dtype.kind == "b":
        return Histogram(kernels.value_counts(block, 0, 2), 0, None)
    info = np.iinfo(block.dtype)
    return Histogram(
        kernels.value_counts(block, int(info.min), int(info.max - info.min) + 1),
        int(info.min),
        None,
    )


def count_in_range(block: Array, bins: int, range: tuple[float, float]) -> Histogram:
    """Lift: equal bins over a range that was given."""
    edges, bounds = kernels.equal_edges(*range, bins, block.dtype)
    counts, below, above, nan = kernels.binned_counts(block, edges, bounds)
    return Histogram(counts, None, edges, below, above, nan)


def count_from_low_to_high(block: Array, bins: int | None, prior: Range) -> Histogram:
    """Lift: a bin per integer where they lie close, equal bins otherwise, from the smallest value
    to the largest.
    """
    low, high = prior
    if low is None:
        return count_in_range(block, bins or DEFAULT_BINS, (0.0, 1.0))
    if bins is None and block.dtype.kind in "iu" and int(high) - int(low) < MOST_VALUES:
        first = int(low)
        values = int(high) - first + 1
        return Histogram(kernels.value_counts(block, first, values), first, None)
    return count_in_range(block, bins or DEFAULT_BINS, (low, high))


def find_range(block: Array) -> Range:
    """Lift of the fold before: smallest and largest finite value, as bins are made from them."""
    found = Range(None, None)
    for piece in kernels.pieces(block):
        values = kernels.finite(piece).values
        if values.size:
            binned = kernels.binned_dtype(values.dtype).type
            low, high = (
                binned(end) + binned(0) for end in (values.min(), values.max())
            )  # zero loses its sign
            found = widen(found, Range(low, high))
    return found


def widen(a: Range, b: Range) -> Range:
    """The range of both."""
    if a.low is None or b.low is None:
        if b.low is None:
            return a
        return b
    return Range(min(a.low, b.low), max(a.high, b.high))


def add(a: Histogram, b: Histogram) -> Histogram:
    """Merge two histograms of the same bins."""
    return replace(
        a,
        counts=a.counts + b.counts,
        below=a.below + b.below,
        above=a.above + b.above,
        nan=a.nan + b.nan,
    )


def save(result: Histogram, folder: Path) -> Sequence[Path]:
    """Write histogram.csv (`value,count`, or `low,high,count` for bins of equal width) and
    histogram.npz.
    """
    if result.values is not None:
        head = "value,count"
        rows = zip(result.values.tolist(), result.counts.tolist(), strict=True)
        text = [f"{value},{count}" for value, count in rows]
    else:
        edges = [str(edge) for edge in result.edges]
        head = "low,high,count"
        text = [
            f"{a},{z},{n}"
            for a, z, n in zip(edges, edges[1:], result.counts.tolist(), strict=False)
        ]
    arrays = {"counts": result.counts, "edges": result.edges}
    if result.values is not None:
        arrays["values"] = result.values
    apart = {"below": result.below, "above": result.above, "nan": result.nan}
    csv = folder / "histogram.csv"
    npz = folder / "histogram.npz"
    _replace(
        csv, lambda partial: partial.write_text("\n".join([head, *text]) + "\n", encoding="utf-8")
    )
    _replace(
        npz,
        lambda partial: _save_arrays(
            partial, {**arrays, **{k: np.int64(n) for k, n in apart.items()}}
        ),
    )
    return [csv, npz]


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    with path.open("wb") as file:  # given a path, NumPy would add .npz to it
        np.savez_compressed(file, **arrays)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Let a file appear when it is complete."""
    partial = path.with_name(f".{path.name}.save.part")
    try:
        write(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def save_rows(result: LabelHistograms, folder: Path) -> Sequence[Path]:
    """Write histogram.csv, a row per label and a column per bin, named by its value or its lower
    edge; and histogram.npz: labels (n,), counts (n, bins), edges, and values as above.
    """
    rows = list(result.rows.values())
    arrays: dict[str, Any] = {"labels": np.array(list(result.rows), np.int64)}
    bins: list[Any] = []
    if rows:
        arrays |= {"counts": np.stack([row.counts for row in rows]), "edges": rows[0].edges}
        bins = rows[0].edges[:-1].tolist()
        if rows[0].values is not None:
            arrays["values"] = rows[0].values
            bins = rows[0].values.tolist()
    for apart in _APART:
        arrays[apart] = np.array([getattr(row, apart) for row in rows], np.int64)
    head = ["label", *_APART, *bins]
    text = [",".join(map(str, head))]
    for label, row in result.rows.items():
        numbers = [label, *(getattr(row, apart) for apart in _APART), *row.counts.tolist()]
        text.append(",".join(map(str, numbers)))
    table = folder / "histogram.csv"
    replace_text(table, "\n".join(text) + "\n")
    npz = folder / "histogram.npz"
    _replace(npz, lambda partial: _save_arrays(partial, arrays))
    return [table, npz]


PER_VALUE = Fold(count_values, add, save=save)
IN_RANGE = Fold(count_in_range, add, save=save)
FROM_LOW_TO_HIGH = Fold(count_from_low_to_high, add, prior=Fold(find_range, widen), save=save)
PER_VALUE_IN_MASK = selection.within_mask(PER_VALUE)
IN_RANGE_IN_MASK = selection.within_mask(IN_RANGE)
FROM_LOW_TO_HIGH_IN_MASK = selection.within_mask(FROM_LOW_TO_HIGH)
PER_VALUE_OF_LABELS = selection.of_labels(PER_VALUE, LabelHistograms, save_rows)
IN_RANGE_OF_LABELS = selection.of_labels(IN_RANGE, LabelHistograms, save_rows)
FROM_LOW_TO_HIGH_OF_LABELS = selection.of_labels(FROM_LOW_TO_HIGH, LabelHistograms, save_rows)
