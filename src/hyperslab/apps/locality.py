"""Locality: whether a function makes the same of an array however that is cut, tried on a sample.

Flow: a window of the array -> what the function makes of it in one block, and in two along each
axis -> where these differ, by how much, and how far from the cut -> the halo that makes them equal,
tried on the same window. Everything is done in this process, by the steps of a run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.learning import learned
from hyperslab.errors import BlockError, UsageError
from hyperslab.plan.compile import Budget, compile_plan
from hyperslab.plan.pipeline import PRIMARY, Fold, Pipeline
from hyperslab.plan.region import region_of
from hyperslab.plan.steps import outcome_of, steps_of
from hyperslab.units import show_count

LARGEST_EXTENT = 64
LARGEST_SAMPLE = 2**20
"Elements of the window, at most."
_ROUNDS = 3
"Times that a larger halo is tried."
_FAR = 0.75
"Share of the way from the cut to the window's edge beyond which a difference has no bound."
_ULPS = 8
"Units in the last place of the largest value that are taken for rounding."
_LEAST_ROUNDING = 1e-12
"Share of the largest value that is taken for rounding of float64: sums over many are less exact."


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs where the window is cut in two along an axis."""

    axis: int
    elements: int
    "Elements that differ."
    largest: float
    "Largest absolute difference; infinite where one of the two is NaN."
    at: tuple[int, ...]
    "Place of the largest in the array that the function makes."
    whole: Any
    "Value there where the window is one block."
    cut: Any
    "Value there where it is two."
    reach: int
    "Distance from the cut, in voxels, of the farthest element that differs."
    has_bound: bool
    "Whether the differences end well before the window does."
    is_rounding: bool


@dataclass(frozen=True, slots=True)
class Locality:
    """What a sample says of a function's halo."""

    window: Hyperslab
    "Part of the array that was tried."
    halo: tuple[int, ...]
    "Halo that the function ran with."
    axes: tuple[int, ...]
    "Axes along which the window was cut."
    differences: tuple[Difference, ...]
    is_repeatable: bool = True
    "Whether the function makes the same of the same block twice."
    enough: tuple[int, ...] | None = None
    "A halo with which nothing differs; None: none was found."

    @property
    def ok(self) -> bool:
        """Whether nothing differs but by rounding."""
        return self.is_repeatable and all(found.is_rounding for found in self.differences)

    def lines(self) -> list[str]:
        """What was found and what to do, to print."""
        extent = "x".join(map(str, self.window.count))
        where = f"a sample of {extent} elements {self.window}"
        if not self.is_repeatable:
            return [
                f"not told   the function makes other values of the same block each time: {where}",
                "remedy     let it draw its random numbers by the place of the block (slab=)",
            ]
        halo = ",".join(map(str, self.halo))
        if self.ok:
            rounded = max((found.largest for found in self.differences), default=0.0)
            by = f", but for rounding of up to {rounded:.3g}" if rounded else ""
            return [f"local      with a halo of {halo}, {where} is the same however it is cut{by}"]
        said = [f"not local  with a halo of {halo}, the result depends on the blocks: {where}"]
        said += [_told(found) for found in self.differences if not found.is_rounding]
        return [*said, f"remedy     {self._remedy()}"]

    def _remedy(self) -> str:
        if self.enough is not None:
            advised = ",".join(map(str, self.enough))
            return f"--halo {advised}, with which the sample is the same however it is cut"
        axes = ",".join(str(found.axis) for found in self.differences if not found.is_rounding)
        return (
            "no halo that fits the sample is enough: the function needs more than its surroundings,"
            f" such as the mean of an axis: keep such axes whole by --axes-whole {axes}, or measure"
            " with a fold first, and give the result to the function as a parameter"
        )


def _told(found: Difference) -> str:
    return (
        f"axis {found.axis}     {show_count(found.elements, 'element')} differ by up to"
        f" {found.largest:.6g}, as far as {show_count(found.reach, 'voxel')} from the cut; at"
        f" {found.at} it is {found.whole} in one block and {found.cut} in two"
    )


