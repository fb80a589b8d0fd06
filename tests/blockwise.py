"""What engines do with a pipeline's functions, without an engine: cut into random blocks, apply,
merge in any order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.slab import Hyperslab
from hyperslab.plan.pipeline import Fold, Pipeline, Reduce

SHAPES = hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=7)
NUMBERS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def arrays(dtype: str, **kind: Any) -> st.SearchStrategy[Array]:
    return hnp.arrays(dtype, SHAPES, elements=hnp.from_dtype(np.dtype(dtype), **kind))


def blocks_of(shape: Sequence[int], seed: int, align: Sequence[int] = (1, 1, 1)) -> list[Hyperslab]:
    """A partition with blocks of a random shape, in random order."""
    rng = random.Random(seed)
    extent = tuple(rng.randint(1, n) for n in shape)
    found = list(
        cut(Layout(tuple(shape), (2, 1, 0), 1, None), Rule("block-shape", extent), 0, align)
    )
    rng.shuffle(found)
    return found


def reduce_blocks(pipeline: Pipeline, data: Array, seed: int) -> Any:
    """What an engine does with a pipeline that ends in a fold: lift each block, merge as it likes,
    finish.
    """
    assert isinstance(pipeline.end, Reduce)
    fold: Fold = pipeline.end.ref.load()
    return _fold(fold, data, seed, dict(pipeline.end.ref.params))


def _fold(fold: Fold, data: Array, seed: int, params: dict[str, Any]) -> Any:
    if fold.prior is not None:
        params["prior"] = _fold(fold.prior, data, seed + 1, {})
    rng = random.Random(seed)
    values = [
        fold.lift(np.asfortranarray(data[slab.slices()]), **params)
        for slab in blocks_of(data.shape, seed)
    ]
    while len(values) > 1:
        values.append(
            fold.merge(
                values.pop(rng.randrange(len(values))), values.pop(rng.randrange(len(values)))
            )
        )
    return fold.finish(values[0]) if fold.finish else values[0]
