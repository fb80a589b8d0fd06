"""Non-negative matrix factorisation of a block RDD by multiplicative updates: V is near W H, with
nothing below zero.

D. D. Lee and H. S. Seung, "Algorithms for non-negative matrix factorization", NIPS 13 (2001), for
the Frobenius norm; W is updated before H, as scikit-learn does with solver="mu". One Spark job
reads V and checks it, one makes each iteration.

- V is stored once, in its own dtype, and W beside it in an RDD of its own with one element per
  block, joined by `RDD.zip`: one RDD of both would write all of V again at every iteration. H is
  broadcast, W^T V and W^T W are summed by treeReduce; both are small.
- Each W is derived from the one before. Its lineage is cut by a local checkpoint, so that plans do
  not grow with the iterations, and the older W and its H are dropped.
- When an executor is lost, its part of V is read again from the source. Its part of W cannot be
  computed again: W is stored on two executors where there are several. If both are lost, the job
  fails with Spark's "Checkpoint block ... not found", and has to be started again.
- W's first values depend on the seed and on the index of a row alone, so that how the array is cut
  changes results by rounding only (`tests/connectors/spark/test_nmf.py::test_cut`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark import RDD, SparkContext, StorageLevel
from pyspark.serializers import CPickleSerializer

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.arguments import whole
from hyperslab.connectors.spark.vectors import (
    doubles,
    finite,
    frame,
    row_axis,
    row_indices,
    row_pieces,
    uneven,
)
from hyperslab.errors import UsageError

if TYPE_CHECKING:
    from pyspark import Broadcast

    Block = tuple[Hyperslab, Array]
    Sums = tuple[Array, Array]
    "W^T V and W^T W"
    State = tuple[Hyperslab, Array, Sums | None]
    """Place of a block of W in W, the block, and in the last one of a partition the partition's
    sums.
    """

PIECE_NBYTES = 32 << 20
"Bytes of rows that are multiplied at a time."
SMALLEST = float(np.finfo(np.float32).eps)
"What stands for a denominator of 0, as in scikit-learn."


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """W as the executors have it."""

    state: RDD[State]
    known: Broadcast[Any]
    """H and what else its function knows: Spark sends that along even where the values are stored,
    so it lives as long.
    """

    def drop(self) -> None:
        _let_go(self.state)
        self.known.destroy()


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """V is near W H. W stays stored on the executors until `release`, or the end of a `with`."""

    h: Array
    "(k, cols)."
    errors: Array
    """||V - W H|| / ||V|| (Frobenius) after each iteration. It is a difference of sums over V,
    which rounding leaves at about 1e-8 where the factors are exact.
    """
    stored: Stored = field(repr=False)

    @property
    def w(self) -> RDD[Block]:
        """W (rows, k) as blocks with their places: the first index of each is that of its first row
        in the array.
        """
        return self.stored.state.map(_block)

    def collect_w(self) -> Array:
        """W on the driver, its rows in the order of their indices."""
        found = self.w.collect()
        indices = np.concatenate([np.asarray(row_indices(slab)) for slab, _ in found])
        collected: Array = np.concatenate([block for _, block in found])[
            indices.argsort(kind="stable")
        ]
        return collected

    def release(self) -> None:
        """Drop W from the executors; `w` cannot be used any more."""
        self.stored.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Extent:
    """What one pass over V finds; or why it cannot be used."""

    rows: int = 0
    cols: int = 0
    total: float = 0.0
    squares: float = 0.0
    fault: str = ""
    frame: tuple[int, ...] = ()
    "What the rows hold of the other axes."


def nmf(
    blocks: RDD[Block],
    k: int,
    iterations: int = 200,
    seed: int = 0,
    tolerance: float | None = None,
    w: Array | None = None,
    h: Array | None = None,
    axis: int = 0,
) -> Factors:
    """Factorise the matrix of rows along `axis` into W (rows, k) and H (k, cols).

    It ends after `iterations`, or earlier when one of them lowers the error by less than
    `tolerance` times the error after the first. `w` and `h` are first values; rows of `w` are found
    by the indices that rows have in the array. Without them values are uniform and scaled to the
    mean of V. Do not cache `blocks` for this: V is stored here.

    Raises UsageError for values that are negative, complex or not finite (with the row), for an
    empty RDD, and for `k`, `iterations`, `seed`, `tolerance`, `w` or `h` that cannot be used.
    """
    k = whole("nmf: k", k, 1)
    iterations = whole("nmf: iterations", iterations, 1)
    axis = whole("nmf: axis", axis)
    _check_arguments(whole("nmf: seed", seed), tolerance)
    first_w = None
    if w is not None:
        first_w = _checked_factor("w", w, (len(np.atleast_1d(w)), k))
    values = _one_by_one(blocks.map(partial(_matrix, axis)).filter(_has_rows)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    try:
        extent = _measure(values, axis, None if first_w is None else len(first_w))
        scale = 2 * math.sqrt(extent.total / (extent.rows * extent.cols) / k)
        if h is None:
            first_h = scale * random_rows(seed, 1, range(k), extent.cols)
        else:
            first_h = _checked_factor("h", h, (k, extent.cols))
        begin = _Beginning(k, seed, scale, first_w)
        return _iterate(values, begin, first_h, math.sqrt(extent.squares), iterations, tolerance)
    finally:
        _let_go(values)


def random_rows(seed: int, stream: int, indices: range, width: int) -> Array:
    """Uniform numbers in (0, 1], those of a row a function of the seed, the stream and its index
    alone.

    Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2,
    3", 2011): four numbers per count, and each row has its own counts.
    """
    counts = -(-width // 4)
    if indices.step != 1:
        each = [random_rows(seed, stream, range(i, i + 1), width) for i in indices]
        if each:
            return np.concatenate(each)
        return np.empty((0, width))
    bits = np.random.Philox(key=seed | stream << 64, counter=indices.start * counts)
    drawn = np.random.Generator(bits).random((len(indices), 4 * counts))
    return 1 - drawn[:, :width]


@dataclass(frozen=True, slots=True, eq=False)
class _Beginning:
    """Where the first blocks of W come from."""

    k: int
    seed: int
    scale: float
    w: Array | None

    def block(self, slab: Hyperslab) -> Array:
        indices = row_indices(slab)
        if self.w is None:
            return self.scale * random_rows(self.seed, 0, indices, self.k)
        given: Array = self.w[np.asarray(indices)]
        return given


def _check_arguments(seed: int, tolerance: float | None) -> None:
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"nmf: seed is {seed}; it is at least 0 and below 2**64")
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise UsageError(
            f"nmf: tolerance is {tolerance}; it is a number that is not below 0, or None"
        )


def _checked_factor(name: str, given: Array, shape: tuple[int, ...]) -> Array:
    factor = np.asarray(given)
    if factor.dtype.kind not in "biuf":
        raise UsageError(f"nmf: {name} holds {factor.dtype}: give real numbers")
    if factor.shape != shape:
        raise UsageError(f"nmf: {name} has the shape {factor.shape}, where {shape} is needed")
    factor = factor.astype(np.float64)
    if not (np.isfinite(factor).all() and (factor >= 0).all()):
        raise UsageError(
            f"nmf: {name} holds a value that is negative or not finite: updates need finite ones"
            " from 0 on"
        )
    return factor


def _one_by_one(rdd: RDD[Any]) -> RDD[Any]:
    """The RDD with one pickle per element: RDD.zip would else bring both of its sides into a new
    form, at every zip.
    """
    # no public way to a batch of one but the context's own
    return rdd._reserialize(CPickleSerializer())  # noqa: SLF001


def _matrix(axis: int, item: Block) -> Block:
    """A block as a matrix of rows, with its place in the array, whose axis of rows then is the
    first one.
    """
    slab, block = item
    along = row_axis(slab, axis)
    turned = np.moveaxis(block, along, 0)
    order = (along, *(a for a in range(slab.ndim) if a != along))
    return slab.permute(order), turned.reshape(len(turned), math.prod(turned.shape[1:]))


def _has_rows(item: Block) -> bool:
    return item[1].size > 0


def _measure(values: RDD[Block], axis: int, rows_of_w: int | None) -> Extent:
    if not values.getNumPartitions():
        raise UsageError("nmf: the RDD is empty: it has no partition")
    extent = values.mapPartitions(partial(_extents, axis, rows_of_w)).treeReduce(
        partial(_joined, axis)
    )
    if extent.fault:
        raise UsageError(extent.fault)
    if not extent.rows:
        raise UsageError("nmf: the RDD is empty: no block has a value")
    if not math.isfinite(extent.squares):
        raise UsageError(
            "nmf: the squares of the values are too large for float64: divide the values first"
        )
    return extent


def _extents(axis: int, rows_of_w: int | None, items: Iterable[Block]) -> Iterator[Extent]:
    found = Extent()
    for slab, matrix in items:
        try:
            found = _joined(axis, found, _extent(rows_of_w, slab, matrix))
        except UsageError as error:  # the driver raises it
            found = Extent(fault=str(error))
            break
    yield found


def _extent(rows_of_w: int | None, slab: Hyperslab, matrix: Array) -> Extent:
    last = max(row_indices(slab)[0], row_indices(slab)[-1])
    if rows_of_w is not None and last >= rows_of_w:
        raise UsageError(
            f"nmf: w has {rows_of_w} rows, and the array has a row {last}: give w for the whole"
            " array"
        )
    total = squares = 0.0
    for indices, piece in row_pieces(slab, matrix):
        dense = finite("nmf", indices, doubles(slab, piece))
        low = dense.min(axis=1)
        if (low < 0).any():
            row = int((low < 0).argmax())
            raise UsageError(
                f"nmf: row {indices[row]} holds {low[row]}: values must not be below 0"
            )
        with np.errstate(over="ignore"):
            total += float(dense.sum())
            squares += float(np.vdot(dense, dense))
    return Extent(len(matrix), matrix.shape[1], total, squares, frame=frame(slab))


def _joined(axis: int, left: Extent, right: Extent) -> Extent:
    if left.fault or not right.rows:
        if left.fault or not right.fault:
            return left
        return right
    if right.fault or not left.rows:
        return right
    if left.frame != right.frame or left.cols != right.cols:
        return Extent(fault=str(uneven("nmf", axis)))
    rows = left.rows + right.rows
    total = left.total + right.total
    squares = left.squares + right.squares
    return Extent(rows, left.cols, total, squares, frame=left.frame)


def _iterate(
    values: RDD[Block],
    begin: _Beginning,
    h: Array,
    norm: float,
    iterations: int,
    tolerance: float | None,
) -> Factors:
    errors = list[float]()
    stored = None
    try:
        for _ in range(iterations):
            stored, product, square = _advance(values, stored, begin, h)
            h = _updated(h, product, square @ h)
            rest = norm * norm - 2 * float(np.vdot(product, h)) + float(np.vdot(square, h @ h.T))
            error = 0.0
            if norm:
                error = math.sqrt(max(rest, 0.0)) / norm
            errors.append(error)
            if (
                tolerance is not None
                and len(errors) > 1
                and errors[-2] - errors[-1] < tolerance * errors[0]
            ):
                break
    except BaseException:
        if stored is not None:
            stored.drop()
        raise
    assert stored is not None
    return Factors(h, np.array(errors), stored)


def _level(sc: SparkContext) -> StorageLevel:
    """W is stored twice, but where there is one executor, which would warn of it with every
    block.
    """
    master = str(sc.master)
    alone = master.startswith("local") and not master.startswith("local-cluster")
    if alone:
        return StorageLevel.MEMORY_AND_DISK
    return StorageLevel.MEMORY_AND_DISK_2


def _advance(
    values: RDD[Block], before: Stored | None, begin: _Beginning, h: Array
) -> tuple[Stored, Array, Array]:
    """The next W, which replaces the one before, and its W^T V and W^T W."""
    sc = values.context
    known = sc.broadcast((h, None if before else begin))
    step: Callable[[Iterable[Any]], Iterator[State]] = partial(_begin, known)
    if before:
        step = partial(_continue, known)
    pairs: RDD[Any] = values
    if before:
        pairs = values.zip(before.state)
    after = Stored(_one_by_one(pairs.mapPartitions(step)).persist(_level(sc)), known)
    after.state.localCheckpoint()
    try:
        product, square = after.state.flatMap(_sums).treeReduce(_added)
    except BaseException:
        after.drop()
        raise
    if before:
        before.drop()
    return after, product, square


def _begin(known: Broadcast[Any], items: Iterable[Block]) -> Iterator[State]:
    h, begin = known.value
    return _update(h, ((slab, matrix, begin.block(slab)) for slab, matrix in items))


def _continue(known: Broadcast[Any], items: Iterable[tuple[Block, State]]) -> Iterator[State]:
    return _update(known.value[0], ((slab, matrix, state[1]) for (slab, matrix), state in items))


def _update(h: Array, items: Iterable[tuple[Hyperslab, Array, Array]]) -> Iterator[State]:
    """New blocks of W; what is summed over a partition goes with the last one."""
    k = len(h)
    gram = h @ h.T
    product = np.zeros(h.shape)
    square = np.zeros((k, k))
    held: State | None = None
    for slab, matrix, w in items:
        if held is not None:
            yield held
        parts = []
        done = 0
        for _, piece in row_pieces(slab, matrix, nbytes=PIECE_NBYTES):
            dense = doubles(slab, piece)
            old = w[done : done + len(piece)]
            new = _updated(old, dense @ h.T, old @ gram)
            product += new.T @ dense
            square += new.T @ new
            parts.append(new)
            done += len(piece)
        held = (
            Hyperslab((slab.start[0], 0), (done, k), (slab.stride[0], 1)),
            np.concatenate(parts),
            None,
        )
    if held is not None:
        yield held[0], held[1], (product, square)


def _updated(factor: Array, numerator: Array, denominator: Array) -> Array:
    denominator[denominator == 0] = SMALLEST
    changed: Array = factor * (numerator / denominator)
    return changed


def _sums(state: State) -> Iterator[Sums]:
    if state[2] is not None:
        yield state[2]


def _added(left: Sums, right: Sums) -> Sums:
    return left[0] + right[0], left[1] + right[1]


def _block(state: State) -> Block:
    return state[0], state[1]


def _let_go(blocks: RDD[Any]) -> None:
    """Free what Spark keeps of some blocks. `RDD.unpersist` does it too, but warns of each that has
    a local checkpoint, whose lineage nobody asks for again.
    """
    context = blocks.context
    context._jsc.sc().unpersistRDD(blocks.id(), False)  # noqa: SLF001
    blocks.is_cached = False
