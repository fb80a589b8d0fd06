"""histogram-python: the same histogram counted by a plain Python loop over a dictionary.

A benchmark of engines under the interpreter's lock, after the pure Python histogram (Algorithm 2)
of M. Dugré, V. Hayot-Sasson, T. Glatard, "A performance comparison of Dask and Apache Spark for
data-intensive neuroimaging pipelines", 2019: voxels are flattened in Fortran order and counted one
by one, dictionaries are merged key by key. `histogram` writes the same file many times faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import output_dtype
from hyperslab.plan.pipeline import Fold, Pipeline
from hyperslab.workloads.histogram import Histogram, has_few_values, save

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = (
    "Count the values of bool, 8- and 16-bit integers in a plain Python loop (a benchmark; use"
    " histogram)."
)
PARAMS: Mapping[str, str] = {}
_PIECE = 4096


class Tally(NamedTuple):
    """Counts by value, and the dtype of the values."""

    counts: dict[int, int]
    dtype: np.dtype[Any]


def build(pipeline: Pipeline) -> Pipeline:
    """End the pipeline with the histogram of its values. Raises UsageError for a dtype of too many
    values.
    """
    dtype = output_dtype(pipeline)
    if not has_few_values(dtype):
        raise UsageError(
            f"histogram-python holds every distinct value in a dictionary, which for {dtype} may"
            " outgrow the array: use histogram, or --values stored where the stored values are 8-"
            " or 16-bit integers"
        )
    return pipeline.reduce(f"{__name__}:FOLD", temporaries=1.0)


def tally(block: Array) -> Tally:
    """Lift: count the voxels one by one."""
    flat = block.ravel(order="F")
    counts: dict[int, int] = {}
    for start in range(0, flat.size, _PIECE):
        for value in flat[start : start + _PIECE].tolist():
            if value in counts:
                counts[value] += 1
            else:
                counts[value] = 1
    return Tally(counts, block.dtype)


def unite(a: Tally, b: Tally) -> Tally:
    """Merge: the union of the keys, their counts added."""
    counts = {
        value: a.counts.get(value, 0) + b.counts.get(value, 0)
        for value in a.counts.keys() | b.counts.keys()
    }
    return Tally(counts, a.dtype)


def tabulate(tally: Tally) -> Histogram:
    """Finish: a bin for every value that the dtype can hold."""
    first, bins = 0, 2
    if tally.dtype.kind != "b":
        first = int(np.iinfo(tally.dtype).min)
        bins = 2 ** (8 * tally.dtype.itemsize)
    counts = np.zeros(bins, np.int64)
    for value, count in tally.counts.items():
        counts[value - first] = count
    return Histogram(counts, first, None)


FOLD = Fold(tally, unite, tabulate, save=save)