def check_locality(pipeline: Pipeline, axes_whole: Sequence[int] = ()) -> Locality:
    """Try on a sample whether the mapped functions of a pipeline make the same of an array however
    it is cut, and with which halo they do.

    Blocks are not cut along `axes_whole`. Raises UsageError for a pipeline that maps nothing or
    merges voxels, and BlockError when a function fails.
    """
    if not pipeline.steps or any(n > 1 for n in pipeline.scale):
        raise UsageError(
            "--check-locality: is for functions that are mapped over blocks and merge no voxels;"
            " what a fold merges does not depend on neighbours"
        )
    pipeline = learned(_over_first(pipeline), axes_whole)
    if len(pipeline.returns) > 1:
        raise UsageError("--check-locality: is for functions that return one array")
    tried = _Trial(pipeline, _window(pipeline))
    ndim = pipeline.source.ndim
    kept = {axis % ndim for axis in axes_whole}.union(pipeline.dropped)
    axes = [axis for axis in range(ndim) if axis not in kept and tried.window.count[axis] > 1]
    whole = tried.made()
    if not _equal(whole, tried.made()).all():
        return Locality(tried.window, pipeline.halo, tuple(axes), (), is_repeatable=False)
    differences = tuple(tried.differences(axes))
    enough = _enough(tried, axes, differences)
    return Locality(tried.window, pipeline.halo, tuple(axes), differences, enough=enough)


def _enough(
    tried: _Trial, axes: Sequence[int], differences: Sequence[Difference]
) -> tuple[int, ...] | None:
    """A halo with which the window is the same however it is cut."""
    for _ in range(_ROUNDS):
        odd = [found for found in differences if not found.is_rounding]
        if not odd:
            return tried.pipeline.halo
        if not all(found.has_bound for found in odd):
            return None
        more = [0] * tried.pipeline.source.ndim
        for found in odd:
            more[found.axis] = found.reach
        tried = tried.with_more_halo(more)
        differences = tuple(tried.differences(axes))
    return None


@dataclass(frozen=True, slots=True)
class _Trial:
    """A pipeline over a window."""

    pipeline: Pipeline
    window: Hyperslab

    def with_more_halo(self, more: Sequence[int]) -> _Trial:
        first, *others = self.pipeline.steps
        halo = first.halo or (0,) * self.pipeline.source.ndim
        wider = replace(first, halo=tuple(map(sum, zip(halo, more, strict=True))))
        return _Trial(self.pipeline.altered(steps=(wider, *others)), self.window)

    def differences(self, axes: Sequence[int]) -> Iterator[Difference]:
        """What differs between one block and two along each axis."""
        whole = self.made()
        for axis in axes:
            found = self._difference(axis, whole, self.made(axis))
            if found is not None:
                yield found

    def made(self, axis: int | None = None) -> Array:
        """What the pipeline makes of the window, as one block, or of two along an axis."""
        return _made(self.pipeline, self.window, axis)

    def _difference(self, axis: int, whole: Array, cut: Array) -> Difference | None:
        odd = ~_equal(whole, cut)
        if not odd.any():
            return None
        with np.errstate(all="ignore"):
            apart = np.abs(_wide(whole) - _wide(cut))
        apart = np.where(odd & np.isnan(apart), np.inf, apart)
        apart = np.where(odd, apart, 0)
        is_more = apart > _rounding(whole)
        if is_more.any():
            odd = is_more
        place = np.unravel_index(int(np.argmax(apart)), apart.shape)
        (made,) = self.pipeline.axes
        position = made.kept.index(axis)
        middle = whole.shape[position] // 2
        others = tuple(other for other in range(odd.ndim) if other != position)
        start = made.pick(self.window.start, (0,) * made.ndim)
        planes = np.flatnonzero(odd.any(axis=others))
        reach = int(max(middle - planes.min(), planes.max() - middle + 1))
        largest = float(apart.max())
        return Difference(
            axis=axis,
            elements=int(np.count_nonzero(odd)),
            largest=largest,
            at=tuple(int(a + b) for a, b in zip(start, place, strict=True)),
            whole=whole[place],
            cut=cut[place],
            reach=reach,
            has_bound=reach < _FAR * middle,
            is_rounding=not is_more.any(),
        )


