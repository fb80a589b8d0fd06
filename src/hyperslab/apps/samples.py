"""Samples: windows of an array where something happens, and what a pipeline makes of them, as one
block or cut in two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.admission import halo_of
from hyperslab.errors import BlockError, DoesNotFit
from hyperslab.formats import HOLDS_ANY
from hyperslab.machine.host import Host
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.pipeline import PRIMARY, Pipeline
from hyperslab.plan.region import region_of
from hyperslab.plan.steps import made_of
from hyperslab.plan.task import Job, Task
from hyperslab.report.failures import failed, where_words
from hyperslab.units import show_bytes

LARGEST_EXTENT = 64
LARGEST_SAMPLE = 2**20
"Elements of the window, at most."
LEAST_SHARE = 0.01
"Share of the elements that differ from the most frequent one, below which hardly anything happens."
UNBOUNDED = Budget(2**62, 1)
"Memory that no block is cut for."
Arrays = dict[str, Array]
"What a function makes, by name; '' where it is one array."


class Sample(NamedTuple):
    """A window of an array."""

    window: Hyperslab
    is_nearly_constant: bool


def samples_of(pipeline: Pipeline) -> Iterator[Sample]:
    """Parts of the first array, or of its region, whose values differ, from the middle outwards;
    its middle where there are none.
    """
    plain = pipeline.altered(steps=(), inputs={PRIMARY: pipeline.source}, resample={})
    places = list(dict.fromkeys(_places(_taken(pipeline))))
    found = False
    for window in places:
        (values,) = made_of_window(plain, window).values()
        if not is_constant(values):
            found = True
            yield Sample(window, is_nearly_constant(values))
    if not found:
        yield Sample(places[0], is_nearly_constant=True)


def long_samples_of(pipeline: Pipeline, window: Hyperslab) -> Iterator[tuple[int, Sample]]:
    """Axes of the first array, or of its region, that are longer than a window, each with a part
    around the middle that is as long as possible there, if its values differ.
    """
    plain = pipeline.altered(steps=(), inputs={PRIMARY: pipeline.source}, resample={})
    taken = _taken(pipeline)
    for axis, (extent, tried) in enumerate(zip(taken.count, window.count, strict=True)):
        if extent <= tried:
            continue
        place = _long_place(taken, axis)
        (values,) = made_of_window(plain, place).values()
        if not is_constant(values):
            yield axis, Sample(place, is_nearly_constant(values))


def _long_place(taken: Hyperslab, axis: int) -> Hyperslab:
    """The middle of an array, cut short along all axes before it is along one."""
    shape = taken.count
    count = [min(n, LARGEST_EXTENT) for n in shape]
    count[axis] = min(shape[axis], LARGEST_SAMPLE)
    while math.prod(count) > LARGEST_SAMPLE:
        others = [each for each in range(len(count)) if each != axis and count[each] > 1]
        longest = max(others, key=count.__getitem__, default=axis)
        count[longest] //= 2
    start = tuple((n - c) // 2 for n, c in zip(shape, count, strict=True))
    return Hyperslab(start, tuple(count)).shift(taken.start)


def _taken(pipeline: Pipeline) -> Hyperslab:
    """The part of the first array that a pipeline is over."""
    whole = pipeline.source.wholes[0]
    if pipeline.region is None:
        return Hyperslab.full(whole.shape)
    return pipeline.region.within(whole)


def _places(taken: Hyperslab) -> Iterator[Hyperslab]:
    shape = taken.count
    count = [min(n, LARGEST_EXTENT) for n in shape]
    while math.prod(count) > LARGEST_SAMPLE:
        longest = max(range(len(count)), key=count.__getitem__)
        count[longest] //= 2
    for share in itertools.product((0.5, 0.25, 0.75), repeat=min(3, len(shape))):
        shares = [*share, *(0.5,) * (len(shape) - len(share))]
        start = [int((n - c) * s) for n, c, s in zip(shape, count, shares, strict=True)]
        yield Hyperslab(tuple(start), tuple(count)).shift(taken.start)


def cut_of(extent: int) -> int:
    """Where an axis is cut in two: behind its middle, if there is a place for that, by a number
    that is no multiple of 2 or 3, else by an odd one. What counts planes by twos or threes then
    makes something else of the second part, and neither half is like the other.
    """
    middle = math.ceil(extent / 2)
    places = range(middle, extent - max(1, extent // 3) + 1)
    odd = [place for place in places if place % 2]
    best = [place for place in odd if place % 3]
    return next(iter([*best, *odd]), middle)


def made_of_window(pipeline: Pipeline, window: Hyperslab, axis: int | None = None) -> Arrays:
    """What a pipeline makes of a window, as one block, or of two along an axis. Raises DoesNotFit
    for a halo with which that is too large for this machine.
    """
    parts = list(window.count)
    if axis is not None:
        parts[axis] = cut_of(window.count[axis])
    over = pipeline.altered(
        end=None, region=region_of([slice(*ends) for ends in zip(*window.bounds, strict=True)])
    ).write("nowhere", HOLDS_ANY, "blocks")
    plan = compile_plan(over, Rule("block-shape", tuple(parts)), UNBOUNDED)
    _require_memory(plan, window)
    (stage,) = plan.stages
    blocks = {task.core.start: _made_of(stage.job, task) for task in stage.tasks}
    joined = {}
    for number, (promise, made) in enumerate(zip(pipeline.returns, pipeline.axes, strict=True)):
        parts_of_it = [blocks[start][number] for start in sorted(blocks)]
        joined[promise.name] = parts_of_it[0]
        if len(parts_of_it) > 1:
            joined[promise.name] = np.concatenate(parts_of_it, made.kept.index(axis))
    return joined


def _require_memory(plan: Plan, window: Hyperslab) -> None:
    """Raise DoesNotFit for a halo with which a block of a window needs more memory than there
    is.
    """
    needed = max(task.bytes_peak for task in plan.tasks)
    halo = halo_of(plan, needed)
    available = Host.here().memory_bytes
    if halo is None or needed <= available:
        return
    extent = "x".join(map(str, window.count))
    raise DoesNotFit(
        f"a sample of {extent} elements needs {show_bytes(needed)} of memory with its halo, but"
        f" this machine has {show_bytes(available)} available: use {halo.remedy}"
    )


def _made_of(job: Job, task: Task) -> tuple[Array, ...]:
    """The arrays that a task makes. Raises BlockError with the place in the user's own code."""
    state = made_of(job, task)
    if state.failure is None:
        return state.made
    error = BlockError(f"{state.failure.where}: {state.failure.message}")
    error.frame = state.failure.frame
    if where := where_words(failed("", state.failure, 1)):
        error.add_note(f"    {where}")
    raise error


def equal(a: Array, b: Array) -> Array:
    """Where the values of two arrays are the same, NaN among them."""
    same: Array = a == b
    if a.dtype.kind in "fc":
        same |= np.isnan(a) & np.isnan(b)
    return same


def is_constant(values: Array) -> bool:
    """Whether there is one value throughout."""
    return bool(equal(values, np.broadcast_to(values.flat[0], values.shape)).all())


def is_nearly_constant(values: Array) -> bool:
    """Whether there is one value but for few elements, which is then in the middle of all."""
    flat = values.ravel()
    middle = np.partition(flat, flat.size // 2)[flat.size // 2]
    others = np.count_nonzero(~equal(flat, np.broadcast_to(middle, flat.shape)))
    return bool(others < LEAST_SHARE * flat.size)
