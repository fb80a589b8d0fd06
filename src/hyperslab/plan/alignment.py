"""Alignment: what of a further input goes with a block of the source.

Flow: two arrays -> which axes belong together -> do they lie in one space, or is one resampled ->
region and place of every block. An axis that the input lacks, or has one element along, is
broadcast: its block is as long as the source's there, without taking memory.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperslab.arrays import Array, DType, resampling
from hyperslab.arrays.affines import is_invertible
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.header import FIRST
from hyperslab.arrays.resampling import SPACE, Resampling
from hyperslab.arrays.sets import SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import FormatError, UsageError
from hyperslab.plan.pipeline import PRIMARY, Pipeline
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.plan import places

_INTERPOLATED = frozenset("?bhilqBHILQfdFD")
"Type characters of the numbers that SciPy interpolates."


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """How an input lies beside the source: which of its elements go with a block of that one."""

    ndim: int
    "Number of the source's axes."
    axes: tuple[int, ...]
    "Axis of the source that each of the input's own lies along."
    shape: tuple[int, ...]
    "Extents of the input."
    single: frozenset[int]
    "Axes of the input, in its own order, whose one element goes with all of the source's."
    between: Array | None = None
    """(3, 4): voxels of the source to those of the input, along its axes of space, where it is
    resampled.
    """
    how: Resampling = "nearest"
    space: tuple[int, ...] = FIRST
    "Axes of space of an input that is resampled."

    def region(self, slab: Hyperslab) -> Hyperslab:
        """The region of the input that goes with one of the source; empty where it lies beyond."""
        (found,) = self.regions([slab])
        return found

    def regions(self, slabs: Sequence[Hyperslab]) -> Iterator[Hyperslab]:
        """The regions of the input that go with regions of the source, of which there are some."""
        boxes = Boxes.of(slabs)
        found = boxes.permute(self.axes)
        single = list(self.single)
        found.low[:, single] = 0
        found.count[:, single] = 1
        if self.between is not None:
            held = self._held(boxes)
            space = list(self.space)
            found.low[:, space] = held.low
            found.count[:, space] = held.count
        return iter(found)

    def placed(self, block: Array, slab: Hyperslab) -> Array:
        """The block of `region(slab)` beside the source's: resampled, its axes in the source's
        order, with one element along those that are broadcast.
        """
        axes = self.axes
        if self.between is not None:
            order = self._space_first
            boxes = Boxes.of([slab])
            (held,) = self._held(boxes)
            (wanted,) = self._wanted(boxes)
            block = resampling.resampled(
                block.transpose(order), held, self._extents, self.between, wanted, self.how
            )
            axes = tuple(axes[axis] for axis in order)
        ordered = block.transpose(np.argsort(axes))
        absent = [axis for axis in range(self.ndim) if axis not in axes]
        return np.expand_dims(ordered, absent)

    def pad(self, pad: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """The elements of a halo that are made up, per axis of the source: none where the input is
        broadcast.
        """
        repeated = set(range(self.ndim)) - set(self.axes) | {
            self.axes[axis] for axis in self.single
        }
        return tuple((0, 0) if axis in repeated else ends for axis, ends in enumerate(pad))

    def working_nbytes(self, slab: Hyperslab, dtype: DType) -> int:
        """Memory that placing a block takes beside the block as read, in bytes."""
        if self.between is None:
            return 0
        return slab.size * dtype.itemsize + resampling.working_nbytes(dtype)

    @property
    def _space_first(self) -> tuple[int, ...]:
        """Axes of the input, those of space before all others."""
        further = (axis for axis in range(len(self.shape)) if axis not in self.space)
        return (*self.space, *further)

    @property
    def _extents(self) -> tuple[int, ...]:
        """Extents of the input along its axes of space."""
        return tuple(self.shape[axis] for axis in self.space)

    def _wanted(self, boxes: Boxes) -> Boxes:
        """Regions of the source along the axes of space."""
        return boxes.permute([self.axes[axis] for axis in self.space])

    def _held(self, boxes: Boxes) -> Boxes:
        assert self.between is not None
        return resampling.needed(self.between, self._wanted(boxes), self._extents)


LOOKS = 100
"Arrays of the source that are looked at when inputs are named, so that thousands cost no time."
Row = tuple[Alignment | None, ...]
"Alignment of each further input of a whole; None: it is read as the source is."


def align(pipeline: Pipeline) -> tuple[Row, ...]:
    """How the further inputs lie beside each whole of the source; () where all lie as it does.

    Raises UsageError for inputs that do not fit: in number, in shape, in space.
    """
    rows = list(_rows(pipeline))
    if not any(alignment for row in rows for alignment in row):
        return ()
    return tuple(rows)


def require_fitting_inputs(pipeline: Pipeline) -> None:
    """Raise UsageError for further inputs that do not fit the source, by the headers of the first
    arrays: a run looks at all, and says which files cannot be read.
    """
    with contextlib.suppress(FormatError):
        for _ in itertools.islice(_rows(pipeline), LOOKS):
            pass


def _rows(pipeline: Pipeline) -> Iterator[Row]:
    others = {name: found for name, found in pipeline.inputs.items() if name != PRIMARY}
    for index, whole in enumerate(pipeline.source.wholes):
        found = []
        for name, inputs in others.items():
            found.append(_align(pipeline, name, inputs, index, whole))
        yield tuple(found)


def _align(
    pipeline: Pipeline, name: str, inputs: SourceSet, index: int, whole: Whole
) -> Alignment | None:
    from hyperslab.plan import places

    _require_as_many(name, inputs, pipeline.source)
    other = inputs.beside(index)
    for source in (pipeline.source.first(whole), inputs.first(other)):
        if source.broken:
            raise FormatError(source.broken)
    how = pipeline.resample.get(name)
    pair = places.Pair(name, whole, pipeline.source.first(whole), other, inputs.first(other))
    pair.require_known_units()
    if how is None:
        return _as_they_lie(pair)
    return _resampled(pair, how, inputs.first(other).dtype(pipeline.values), pipeline)


def _require_as_many(name: str, inputs: SourceSet, source: SourceSet) -> None:
    arrays = len(inputs.wholes)
    if arrays not in (1, len(source.wholes)):
        raise UsageError(
            f"the input '{name}' has {show_count(arrays, 'array')}, the source"
            f" {len(source.wholes)}: give one for"
            " each of them, or one for all"
        )


def _as_they_lie(pair: places.Pair) -> Alignment | None:
    axes = pair.axes()
    single = pair.single(axes)
    shape = pair.other.shape
    if pair.are_placed:
        _require_alike_beyond_space(pair, axes, single)
    order = pair.order(axes)
    if order is not None:
        return _by_affines(pair, axes, single, order, "nearest")
    for axis, along in enumerate(axes):
        if shape[axis] != pair.whole.shape[along] and axis not in single:
            raise pair.unlike()
    pair.require_one_space(axes)
    if axes == tuple(range(len(pair.whole.shape))) and not single:
        return None
    return Alignment(len(pair.whole.shape), axes, shape, single)


def _resampled(
    pair: places.Pair, how: Resampling, dtype: DType, pipeline: Pipeline
) -> Alignment | None:
    image, grid = pair.affines()
    if image is None or grid is None:
        raise UsageError(
            f"the input '{pair.name}' cannot be resampled: {pair.placeless()} does not say where"
            " its voxels lie; give an image with an affine"
        )
    for affine, source in ((image, pair.other_source), (grid, pair.source)):
        if not is_invertible(affine):
            raise UsageError(
                f"{source.label}: its affine is singular or not finite, so it cannot be used for"
                " resampling"
            )
    axes = pair.axes()
    single = pair.single(axes)
    _require_alike_beyond_space(pair, axes, single)
    if pair.is_in_place(axes) or pair.order(axes) is not None:
        return _as_they_lie(pair)
    if not pair.meet():
        raise pair.apart()
    if how == "linear" and pipeline.values == "stored":
        raise UsageError(
            "--resample linear interpolates real values: leave out --values stored, or use nearest"
        )
    if how == "linear" and dtype.char not in _INTERPOLATED:
        raise UsageError(f"the input '{pair.name}': {dtype} cannot be interpolated; use nearest")
    resampling.require_installed(how)
    return _by_affines(pair, axes, single, resampling.voxels_of(image, grid), how)


def _require_alike_beyond_space(
    pair: places.Pair, axes: tuple[int, ...], single: frozenset[int]
) -> None:
    """Raise UsageError for other extents along axes that no affine places."""
    for axis in pair.other.header.further(len(axes)):
        is_alike = pair.other.shape[axis] == pair.whole.shape[axes[axis]]
        if not is_alike and axis not in single:
            raise pair.unlike_along(axis, axes[axis])


def _by_affines(
    pair: places.Pair,
    axes: tuple[int, ...],
    single: frozenset[int],
    between: Array,
    how: Resampling,
) -> Alignment:
    space = pair.own_space
    if len(space) != SPACE:
        raise UsageError(
            f"{pair.other_source.label}: it has {show_count(len(space), 'axis', 'axes')} of space,"
            " and an input that is brought into the order of the source needs all three: give it"
            " one of one element"
        )
    return Alignment(
        len(pair.whole.shape), axes, pair.other.shape, single - set(space), between, how, space
    )
