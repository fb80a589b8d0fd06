"""Hyperslabs of files in Spark: loaded in parallel as RDDs, DataFrames and matrices, computed on,
and written back.

    metadata analyzer     -> analyzer.py      what is in the files
    hyperslab partitioner -> partitioner.py   where the array is cut
    RDD seeder            -> seeder.py        an RDD of regions, with what their tasks have to know
    RDD constructor       -> constructors.py  an RDD of blocks; rows, vectors, matrices as its views

The four stages are those of H5Spark's figure 1. Importing this package starts nothing.
"""

from hyperslab.connectors.spark.analyzer import Selection
from hyperslab.connectors.spark.constructors import (
    block_matrix,
    coordinate_matrix,
    h5read,
    h5read_imat,
    h5read_irow,
    h5read_labeled,
    h5read_point,
    h5read_vec,
    read_blocks,
    row_matrix,
)
from hyperslab.connectors.spark.factorization import Factors, nmf
from hyperslab.connectors.spark.principal import PrincipalComponents, pca
from hyperslab.connectors.spark.session import session
from hyperslab.connectors.spark.writing import h5write

__all__ = [
    "Factors",
    "PrincipalComponents",
    "Selection",
    "block_matrix",
    "coordinate_matrix",
    "h5read",
    "h5read_imat",
    "h5read_irow",
    "h5read_labeled",
    "h5read_point",
    "h5read_vec",
    "h5write",
    "nmf",
    "pca",
    "read_blocks",
    "row_matrix",
    "session",
]
