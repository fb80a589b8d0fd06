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
from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import PRIMARY, Pipeline


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """One array that a whole becomes: written to files, or handed to a fold."""

    shape: tuple[int, ...]
    dtype: DType
    axes: tuple[int, ...]
    "Axes in the order in which the source stores them."
    scale: tuple[int, ...]
    "Voxels of the whole that become one, per axis."
    header: Header
    "Header of the whole with what its values keep; `header_of` moves it to merged voxels."
    scaling: Scaling | None
    "Slope and intercept that a file of stored values must say to keep their meaning."
    unit: tuple[int, ...]
    """Multiples that inner cuts of the whole keep to, per axis: merged voxels, and the chunks of
    files that several tasks write to.
    """

    def shape_of(self, count: Sequence[int]) -> tuple[int, ...]:
        """Shape of what a block of the whole becomes."""
        return tuple(math.ceil(n / s) for n, s in zip(count, self.scale, strict=True))

    def region_of(self, core: Hyperslab) -> Hyperslab:
        """The region of this array that a block of the whole becomes."""
        start = tuple(first // s for first, s in zip(core.start, self.scale, strict=True))
        return Hyperslab(start, self.shape_of(core.count))

    def header_of(self, core: Hyperslab | None = None) -> Header:
        """The header of what a block of the whole becomes, or of all of it."""
        if core is None:
            return _merged(self.header, self.scale)
        return _merged(self.header.for_slab(core), self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Becoming:
    """What one whole of a pipeline goes through."""

    given: tuple[DType, ...]
    "dtypes of its blocks as read, per input."
    outputs: tuple[Made, ...]
    "The arrays that the last step returns; one, as functions return one block."

    @property
    def main(self) -> Made:
        """The array of the blocks that the last step returns."""
        return self.outputs[0]

    def cut_by(self, chunk: Sequence[int]) -> Becoming:
        """The same, where files hold its array in chunks of this shape."""
        main = self.main
        unit = tuple(s * n for s, n in zip(main.scale, chunk, strict=True))
        return replace(self, outputs=(replace(main, unit=unit), *self.outputs[1:]))


def become(pipeline: Pipeline) -> tuple[Becoming, ...]:
    """What every whole of a pipeline becomes. Raises UsageError where files of one whole have
    different dtypes.
    """
    scale = pipeline.scale
    named = _last_dtype(pipeline)
    found = []
    for index, whole in enumerate(pipeline.source.wholes):
        given = tuple(_input_dtype(pipeline, name, index) for name in pipeline.inputs)
        dtype = given[0]
        if named is not None:
            dtype = named
        found.append(Becoming(given, (_made(pipeline, whole, dtype, scale),)))
    return tuple(found)


def output_dtype(pipeline: Pipeline) -> DType:
    """dtype of the blocks of all wholes after the last step. Raises UsageError where it is not one
    for all.
    """
    named = _last_dtype(pipeline)
    if named is not None:
        return named
    return _input_dtype(pipeline, PRIMARY, None)


def _last_dtype(pipeline: Pipeline) -> DType | None:
    """dtype that the last of the steps that name one returns."""
    named = [np.dtype(step.dtype) for step in pipeline.steps if step.dtype]
    if not named:
        return None
    return named[-1]


def _input_dtype(pipeline: Pipeline, name: str, index: int | None) -> DType:
    """dtype of the blocks of an input, of one whole or of all."""
    inputs = pipeline.inputs[name]
    wholes = inputs.wholes
    if index is not None:
        wholes = wholes[index : index + 1]
    members = [member for whole in wholes for member in whole.members]
    dtypes = {inputs.sources[member.source].dtype(pipeline.values) for member in members}
    if len(dtypes) > 1:
        listed = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise UsageError(
            f"the files of {name or 'the source'} have different dtypes ({listed}): run them one"
            " by one"
        )
    return dtypes.pop()


def _made(pipeline: Pipeline, whole: Whole, dtype: DType, scale: tuple[int, ...]) -> Made:
    source = pipeline.source.first(whole)
    shape = tuple(math.ceil(n / s) for n, s in zip(whole.shape, scale, strict=True))
    if not _stays_stored(pipeline, source, dtype):
        return Made(shape, dtype, source.axes, scale, whole.header, scaling=None, unit=scale)
    header = replace(whole.header, real=source.real)
    return Made(shape, dtype, source.axes, scale, header, source.scaling, unit=scale)


def _stays_stored(pipeline: Pipeline, source: ArraySource, dtype: DType) -> bool:
    """Whether blocks of stored values keep their dtype, and so their slope and intercept."""
    return pipeline.values == "stored" and dtype == source.dtype("stored")


def _merged(header: Header, scale: Sequence[int]) -> Header:
    """The header after every `scale` voxels became one: its centre is the middle of theirs."""
    if all(s == 1 for s in scale):
        return header
    return header.moved([(s - 1) / 2 for s in scale], scale)
