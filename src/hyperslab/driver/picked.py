"""Picked: axes of space of which functions keep one voxel, made of one end of a sample alone, as
`block[:, :, 5]` does. A result lies where all that it was made of lies; where such a voxel comes
from a run cannot know, and its place would be wrong.

Each half of a sample is made other in turn: what comes of all of an axis changes with both. Held
by tests/driver/test_picked.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from hyperslab.arrays import Array
from hyperslab.driver.attempt import Attempt
from hyperslab.driver.dependence import made_of
from hyperslab.driver.sample import Sample
from hyperslab.driver.unlike import declared
from hyperslab.errors import speaks_flags
from hyperslab.plan.becoming import taken_of
from hyperslab.plan.pipeline import Pipeline, Step, axes_after


def refused(
    pipeline: Pipeline, steps: Sequence[Step], attempt: Attempt, samples: Iterable[Sample]
) -> Attempt | None:
    """An attempt that has learned of all steps, without the last, where a result of theirs would
    have a wrong place: so says the first of the samples with which they do not fail.
    """
    axes = _placed(pipeline, steps)
    if not axes:
        return None
    for sample in samples:
        with suppress(Exception):  # its tasks will tell what a function raises
            found = [axis for axis in axes if _is_of_one_half(steps, sample, axis)]
            if not found:
                return None
            odd = _sentence(pipeline, steps, found[0])
            return replace(attempt, promises=attempt.promises[:-1], odd=odd, is_last=True)
    return None


def _placed(pipeline: Pipeline, steps: Sequence[Step]) -> list[int]:
    """Axes of space that the results have one voxel of, or none, whose place the results have."""
    whole = pipeline.source.wholes[0]
    if not whole.header.is_placed or any(step.changes_axes for step in pipeline.steps):
        return []
    taken = taken_of(pipeline, whole)
    found = set()
    for axes in axes_after(steps, len(taken), taken):
        gone = set(axes.dropped(len(taken))).intersection(whole.header.space)
        if gone and whole.header.with_axes(axes, whole.shape).is_placed:
            found |= {axis for axis in gone if taken[axis] > 1}
    return sorted(found)


def _is_of_one_half(steps: Sequence[Step], sample: Sample, axis: int) -> bool:
    """Whether what steps make of a sample changes with one half of it along an axis, and with
    nothing in the other.
    """
    n = sample.block.shape[axis]
    if n < 2:
        return False
    halves = (slice(0, n // 2), slice(n // 2, n))
    changes = [_changes(steps, sample, axis, half) for half in halves]
    return changes[0] != changes[1]


def _changes(steps: Sequence[Step], sample: Sample, axis: int, half: slice) -> bool:
    """Whether what steps make of a sample changes with any other values in a part of it."""
    ndim = sample.block.ndim
    axes = axes_after(steps, ndim, sample.slab.count)
    part = tuple(half if each == axis else slice(None) for each in range(ndim))
    before = made_of(steps, sample, axes)
    for values in _others(sample.block, sample.block[part]):
        block = sample.block.copy()
        block[part] = values
        after = made_of(steps, replace(sample, block=block), axes)
        if not all(map(_are_same, before, after)):
            return True
    return False


def _others(block: Array, part: Array) -> Iterator[Array]:
    """Values for a part of a block: its own in another order, and the extremes of the block."""
    yield np.random.default_rng(2).permutation(part.ravel()).reshape(part.shape)
    yield np.full_like(part, block.max())
    yield np.full_like(part, block.min())


def _are_same(a: Array, b: Array) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def _sentence(pipeline: Pipeline, steps: Sequence[Step], axis: int) -> str:
    """What is told of a result whose place is not known, and what to do."""
    shape = pipeline.source.wholes[0].shape
    ndim = len(shape)
    axes = next(each for each in axes_after(steps, ndim, shape) if axis in each.dropped(ndim))
    new = {
        position: str(axes.lengths[position]) for position, of in enumerate(axes.kept) if of is None
    }
    asked = ",".join("5:6" if each == axis else ":" for each in range(ndim))
    region = f"--region {asked}" if speaks_flags() else f"region='{asked}'"
    return (
        f"{steps[-1].ref.name} keeps one voxel of axis {axis}, which it makes of one end of the"
        f" block alone, so where that lies in space is not known: choose the voxels with {region}"
        f" or the like, or say {declared(axes.dropped(ndim), new)} to have the result placed as"
        " one voxel as thick as the whole axis"
    )
