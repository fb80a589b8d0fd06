"""Principal component analysis of a block RDD: scatters of partitions, merged by treeReduce, solved
on the driver.

- one Spark job, which reads every value once
- values are shifted to a mean near their own before they are squared, and partial results are
  merged by the difference of their means (Chan, Golub and LeVeque, "Algorithms for computing the
  sample variance", 1983): a large mean costs no digits
  (`tests/connectors/spark/test_pca.py::test_large_mean`)
- how the array is cut changes results by rounding only (`test_cut`)
- what a task refuses is UsageError on the driver, without a failed task and its second attempt
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.arguments import whole
from hyperslab.connectors.spark.vectors import doubles, finite, frame, row_pieces, uneven
from hyperslab.errors import UsageError
from hyperslab.units import show_bytes

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    Block = tuple[Hyperslab, Array]

LIMIT_NBYTES = 2 << 30
"""The largest matrix of columns x columns doubles that is made unless the caller says else: 16384
columns.
"""
FRAME_NBYTES = (2 << 30) - (1 << 20)
"PySpark sends no object of 2 GiB; some room is left for what stands beside the triangle."
PIECE_NBYTES = 32 << 20
"Bytes of rows that are multiplied at a time."


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalComponents:
    """Directions of largest variance, in scikit-learn's conventions."""

    mean: Array
    "Mean of every column, (cols,)."
    components: Array
    """Directions, (k, cols), orthonormal, by falling variance; the entry of largest magnitude of
    each is positive.
    """
    explained_variance: Array
    "Variance along each direction, (k,), with the divisor rows - 1."


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the scatter may take, known before the number of columns is."""

    k: int
    limit_nbytes: int
    "Bytes of the whole matrix, in a task and on the driver."
    result_nbytes: int
    "spark.driver.maxResultSize; 0 is none."
    arriving: int
    "Partial results that reach the driver together."

    def check(self, cols: int) -> None:
        """Raise UsageError for so many columns."""
        matrix = 8 * cols * cols
        triangle = 4 * cols * (cols + 1)
        advice = "let rows run along another axis, or select fewer columns"
        if self.k > cols:
            raise UsageError(
                f"pca: k is {self.k}, and rows have {cols} values: ask for at most {cols}"
                " components"
            )
        if matrix > self.limit_nbytes:
            raise UsageError(
                f"pca: the Gram matrix of {cols} columns takes {show_bytes(matrix)}, and"
                f" limit_nbytes is {show_bytes(self.limit_nbytes)}: {advice}, or raise limit_nbytes"
                " (a task takes two such matrices)"
            )
        if triangle > FRAME_NBYTES:
            raise UsageError(
                f"pca: half of the Gram matrix of {cols} columns is more than Spark sends: {advice}"
            )
        if 0 < self.result_nbytes < self.arriving * (triangle + 8 * cols + 4096):
            raise UsageError(
                f"pca: {self.arriving} partial Gram matrices of {show_bytes(triangle)} reach the"
                f" driver, and spark.driver.maxResultSize is {show_bytes(self.result_nbytes)}:"
                f" raise it, {advice}, or make fewer partitions"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Count, mean and scatter of some rows; or why there are none."""

    rows: int
    mean: Array
    triangle: Array
    """Sum over rows of (x - mean)(x - mean)^T: its upper triangle, row after row, since half as
    much is sent.
    """
    fault: str = ""
    frame: tuple[int, ...] = ()
    "What the rows hold of the other axes."


def pca(
    blocks: RDD[Block], k: int, axis: int = 0, limit_nbytes: int = LIMIT_NBYTES
) -> PrincipalComponents:
    """Find the first `k` principal components of the rows along `axis`.

    Sums are kept in float64, whatever the dtype. A task holds two matrices of columns x columns
    doubles, the driver three. Raises UsageError for complex numbers, longdoubles, values that are
    not finite (with the row), fewer than two rows, a `k` that is no number of components, and
    columns whose Gram matrix is larger than `limit_nbytes` or than what Spark lets pass.
    """
    k = whole("pca: k", k, 1)
    axis = whole("pca: axis", axis)
    partitions = blocks.getNumPartitions()
    if not partitions:
        raise UsageError("pca: the RDD is empty: it has no partition")
    bounds = Bounds(k, limit_nbytes, _result_nbytes(blocks.context), _arriving(partitions))
    moments = blocks.mapPartitions(partial(_moments, bounds, axis)).treeReduce(
        partial(_merge, axis)
    )
    return _solve(moments, k)


def _result_nbytes(sc: SparkContext) -> int:
    """How many bytes of results Spark lets reach the driver."""
    # there is no public way to read a size in Spark's units
    conf = sc._jsc.sc().conf()  # noqa: SLF001
    return int(conf.getSizeAsBytes("spark.driver.maxResultSize", "1g"))


