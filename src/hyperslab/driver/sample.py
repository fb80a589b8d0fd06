"""Sample: blocks that functions are tried on before a run begins, made up or seen of its inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
SPACE = 3
"Axes of space, the first ones: along these a box of neighbours is long."
_EDGES = (24, 16, 12, 8)
"Extents of a box of neighbours along axes of space, the first that is not too large."
_FURTHER = 4
"Extent of that box along further axes."
_PLACES = 5
"Places along each axis of space where a box of neighbours may lie."
_MOST_VALUES = 2**16
"Values of a box of neighbours, at most: tried in some milliseconds, or slow to compute anywhere."
_LOW, _HIGH = 10, 100
"Bounds of the values of a sample, but for its extremes."
_LEAST, _LARGEST = 1, 120
"Extremes of a sample, at its first and its last element; any dtype of numbers holds them."

Region = tuple[Hyperslab, Array]
"Where values lie in their array, and they themselves."


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

    def amid(self, seen: Mapping[str, Region]) -> Sample:
        """A sample that holds neighbours of the region that was seen of the first input, from where
        they are least alike; and those of other inputs in the same place, where they were seen.
        """
        slab, region = seen[PRIMARY]
        shape = self.block.shape
        within = max(_boxes(region.shape, shape), key=lambda box: _spread(region[box.slices()]))
        firsts = within.shift(slab.start).start
        blocks = {PRIMARY: self.block, **self.others}
        for name, (own, array) in seen.items():
            inner = _inner(Hyperslab(firsts, shape), own)
            if inner is not None:
                block = array[inner.slices()]
                block = block.reshape(*block.shape, *[1] * (len(shape) - block.ndim))
                blocks[name] = np.asarray(np.broadcast_to(block, shape), blocks[name].dtype)
        first = blocks.pop(PRIMARY)
        return replace(self, block=first, others=blocks)

    def with_clusters(self, across: Collection[int], lowest: Any, largest: Any) -> Sample:
        """A sample whose first block holds clusters of known sizes, with nothing between them:
        across one axis plates of one voxel, two and four, across two axes bars.

        They run through all of the block. A function that asks how large a cluster is makes
        something else of one of them where the block is cut in half.
        """
        shape = self.block.shape
        is_inside = np.ones(shape, bool)
        for axis in across:
            further = [1] * (len(shape) - axis - 1)
            is_inside &= _layers(shape[axis]).reshape(-1, *further)
        values = np.where(is_inside, largest, lowest)
        return replace(self, block=values.astype(self.block.dtype))

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
        own = block.copy()  # what a function changes in its block must change nothing here
        value = call(function, own, self.others, step.ref.params, self.slab)
        named = _named(value)
        try:
            require_arrays(named, step, block.ndim)
        except BlockError as error:
            locate(error, function, value, own)
            raise
        return {name: np.asarray(each) for name, each in named.items()}


def _boxes(region: Sequence[int], shape: Sequence[int]) -> Iterator[Hyperslab]:
    """Boxes of a shape in a region, in a few places along the axes of space."""
    choices = []
    for axis, (n, count) in enumerate(zip(region, shape, strict=True)):
        places = _PLACES if axis < SPACE else 1
        ends = np.linspace(0, n - count, places + 2)[1:-1]
        choices.append(sorted({0 if n == count else round(end) for end in ends}))
    for start in itertools.product(*choices):
        yield Hyperslab(start, tuple(shape))


def _spread(block: Array) -> float:
    """Standard deviation of the finite values in the middle half of a block."""
    middle = block[tuple(slice(n // 4, n - n // 4) for n in block.shape)]
    values = middle[np.isfinite(middle)]
    return float(values.std(dtype=np.float64)) if values.size else 0.0


def _layers(n: int) -> Array:
    """Layers of one, two and four of n voxels, as far as the middle half has room: True within."""
    found = np.zeros(n, bool)
    first = n // 4 + 1
    thickness = 1
    while first + thickness <= n - n // 4:
        found[first : first + thickness] = True
        first += thickness + 1
        thickness *= 2
    return found


def _inner(place: Hyperslab, own: Hyperslab) -> Hyperslab | None:
    """A place within a region, along the axes that this has; None where it is not all of it."""
    starts = [a - b for a, b in zip(place.start, own.start, strict=False)]
    ends = [start + n for start, n in zip(starts, place.count, strict=False)]
    lasts = zip(ends, own.count, strict=False)
    if min(starts) < 0 or any(end > n for end, n in lasts):
        return None
    return Hyperslab(tuple(starts), place.count[: own.ndim])


def largest_extents(ndim: int) -> list[int]:
    """Extents of the largest box of neighbours that is tried."""
    return [_EDGES[0] if axis < SPACE else _FURTHER for axis in range(ndim)]


def extents_amid(
    region: Sequence[int], halo: Sequence[int], whole: Mapping[int, int]
) -> tuple[int, ...]:
    """Extents, without the halo, of as large a box as is quick to try within a region of this
    shape; () where none fits. `whole` axes have the extents that they must have.
    """
    room = [n - 2 * h for n, h in zip(region, halo, strict=True)]
    if min(room) < 1 or any(extent > room[axis] for axis, extent in whole.items()):
        return ()
    for edge in _EDGES:
        edges = [min(n, edge if axis < SPACE else _FURTHER) for axis, n in enumerate(room)]
        extents = [whole.get(axis, n) for axis, n in enumerate(edges)]
        if math.prod(n + 2 * h for n, h in zip(extents, halo, strict=True)) <= _MOST_VALUES:
            return tuple(extents)
    return ()


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


def dtypes_of(pipeline: Pipeline) -> list[tuple[DType, ...]]:
    """dtypes of the inputs of each whole, in order, but for those that another one has before it;
    a further input of fewer arrays has its last one for all that follow.
    """
    found: dict[tuple[DType, ...], None] = {}
    for number in range(len(pipeline.source)):
        of_whole = []
        for inputs in pipeline.inputs.values():
            whole = inputs.wholes[min(number, len(inputs) - 1)]
            of_whole.append(inputs.first(whole).dtype(pipeline.values))
        found.setdefault(tuple(of_whole))
    return list(found)
