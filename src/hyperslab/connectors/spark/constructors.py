"""RDD constructor: blocks of an array as an RDD, and the rows, points, vectors and matrices that
are views of them.

The names are those of H5Spark (Liu et al., "H5Spark: Bridging the I/O Gap between Spark and
Scientific Data Formats on HPC Systems", 2016, table I); its keys are one too low in all partitions
but the first, these are true indices. MLlib, which takes half a second to import, is imported only
by what makes a matrix.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from hyperslab.connectors.spark import vectors
from hyperslab.connectors.spark.analyzer import Analysis, Selection, analyze
from hyperslab.connectors.spark.arguments import whole
from hyperslab.connectors.spark.partitioner import cuts_of, share
from hyperslab.connectors.spark.seeder import parts_of, seed
from hyperslab.errors import UsageError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.mllib.linalg.distributed import (
        BlockMatrix,
        CoordinateMatrix,
        IndexedRowMatrix,
        RowMatrix,
    )

    from hyperslab.arrays import Array
    from hyperslab.arrays.slab import Hyperslab

    Block = tuple[Hyperslab, Array]

Context = Any
"A SparkContext or a SparkSession."


def read_blocks(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RDD[Block]:
    """An RDD of blocks: pairs of a hyperslab of the array, and a NumPy array of its values.

    `path` is a file, directory, glob, text file of lines `path,dataset`, URL, NumPy array or pair
    (path, dataset), or a list of files and pairs; `variable` is the dataset, where none is named
    and the file holds several. Several files are one array, one after the other along the axis of
    rows. Partitions are cut along that axis, between stored chunks; without `partitions` there is
    one for every core, or one for every 128 MiB. A partition has one block or several of about 4
    MiB, in order. `selection`: see `hyperslab.connectors.spark.Selection`.

    Metadata are read now, values by Spark's tasks, which know from where: they do not open files by
    HDF5's library, as far as hyperslab can read them without. Raises UsageError and FormatError
    now; a task that fails says file, dataset and hyperslab.
    """
    return _read(sc, path, variable, partitions, selection)[1]


def h5read(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RDD[Array]:
    """An RDD of rows: 1-D NumPy arrays of everything at one place of the axis of rows, in C order.

    Arguments as of `read_blocks`. Rows share the memory of their block until Spark stores or sends
    them.
    """
    analysis, blocks = _read(sc, path, variable, partitions, selection)
    return _each(blocks, functools.partial(vectors.rows, axis=analysis.axis))


def h5read_point(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RDD[tuple[Any, int]]:
    """An RDD of (value, index): every element as a Python number, and its place in the whole array
    in C order.

    Arguments as of `read_blocks`. Of a selection the indices are those in the array that it is made
    of.
    """
    if selection.get("columns") is not None and not isinstance(selection.get("columns"), slice):
        raise UsageError(
            "h5read_point takes columns= as a slice only; filter the points, or use region="
        )
    analysis, blocks = _read(sc, path, variable, partitions, selection)
    return _each(blocks, functools.partial(vectors.points, shape=analysis.whole.shape))


def h5read_vec(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RDD[Any]:
    """An RDD of MLlib's DenseVectors, one a row. Arguments as of `read_blocks`; MLlib's numbers are
    float64.
    """
    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    return _each(blocks, functools.partial(vectors.vectors, axis=analysis.axis))


def h5read_irow(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RDD[Any]:
    """An RDD of MLlib's IndexedRows with the true index of every row, for which Spark runs no job.

    Arguments as of `read_blocks`. Of a selection the indices are those in the array that it is made
    of.
    """
    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    return _each(blocks, functools.partial(vectors.indexed_vectors, axis=analysis.axis))


def h5read_labeled(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    label: int = 0,
    **selection: Unpack[Selection],
) -> RDD[Any]:
    """An RDD of MLlib's LabeledPoints: of every row one element is the label, the others are the
    features.

    `label` is its place in the row. Other arguments as of `read_blocks`.
    """
    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    if not -analysis.row_size <= whole("label", label) < analysis.row_size:
        raise UsageError(f"label {label}: the rows have {analysis.row_size} elements")
    return _each(
        blocks,
        functools.partial(
            vectors.labeled_points, axis=analysis.axis, label=label % analysis.row_size
        ),
    )


def h5read_imat(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> IndexedRowMatrix:
    """MLlib's IndexedRowMatrix of an array. Arguments as of `read_blocks`."""
    from hyperslab.connectors.spark import matrices

    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    return matrices.indexed_row_matrix(
        blocks, analysis.axis, analysis.index_bound, analysis.row_size
    )