def _arriving(partitions: int) -> int:
    """Partial results of the last step of treeReduce, whose depth is 2."""
    scale = max(math.ceil(partitions**0.5), 2)
    left = float(partitions)
    while left > scale + left / scale:
        left /= scale
    return int(left)


def _moments(bounds: Bounds, axis: int, items: Iterable[Block]) -> Iterator[Moments]:
    """The moments of a partition, in one piece even if it has no rows."""
    sums = _Sums(bounds)
    held: tuple[int, ...] = ()
    for slab, block in items:
        try:
            found = frame(slab, axis)
            if not block.size:
                continue
            if sums.rows and found != held:
                raise uneven("pca", axis)
            held = found
            for indices, piece in row_pieces(slab, block, axis, PIECE_NBYTES):
                sums.add(slab, indices, piece)
        except UsageError as error:  # the driver raises it
            yield Moments(0, np.empty(0), np.empty(0), str(error))
            return
    yield replace(sums.moments(), frame=held)


class _Sums:
    """Sums over the rows of a partition, all shifted by the mean of its first ones."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.rows = 0
        self.shift: Array = np.empty(0)
        self.sum: Array = np.empty(0)
        self.gram: Array = np.empty((0, 0))
        self.product: Array = np.empty((0, 0))

    def add(self, slab: Hyperslab, indices: range, piece: Array) -> None:
        values = finite("pca", indices, doubles(slab, piece))
        if not self.rows:
            self._begin(values)
        if values.shape[1] != len(self.sum):
            raise UsageError(
                f"pca: the block {slab} has rows of {values.shape[1]} values, others of"
                f" {len(self.sum)}"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # _solve says it
            values = values - self.shift
            self.sum += values.sum(axis=0)
            self.gram += np.matmul(values.T, values, out=self.product)
        self.rows += len(values)

    def _begin(self, values: Array) -> None:
        cols = values.shape[1]
        self.bounds.check(cols)
        with np.errstate(over="ignore", invalid="ignore"):
            self.shift = values.mean(axis=0)
        self.sum = np.zeros(cols)
        self.gram = np.zeros((cols, cols))
        self.product = np.empty((cols, cols))

    def moments(self) -> Moments:
        if not self.rows:
            return Moments(0, np.empty(0), np.empty(0))
        upper = [row[i:] for i, row in enumerate(self.gram)]
        triangle = np.concatenate(upper or [np.empty(0)])
        with np.errstate(over="ignore", invalid="ignore"):
            offset = self.sum / self.rows
            _add_outer(triangle, offset, -float(self.rows))
            return Moments(self.rows, self.shift + offset, triangle)


def _merge(axis: int, left: Moments, right: Moments) -> Moments:
    if left.fault:
        return left
    if right.fault:
        return right
    if not right.rows:
        return left
    if not left.rows:
        return right
    if left.frame != right.frame or len(left.mean) != len(right.mean):
        return Moments(0, np.empty(0), np.empty(0), str(uneven("pca", axis)))
    rows = left.rows + right.rows
    with np.errstate(over="ignore", invalid="ignore"):
        share = right.rows / rows
        apart = right.mean - left.mean
        mean = left.mean + apart * share
        triangle = left.triangle + right.triangle
        _add_outer(triangle, apart, left.rows * share)
        return Moments(rows, mean, triangle, frame=left.frame)


def _add_outer(triangle: Array, vector: Array, weight: float) -> None:
    """Add weight * vector vector^T, row by row, so that no second matrix is made."""
    first = 0
    for i in range(len(vector)):
        last = first + len(vector) - i
        triangle[first:last] += (weight * vector[i]) * vector[i:]
        first = last


def _solve(moments: Moments, k: int) -> PrincipalComponents:
    if moments.fault:
        raise UsageError(moments.fault)
    if moments.rows < 2:
        raise UsageError(f"pca: there are {moments.rows} rows, and variance needs at least 2")
    cols = len(moments.mean)
    if k > min(moments.rows, cols):
        raise UsageError(
            f"pca: k is {k}, and {moments.rows} rows of {cols} values have at most"
            f" {min(moments.rows, cols)} components"
        )
    if not (np.isfinite(moments.triangle).all() and np.isfinite(moments.mean).all()):
        raise UsageError(
            "pca: the squares of the values are too large for float64: divide the values first"
        )
    scatter = np.zeros((cols, cols))
    first = 0
    for i in range(cols):
        last = first + cols - i
        scatter[i, i:] = moments.triangle[first:last]
        first = last
    variances, directions = np.linalg.eigh(scatter, UPLO="U")
    components = directions[:, ::-1].T[:k]
    largest = np.abs(components).argmax(axis=1)
    components = components * np.sign(components[np.arange(k), largest])[:, np.newaxis]
    return PrincipalComponents(
        moments.mean, components, np.maximum(variances[::-1][:k], 0) / (moments.rows - 1)
    )
