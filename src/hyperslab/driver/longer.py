"""Longer: what steps return for samples that are as long as an array along an axis, or shorter than
one that is whole, held against what they have promised for other samples.

Held by tests/driver/test_longer.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hyperslab.arrays import Array, DType
from hyperslab.driver.attempt import Attempt, extents_of, tried
from hyperslab.driver.inferred import is_contradicted, pairs_of
from hyperslab.driver.lengths import some_of
from hyperslab.driver.sample import Sample
from hyperslab.driver.unlike import Pair, Resized, Unexplained, Unlike
from hyperslab.plan.pipeline import Pipeline, Step, axes_after
from hyperslab.plan.promise import Promise

_MOST_VALUES = 2**20
"Values of a sample that is as long as an array, at most: longer arrays are not tried."


@dataclass(frozen=True, slots=True)
class Misfits:
    """What steps return otherwise than promised for samples as long as an array."""

    axes: frozenset[int] = frozenset()
    "Axes of the source along which these samples were as long."
    unlike: Mapping[tuple[int, str], Unlike] = field(default_factory=dict)
    "What was returned for the last of them, by step and array."


def misfits(
    pipeline: Pipeline,
    steps: Sequence[Step],
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    attempt: Attempt,
    seen: Mapping[str, Array],
) -> Misfits:
    """What steps, which have their promises, return otherwise for samples that are as long as any
    of the arrays along one axis, of those that were not whole in an attempt.
    """
    found = Misfits()
    for shape in some_of(list(set(shapes))):
        # arrays of other lengths along axes that are whole have promises of their own
        lengths = [shapes[0][a] if a in attempt.whole else n for a, n in enumerate(shape)]
        unlike = _unfit(pipeline, steps, dtypes, [(n, n) for n in lengths], seen)
        if unlike == {}:
            continue
        axes = set(range(len(shape))) - attempt.whole
        each = {}
        for axis in axes:
            extents = extents_of(lengths, attempt.whole | {axis})
            if of_axis := _unfit(pipeline, steps, dtypes, extents, seen):
                each[axis] = of_axis
        if unlike and not each:
            each = dict.fromkeys(axes, unlike)
        for axis, of_axis in each.items():
            found = Misfits(found.axes | {axis}, of_axis)
    return found


def _unfit(
    pipeline: Pipeline,
    steps: Sequence[Step],
    dtypes: Sequence[DType],
    extents: Sequence[Pair],
    seen: Mapping[str, Array],
) -> dict[tuple[int, str], Unlike] | None:
    """Arrays that the first step to do so returns in another shape than it has promised, for
    samples of these extents; None where the samples would be large, and where a step fails.
    """
    if math.prod(more for _, more in extents) > _MOST_VALUES:
        return None
    shapes = list(dict.fromkeys(zip(*extents, strict=True)))
    made = [Sample.of(pipeline, dtypes, shape) for shape in shapes]
    samples = [sample.like(seen) for sample in made if sample is not None]
    if len(samples) < len(made):
        return None
    blocks = [sample.block for sample in samples]
    for number, step in enumerate(steps):
        try:
            pairs = zip(samples, blocks, strict=True)
            returned = [sample.returned(step, block) for sample, block in pairs]
        except (Exception, SystemExit):  # noqa: BLE001  # its tasks will tell what it raises
            return None
        found = {}
        for place, (promise, arrays) in enumerate(_paired(step, returned)):
            each_of = zip(arrays, samples, blocks, strict=True)
            if not all(_fits(steps[: number + 1], place, *each) for each in each_of):
                first = arrays[0]
                given, got = (pairs_of((each[0], each[-1])) for each in (blocks, arrays))
                unlike = Unlike(given, got, first.shape, str(first.dtype), is_number=True)
                found[number, promise.name] = unlike
        if found and not pipeline.steps[number].changes_axes:
            return found
        blocks = [next(iter(arrays.values())) for arrays in returned]
    return {}


def _paired(
    step: Step, returned: Sequence[Mapping[str, Array]]
) -> Iterator[tuple[Promise, list[Array]]]:
    """Promises of a step, each with the arrays that it has returned for two samples."""
    names = [promise.name for promise in step.returns]
    for place, promise in enumerate(step.returns):
        arrays = []
        for each in returned:
            known = names
            if set(names) != set(each):  # named by the user, in the order of a tuple
                known = list(each)
            arrays.append(each[known[place]])
        yield promise, arrays


def _fits(steps: Sequence[Step], place: int, array: Array, sample: Sample, block: Array) -> bool:
    """Whether an array of the last of these steps has the shape that it has promised, with the halo
    or without it.
    """
    count = sample.slab.count
    without_halo = axes_after(steps, len(count), count)[place].shape(count)
    return array.shape in (steps[-1].shapes(block.shape)[place], without_halo)


def is_mistaken(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[DType],
    shape: Sequence[int],
    seen: Mapping[str, Array],
) -> bool:
    """Whether an attempt has taken one axis for another of the same length, where both were whole,
    as samples show that are shorter along one of them; or may have, where steps fail for these.
    """
    for axis in (axis for axis in sorted(attempt.whole) if shape[axis] > 1):
        extents = extents_of(shape, attempt.whole, (axis, 1))
        shorter = tried(pipeline, dtypes, extents, seen, Unexplained())
        if any(map(_differ, attempt.promises, shorter.promises)):
            return True
        is_open = shorter.error and not shorter.promises
        if is_open and any(_may_be_new(one, axis, shape) for one in attempt.promises[0]):
            return True
        number = len(shorter.promises)
        if number == len(attempt.promises):
            continue
        for promise in attempt.promises[number]:
            unlike = shorter.unlike.get((number, promise.name))
            if unlike is not None and is_contradicted(promise, unlike):
                return True
    return False


def _may_be_new(promise: Promise, axis: int, shape: Sequence[int]) -> bool:
    """Whether an array has an axis of its block, and a new one as long."""
    is_kept = axis in promise.axes(len(shape)).kept
    return is_kept and shape[axis] in dict(promise.new_axis).values()


def _differ(promises: Sequence[Promise], others: Sequence[Promise]) -> bool:
    """Whether arrays have other axes of their block, or new ones in other places."""
    return list(map(_axes_of, promises)) != list(map(_axes_of, others))


def _axes_of(promise: Promise) -> tuple[str, tuple[int, ...], list[int]]:
    return promise.name, promise.drop_axis, [position for position, _ in promise.new_axis]


def resized_wholes(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[DType],
    shape: Sequence[int],
    seen: Mapping[str, Array],
) -> Resized:
    """Axes of whole samples that arrays have longer or shorter, by as much in one that is an
    element shorter, and in one that is two: of every second element, one of these has as many as
    the next longer one.
    """
    found = Resized()
    for axis in (axis for axis in sorted(attempt.whole) if shape[axis] > 2):
        shorter = [extents_of(shape, attempt.whole, (axis, less)) for less in (1, 2)]
        one, two = (
            tried(pipeline, dtypes, extents, seen, Unexplained()).resized for extents in shorter
        )
        found.add({array: axes & two.get(array, set()) for array, axes in one.items()})
    return found
