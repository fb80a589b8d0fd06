"""Hyperslabs of files in Spark: loaded in parallel as RDDs, DataFrames and matrices, computed on,
and written back.

    metadata analyzer     -> analyzer.py      what is in the files
    hyperslab partitioner -> partitioner.py   where the array is cut
    RDD seeder            -> seeder.py        an RDD of parts, with what their tasks have to know
    RDD constructor       -> constructors.py  an RDD of blocks; rows, vectors, matrices as its views

The four stages are those of H5Spark's figure 1. Importing this package starts nothing, and a task
imports what reads its part (`part.py`), not the stages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from hyperslab.connectors.spark.sessions import session
    from hyperslab.connectors.spark.writing import h5write

_PLACES = {
    "Factors": "factorization",
    "PrincipalComponents": "principal",
    "Selection": "analyzer",
    "block_matrix": "constructors",
    "coordinate_matrix": "constructors",
    "h5read": "constructors",
    "h5read_imat": "constructors",
    "h5read_irow": "constructors",
    "h5read_labeled": "constructors",
    "h5read_point": "constructors",
    "h5read_vec": "constructors",
    "h5write": "writing",
    "nmf": "factorization",
    "pca": "principal",
    "read_blocks": "constructors",
    "row_matrix": "constructors",
    "session": "sessions",
}
"Modules of the public names."
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


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, and what modules have."""
    return sorted({*__all__, *globals()})


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: tasks import this package, and few need all of it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