def _equal(a: Array, b: Array) -> Array:
    same: Array = a == b
    if a.dtype.kind in "fc":
        same |= np.isnan(a) & np.isnan(b)
    return same


def _wide(values: Array) -> Array:
    """Values whose differences neither wrap nor round much."""
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    return values.astype(np.float64)


def _rounding(values: Array) -> float:
    if values.dtype.kind not in "fc":
        return 0.0
    finite = np.abs(values[np.isfinite(values)])
    share = max(_ULPS * float(np.finfo(values.dtype).eps), _LEAST_ROUNDING)
    return share * float(finite.max(initial=0))


def _made(pipeline: Pipeline, window: Hyperslab, axis: int | None) -> Array:
    parts = [1] * pipeline.source.ndim
    if axis is not None:
        parts[axis] = 2
    over = pipeline.altered(
        end=None, region=region_of([slice(*ends) for ends in zip(*window.bounds, strict=True)])
    ).reduce(f"{__name__}:COLLECT")
    plan = compile_plan(over, Rule("blocks", tuple(parts)), Budget(2**62, 1))
    (stage,) = plan.stages
    steps = steps_of(stage.job, stepwise=False)
    blocks: dict[tuple[int, ...], Array] = {}
    for task in stage.tasks:
        outcome = outcome_of(task, steps)
        if outcome.failure is not None:
            raise BlockError(f"{outcome.failure.where}: {outcome.failure.message}")
        blocks |= outcome.value
    if len(blocks) == 1:
        return next(iter(blocks.values()))
    (made,) = pipeline.axes
    position = made.kept.index(axis)
    return np.concatenate([blocks[start] for start in sorted(blocks)], position)


def _over_first(pipeline: Pipeline) -> Pipeline:
    """The same over the first array alone. Raises UsageError for one without elements."""
    inputs = {
        name: replace(found, wholes=(found.beside(0),)) for name, found in pipeline.inputs.items()
    }
    if 0 in inputs[PRIMARY].wholes[0].shape or not inputs[PRIMARY].ndim:
        raise UsageError("--check-locality: the first source holds no elements to try")
    return pipeline.altered(inputs=inputs)


def _window(pipeline: Pipeline) -> Hyperslab:
    """A part of the first array whose values differ, from the middle outwards."""
    plain = pipeline.altered(steps=(), inputs={PRIMARY: pipeline.source}, resample={})
    shape = pipeline.source.wholes[0].shape
    count = [min(n, LARGEST_EXTENT) for n in shape]
    while math.prod(count) > LARGEST_SAMPLE:
        longest = max(range(len(count)), key=count.__getitem__)
        count[longest] //= 2
    found = None
    for share in itertools.product((0.5, 0.25, 0.75), repeat=min(3, len(shape))):
        shares = [*share, *(0.5,) * (len(shape) - len(share))]
        start = [int((n - c) * s) for n, c, s in zip(shape, count, shares, strict=True)]
        window = Hyperslab(tuple(start), tuple(count))
        found = found or window
        values = _made(plain, window, None)
        if not _equal(values, np.broadcast_to(values.flat[0], values.shape)).all():
            return window
    assert found is not None
    return found


def _collected(block: Array, slab: Hyperslab, **_: Array) -> dict[tuple[int, ...], Array]:
    return {slab.start: block}


def _joined(a: dict[Any, Array], b: dict[Any, Array]) -> dict[Any, Array]:
    return a | b


COLLECT = Fold(_collected, _joined)
"All blocks, by where they begin."