def row_matrix(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> RowMatrix:
    """MLlib's RowMatrix of an array. Arguments as of `read_blocks`."""
    from hyperslab.connectors.spark import matrices

    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    return matrices.row_matrix(blocks, analysis.axis, analysis.rows, analysis.row_size)


def coordinate_matrix(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    **selection: Unpack[Selection],
) -> CoordinateMatrix:
    """MLlib's CoordinateMatrix of the elements that are not zero. Arguments as of `read_blocks`."""
    from hyperslab.connectors.spark import matrices

    analysis, blocks = _read(sc, path, variable, partitions, selection, is_real=True)
    return matrices.coordinate_matrix(
        blocks, analysis.axis, analysis.index_bound, analysis.row_size
    )


def block_matrix(
    sc: Context,
    path: Any,
    variable: str = "",
    partitions: int | None = None,
    rows_per_block: int = 1024,
    cols_per_block: int = 1024,
    **selection: Unpack[Selection],
) -> BlockMatrix:
    """MLlib's BlockMatrix of an array, whose blocks begin at multiples of `rows_per_block` and
    `cols_per_block`.

    Other arguments as of `read_blocks`; a selection has to begin at the first row, since blocks are
    counted from there.
    """
    from hyperslab.connectors.spark import matrices

    rows_per_block = whole("rows_per_block", rows_per_block, 1)
    cols_per_block = whole("cols_per_block", cols_per_block, 1)
    analysis, blocks = _read(
        sc, path, variable, partitions, selection, is_real=True, unit=rows_per_block
    )
    if analysis.region.start[analysis.axis] or analysis.region.stride[analysis.axis] != 1:
        raise UsageError(
            "a BlockMatrix begins at the first row: leave region= out along the axis of rows"
        )
    rows = analysis.rows
    cols = analysis.row_size
    return matrices.block_matrix(blocks, analysis.axis, rows, cols, rows_per_block, cols_per_block)


def context_of(given: Any) -> SparkContext:
    """The SparkContext that is given, or that of a SparkSession. Raises UsageError."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if isinstance(given, SparkSession):
        given = given.sparkContext
    if not isinstance(given, SparkContext):
        raise UsageError(
            f"a {type(given).__module__}.{type(given).__name__} is not a SparkContext: give"
            " spark.sparkContext; over Spark Connect, which has none, use"
            " spark.read.format('hyperslab')"
        )
    return given


def _read(
    sc: Context,
    path: Any,
    variable: str,
    partitions: int | None,
    selection: Selection,
    is_real: bool = False,
    unit: int | None = None,
) -> tuple[Analysis, RDD[Block]]:
    """What is to be loaded, and the RDD of its blocks; partitions begin at multiples of `unit` rows
    where it is given.

    A warning names the line that called the caller of this function.
    """
    context = context_of(sc)
    analysis = analyze(path, variable, context, **selection)
    if is_real:
        _require_real(analysis)
    cuts = cuts_of(analysis, unit)
    count, said = share(analysis, cuts, partitions, context.defaultParallelism)
    if said:
        warnings.warn(said, stacklevel=3)
    return analysis, seed(context, list(parts_of(analysis, cuts, count))).flatMap(iter)


def _each(blocks: RDD[Block], view: Callable[..., Iterable[Any]]) -> RDD[Any]:
    return blocks.mapPartitions(functools.partial(vectors.each, view))


def _require_real(analysis: Analysis) -> None:
    """Raise UsageError for numbers that float64 cannot represent."""
    dtype = analysis.dtype
    if dtype.kind == "c" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise UsageError(
            f"{analysis.sources[0].url} holds {dtype}, and MLlib's numbers are float64: use h5read"
        )
