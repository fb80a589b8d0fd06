"""increment: add one to every voxel, again and again, with a pause after each time.

A benchmark whose work per block is known, delay x iterations, whatever the data (M. Dugré, V.
Hayot-Sasson, T. Glatard, "A performance comparison of Dask and Apache Spark for data-intensive
neuroimaging pipelines", 2019, Algorithm 1).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import output_dtype
from hyperslab.plan.pipeline import Pipeline

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = (
    "Add one to every voxel, `iterations` times, and sleep `delay` seconds after each (integers"
    " wrap around)."
)
PARAMS: Mapping[str, str] = {
    "iterations": "how many times, each one a step of the pipeline",
    "delay": "seconds of sleep after each time",
}


def build(pipeline: Pipeline, iterations: int = 1, delay: float = 0.0) -> Pipeline:
    """Add one step per iteration, so that a stepwise plan has one operator for each. Raises
    UsageError.
    """
    if iterations < 1:
        raise UsageError(f"--param iterations={iterations}: give 1 or more")
    if not 0 <= delay < float("inf"):
        raise UsageError(f"--param delay={delay:g}: give 0 or more seconds")
    dtype = output_dtype(pipeline)
    if dtype.kind not in "iufc":
        raise UsageError(f"increment needs numbers, not {dtype}")
    for _ in range(iterations):
        pipeline = pipeline.map(increment, {"delay": delay}, temporaries=0)
    return pipeline


def increment(block: Array, delay: float = 0.0) -> Array:
    """block + 1 in its own memory and dtype: the largest integer becomes the smallest."""
    np.add(block, 1, out=block)
    time.sleep(delay)
    return block
