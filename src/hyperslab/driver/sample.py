"""Sample: made-up blocks that functions are tried on, before a run begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.arrays import Array, DType
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import BlockError
from hyperslab.plan.failure import locate
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Step
from hyperslab.plan.returned import require_arrays
from hyperslab.plan.steps import call

SAMPLE_NBYTES = 64 * 2**20
"Bytes of all blocks of a sample, at most."
_LOW, _HIGH = 10, 100
"Bounds of the values of a sample, but for its extremes."
_LEAST, _LARGEST = 1, 120
"Extremes of a sample, at its first and its last element; any dtype of numbers holds them."


@dataclass(frozen=True, slots=True)
class Sample:
    """Made-up blocks of all inputs of a pipeline, of one shape."""

    block: Array
    "Block of the first input, with its halo."
    others: Mapping[str, Array]
    "Blocks of the further inputs, which have its shape."
    slab: Hyperslab
    "Where they lie, without the halo."
    halo: tuple[int, ...]

    @classmethod
    def of(
        cls, pipeline: Pipeline, dtypes: Sequence[DType], extents: Sequence[int]
    ) -> Sample | None:
        """Blocks of these extents, and the halo; None where they would be too large."""
        shape = [n + 2 * h for n, h in zip(extents, pipeline.halo, strict=True)]
        if np.prod(shape, dtype=float) * sum(dtype.itemsize for dtype in dtypes) > SAMPLE_NBYTES:
            return None
        first, *others = [_numbers(shape, dtype) for dtype in dtypes]
        named = dict(zip(list(pipeline.inputs)[1:], others, strict=True))
        return cls(first, named, Hyperslab.full(tuple(extents)), pipeline.halo)

    def like(self, seen: Mapping[str, Array]) -> Sample:
        """A sample that holds values which were seen of an input, by the input's name and in their
        order, all over; an input of which nothing was seen keeps its numbers.
        """
        blocks = {PRIMARY: self.block, **self.others}
        for name, values in seen.items():
            blocks[name] = _strewn(values, blocks[name])
        first = blocks.pop(PRIMARY)
        return replace(self, block=first, others=blocks)

    def part(self, slab: Hyperslab) -> Sample:
        """The blocks of a region, with their halo."""
        ends = zip(slab.start, slab.count, self.halo, strict=True)
        read = tuple(slice(first, first + n + 2 * h) for first, n, h in ends)
        others = {name: block[read] for name, block in self.others.items()}
        return Sample(self.block[read], others, slab, self.halo)

    def returned(self, step: Step, block: Array) -> dict[str, Array]:
        """The arrays that a step returns for a block that the steps before it have made, by their
        names. Raises what the function raises, and BlockError for what is no array.
        """
        function = step.ref.load()
        # what a function changes in its block must change nothing here
        value = call(function, block.copy(), self.others, step.ref.params, self.slab)
        named = _named(value)
        try:
            require_arrays(named, step, block.ndim)
        except BlockError as error:
            locate(error, function)
            raise
        return {name: np.asarray(each) for name, each in named.items()}


def _numbers(shape: Sequence[int], dtype: DType) -> Array:
    """Random positive values that spread the less, the nearer they are to a face, and have their
    extremes in two corners: the middle along any axis has other extremes, means and percentiles. A
    mask holds in both corners.
    """
    spread = np.full(shape, 1.0 + len(shape))
    for axis, n in enumerate(shape):
        spread -= np.abs(np.linspace(-1, 1, n)).reshape(-1, *[1] * (len(shape) - axis - 1))
    numbers = np.random.default_rng(0).uniform(0, 1, shape) * spread / (1 + len(shape))
    values = (_LOW + numbers * (_HIGH - _LOW)).ravel()
    if dtype.kind == "b":
        values = np.where(values > np.median(values), values, 0)
    values[:1] = _LEAST
    values[-1:] = _LARGEST
    return np.asarray(values.reshape(shape), dtype)


def _strewn(ordered: Array, block: Array) -> Array:
    """Quantiles of ordered values in random places, the same for all inputs, as a block like
    another.

    Where some are beyond a threshold, they make clusters of all sizes, up to the faces.
    """
    taken = np.linspace(0, ordered.size - 1, block.size).round().astype(int)
    places = np.random.default_rng(1).permutation(block.size)
    return np.asarray(ordered[taken][places].reshape(block.shape), block.dtype)


def _named(value: Any) -> Mapping[str, Any]:
    """What a function has returned, by name: the keys of a dict, the fields or the places of a
    tuple.
    """
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    if isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
        names = getattr(value, "_fields", range(len(value)))
        return dict(zip(map(str, names), value, strict=True))
    return {"": value}
