"""What the arrays of a pipeline become: said once, when it is compiled.

Sinks describe files from it, costs and partition are computed from it, and tasks are sent with it;
none of them asks the pipeline for a shape or a dtype again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.arrays import DType
from hyperslab.arrays.axes import Axes, for_each
from hyperslab.arrays.header import Header, without_those_along
from hyperslab.arrays.quantities import (
    may_measure_same,
    without_quantity,
    without_range,
    without_truth,
)
from hyperslab.arrays.sets import Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Step, Write, axes_after
from hyperslab.plan.promise import Promise


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """One array that a whole becomes: written to files, or handed to a fold."""

    name: str
    "Name by which the function returns it; '': it is the only one."
    shape: tuple[int, ...]
    dtype: DType
    of_whole: Axes
    "Axes that it has, seen from the whole."
    axes: tuple[int, ...]
    "Axes in the order in which the source stores them; new ones come first."
    scale: tuple[int, ...]
    "Voxels of the whole that become one, per axis of the whole."
    header: Header
    "Header of all of it but for merged voxels, to which `header_of` moves it."
    scaling: Scaling | None
    "Slope and intercept that a file of stored values must say to keep their meaning."
    unit: tuple[int, ...]
    """Multiples that inner cuts of the whole keep to, per axis of the whole: merged voxels, and the
    chunks of files that several tasks write to.
    """
    origin: tuple[int, ...] = ()
    """First voxel in the whole of the region that it is made of, per axis of the whole; (): it is
    made of all.
    """

    @property
    def is_like_whole(self) -> bool:
        """Whether it has the axes of the whole."""
        return self.of_whole.is_same(len(self.scale))

    def shape_of(self, count: Sequence[int]) -> tuple[int, ...]:
        """Shape of what a block of the whole becomes."""
        merged = [math.ceil(n / s) for n, s in zip(count, self.scale, strict=True)]
        return self.of_whole.shape(merged)

    def region_of(self, core: Hyperslab) -> Hyperslab:
        """The region of this array that a block of the whole becomes."""
        origin = self.origin or (0,) * len(core.start)
        inner = [first - o for first, o in zip(core.start, origin, strict=True)]
        start = [first // s for first, s in zip(inner, self.scale, strict=True)]
        none = (0,) * self.of_whole.ndim
        return Hyperslab(self.of_whole.pick(start, none), self.shape_of(core.count))

    def header_of(self, core: Hyperslab | None = None) -> Header:
        """The header of what a block of the whole becomes, or of all of it."""
        scale = self.of_whole.pick(self.scale, (1,) * self.of_whole.ndim)
        if core is None:
            return _merged(self.header, scale)
        return _merged(self.header.for_slab(self.of_whole.region(core)), scale)

    def cut_by(self, chunk: Sequence[int]) -> Made:
        """The same, where files hold it in chunks of this shape."""
        unit = list(self.unit)
        for axis, n in zip(self.of_whole.kept, chunk, strict=True):
            if axis is not None:
                unit[axis] = self.scale[axis] * n
        return replace(self, unit=tuple(unit))


@dataclass(frozen=True, slots=True, eq=False)
class Becoming:
    """What one whole of a pipeline goes through."""

    given: tuple[DType, ...]
    "dtypes of its blocks as read, per input."
    outputs: tuple[Made, ...]
    "The arrays that the last step returns."
    dropped: tuple[int, ...] = ()
    "Axes of the whole that every block holds whole, as a function drops them."

    @property
    def main(self) -> Made:
        """The first of its arrays."""
        return self.outputs[0]

    @property
    def unit(self) -> tuple[int, ...]:
        """Multiples that inner cuts of the whole keep to, per axis."""
        units = zip(*(made.unit for made in self.outputs), strict=True)
        return tuple(math.lcm(*axis) for axis in units)


def become(pipeline: Pipeline) -> tuple[Becoming, ...]:
    """What every whole of a pipeline becomes. Raises UsageError where files of one whole have
    different dtypes, and for axes that cannot be.
    """
    dropped = pipeline.dropped
    found = []
    for index, whole in enumerate(pipeline.source.wholes):
        given = tuple(input_dtype(pipeline, name, index) for name in pipeline.inputs)
        axes_of_all = axes_after(pipeline.steps, len(whole.shape), taken_of(pipeline, whole))
        promised = zip(pipeline.returns, axes_of_all, strict=True)
        before = _dtype_after(pipeline.steps[:-1], given[0])
        outputs = tuple(
            _made(pipeline, whole, promise, axes, given[0], promise.made_of(before))
            for promise, axes in promised
        )
        found.append(Becoming(given, outputs, dropped))
    return tuple(found)


def taken_of(pipeline: Pipeline, whole: Whole) -> tuple[int, ...]:
    """Shape of what a pipeline takes of a whole: all, or its region. Raises UsageError for a region
    that the whole does not have.
    """
    if pipeline.region is None:
        return whole.shape
    return pipeline.region.within(whole).count


def output_dtype(pipeline: Pipeline) -> DType:
    """dtype of the blocks of all wholes after the last step. Raises UsageError where it is not one
    for all.
    """
    named = _last_dtype(pipeline.steps)
    if named is not None:
        return named
    wholes = range(len(pipeline.source))
    given = {input_dtype(pipeline, PRIMARY, index) for index in wholes}
    made = {_dtype_after(pipeline.steps, dtype) for dtype in given}
    if len(made) == 1:
        return made.pop()
    return input_dtype(pipeline, PRIMARY, None)


def _dtype_after(steps: Sequence[Step], dtype: DType) -> DType:
    """dtype that steps make of a block of this one."""
    for step in steps:
        dtype = step.returns[0].made_of(dtype)
    return dtype


def _last_dtype(steps: Sequence[Step]) -> DType | None:
    """dtype that the last of the steps that name one returns."""
    named = [promise.dtype for step in steps for promise in step.returns if promise.dtype]
    if not named:
        return None
    return np.dtype(named[-1])


def input_dtype(pipeline: Pipeline, name: str, index: int | None) -> DType:
    """dtype of the blocks of an input, of one whole or of all."""
    inputs = pipeline.inputs[name]
    wholes = inputs.wholes
    if index is not None:
        wholes = (inputs.beside(index),)
    members = [member for whole in wholes for member in whole.members]
    dtypes = {inputs.sources[member.source].dtype(pipeline.values) for member in members}
    if len(dtypes) > 1:
        listed = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise UsageError(
            f"the files of {name or 'the source'} have different dtypes ({listed}): run them one"
            " by one"
        )
    return dtypes.pop()


def _made(
    pipeline: Pipeline, whole: Whole, promise: Promise, axes: Axes, given: DType, dtype: DType
) -> Made:
    scale = for_each(pipeline.scale, len(whole.shape), 1)
    source = pipeline.source.first(whole)
    region = _volume_region(pipeline, whole)
    shape = whole.shape
    origin: tuple[int, ...] = ()
    header = whole.header
    if region is not None:
        shape = region.count
        origin = region.start
        header = header.for_slab(region)
    merged = [math.ceil(n / s) for n, s in zip(shape, scale, strict=True)]
    scaling = None
    # whether one of several arrays still holds stored values, nobody says
    if not promise.name and _stays_stored(pipeline, source, dtype):
        header = replace(header, real=source.real)
        scaling = source.scaling
    is_unscaled = pipeline.values == "stored" and scaling != source.scaling
    if is_unscaled or not _measures_the_same(pipeline.steps, promise, given):
        kept = without_quantity(header.attributes)
        header = replace(header, attributes=kept, is_other_quantity=True)
    elif any(not step.ref.is_cast for step in pipeline.steps):
        header = replace(header, attributes=without_range(header.attributes))
    elif dtype != source.dtype("stored"):
        header = replace(header, attributes=without_truth(header.attributes))
    if not axes.is_same(source.ndim):
        header = header.with_axes(axes, shape)
    return Made(
        name=promise.name,
        shape=axes.shape(merged),
        dtype=dtype,
        of_whole=axes,
        axes=_order(source.axes, axes),
        scale=scale,
        header=header,
        scaling=scaling,
        unit=scale,
        origin=origin,
    )


def _measures_the_same(steps: Sequence[Step], promise: Promise, given: DType) -> bool:
    """Whether an array that steps make of values of a dtype may have their unit, as far as dtypes
    tell; which of several arrays has it, nobody says. Built-in functions keep it.
    """
    if promise.name:
        return False
    before = given
    for step in steps:
        after = step.returns[0].made_of(before)
        if not step.ref.is_ours and not may_measure_same(before, after):
            return False
        before = after
    return True


def _volume_region(pipeline: Pipeline, whole: Whole) -> Hyperslab | None:
    """The region of a whole that becomes a file of its own; None where blocks do, whose files say
    where they lie in all of it.
    """
    is_volume = isinstance(pipeline.end, Write) and pipeline.end.keep == "volume"
    if pipeline.region is None or not is_volume:
        return None
    return pipeline.region.within(whole)


def _order(stored: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """Axes of an array from slowest to fastest, as the source stores them."""
    new = [axis for axis, of in enumerate(axes.kept) if of is None]
    kept = [axes.kept.index(axis) for axis in stored if axis in axes.kept]
    return (*new, *kept)


def _stays_stored(pipeline: Pipeline, source: ArraySource, dtype: DType) -> bool:
    """Whether blocks of stored values keep their dtype, and so their slope and intercept."""
    return pipeline.values == "stored" and dtype == source.dtype("stored")


def _merged(header: Header, scale: Sequence[int]) -> Header:
    """The header after every `scale` voxels became one: its centre is the middle of theirs."""
    if all(s == 1 for s in scale):
        return header
    merged = {name for name, s in zip(header.dims, scale, strict=False) if s > 1}
    companions = without_those_along(header.companions, merged)
    left = replace(header, companions=companions).naming_what_is_left_of(header.companions)
    return left.moved([(s - 1) / 2 for s in scale], scale)
