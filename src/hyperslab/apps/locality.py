"""Locality: whether a function makes the same of an array however that is cut, tried on samples.

Flow: windows of the array, until one shows a difference -> what the function makes of each in one
block, and in two along each axis -> where these differ, by how much, and how far from the cut ->
the halo that makes them equal, tried on the same window. Everything is done in this process, by
the steps of a run.

What it cannot see: numbers of planes or voxels that a function knows by itself (`block[90:]`, the
length of the whole array) and that the samples do not reach; values that are elsewhere; a function
that reads the array itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.apps.samples import (
    LARGEST_SAMPLE,
    UNBOUNDED,
    Arrays,
    cut_of,
    equal,
    is_nearly_constant,
    long_samples_of,
    made_of_window,
    samples_of,
)
from hyperslab.arrays import Array
from hyperslab.arrays.axes import Axis, numbered
from hyperslab.arrays.naming import axes_of
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.learning import learned
from hyperslab.driver.lesson import cut_axes
from hyperslab.errors import UsageError, in_callers_words, told_in_python
from hyperslab.formats import HOLDS_ANY
from hyperslab.plan.compile import compile_plan
from hyperslab.plan.pipeline import PRIMARY, Pipeline
from hyperslab.units import show_count

_LARGEST_WITH_HALO = 4 * LARGEST_SAMPLE
"Elements of the window with a halo that is tried, at most."
AUTOMATIC = Rule()
"Blocks are cut as it suits the machine, along any axis."
_ROUNDS = 6
"Times that a larger halo is tried."
_SAMPLES = 3
"Windows that are tried in which something happens, at most."
_LOOKS = 9
"Windows that are tried, at most."
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
    output: str
    "Name of the array that the function returns; '' where it returns one."
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
class Advice:
    """What makes a sample the same however it is cut."""

    halo: tuple[int, ...]
    "Halo with which nothing differs, as long as the axes below are not cut."
    axes_whole: tuple[int, ...]
    "Axes along which no halo that was tried is enough."
    failed: tuple[int, ...]
    "Largest halo along each axis that was tried and is not enough."
    shape: tuple[int, ...]
    "Shape of the array of which the sample is a part."

    def lines(self, window: Hyperslab) -> list[str]:
        """What was tried on a window and what to do, to print."""
        said = []
        if self.axes_whole:
            said.append(f"tried      {self._tried(window)}")
        said.append(f"remedy     {self._remedy()}")
        pairs = enumerate(zip(self.halo, self.shape, strict=True))
        if long := [str(axis) for axis, (halo, extent) in pairs if halo >= extent]:
            axes = ",".join(long)
            said.append(
                f"or         --axes-whole {axes}, which costs less: the halo is longer than the"
                " array there"
            )
        return said

    def _tried(self, window: Hyperslab) -> str:
        """What was tried along the axes for which no halo was found, and what was not."""
        parts = []
        beyond = [axis for axis in self.axes_whole if window.count[axis] < self.shape[axis]]
        if beyond:
            sampled = ",".join(str(window.count[axis]) for axis in beyond)
            extents = ",".join(str(self.shape[axis]) for axis in beyond)
            parts.append(
                f"along {_axes(beyond)} the values differ nearly as far as the sample goes, which"
                f" has {sampled} of {extents} elements: whether a longer halo is enough was not"
                " tried"
            )
        within = [axis for axis in self.axes_whole if axis not in beyond]
        if within:
            halos = ",".join(str(self.failed[axis]) for axis in within)
            parts.append(
                f"along {_axes(within)} a halo of {halos} is not enough: a longer one was not tried"
            )
        return "; ".join(parts)

    def _remedy(self) -> str:
        flags = []
        if any(self.halo):
            flags.append(f"--halo {','.join(map(str, self.halo))}")
        if self.axes_whole:
            flags.append(f"--axes-whole {','.join(map(str, self.axes_whole))}")
        said = " ".join(flags)
        if any(self.halo):
            said += " (at least this halo)"
        said += ", with which the sample is the same however it is cut"
        if any(self.halo):
            said += (
                "; no halo is enough for a function that follows clusters as far as they go:"
                " --blocks 1"
            )
        if self.axes_whole:
            said += (
                "; a function that needs a number of the whole array, such as its mean, may get it"
                " from a fold that is run first, as a parameter"
            )
        return said


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
    is_telling: bool = True
    "Whether the window, and what it makes of that, have values enough that something could differ."
    samples: int = 1
    "Windows that were tried, this one first, of which all say the same."
    advice: Advice | None = None
    "What to do; None where the function is not repeatable."
    longest: tuple[int, ...] = ()
    "Extent of the longest window that was tried along each axis, where none shows a difference."

    @property
    def enough(self) -> tuple[int, ...] | None:
        """A halo with which nothing differs; None where none was found."""
        if self.advice is None or self.advice.axes_whole:
            return None
        return self.advice.halo

    @property
    def ok(self) -> bool:
        """Whether nothing differs but by rounding, where something could."""
        tells = self.is_repeatable and self.is_telling
        return tells and all(found.is_rounding for found in self.differences)

    def lines(self) -> list[str]:
        """What was found and what to do, to print: with flags, or in Python with its words."""
        return [in_callers_words(line) for line in self._lines()]

    def _lines(self) -> list[str]:
        extent = "x".join(map(str, self.window.count))
        where = f"a sample of {extent} elements {self.window}"
        if not self.is_repeatable:
            return [
                (
                    "not told   the function returns different values for the same block each time:"
                    f" {where}"
                ),
                "remedy     let it seed its random numbers by the block's position (slab=)",
            ]
        halo = ",".join(map(str, self.halo))
        along = ""
        if len(self.axes) < len(self.window.count):
            along = f" along {_axes(self.axes)}"
        same = f"{where} is the same however it is cut{along}"
        if self.samples > 1:
            where = f"{self.samples} samples of {extent} elements, the first {self.window},"
            same = f"{where} are the same however they are cut{along}"
        if not self.is_telling:
            hardly_any = (
                "the array, or what the function makes of it, has hardly more than one value"
            )
            return [
                f"not told   nothing happens in the samples: {hardly_any} in {where.rstrip(',')}"
            ]
        if not self.axes:
            return ["local      the blocks are not cut along any axis, so that nothing can differ"]
        if self.ok:
            said = [f"local      with a halo of {halo}, {same}{self._rounded()}"]
            return [*said, *self._extents()]
        said = [f"not local  with a halo of {halo}, the result depends on the blocks: {where}"]
        said += [_told(found) for found in self.differences if not found.is_rounding]
        assert self.advice is not None
        return [*said, *self.advice.lines(self.window)]

    def _extents(self) -> list[str]:
        """How long the longest windows were, where those of the first line were shorter."""
        if self.longest in ((), self.window.count):
            return []
        extents = ",".join(str(self.longest[axis]) for axis in self.axes)
        tried = f"up to {extents} elements along {_axes(self.axes)}"
        return [f"tried      {tried}: what reaches farther than half of that may not be seen"]

    def _rounded(self) -> str:
        rounded = max((found.largest for found in self.differences), default=0.0)
        if not rounded:
            return ""
        return f", except for rounding of up to {rounded:.3g}"


def _axes(axes: Sequence[int]) -> str:
    """Axes in words: 'axis 2', 'axes 0,1'."""
    noun = "axis" if len(axes) == 1 else "axes"
    return f"{noun} {','.join(map(str, axes))}"


def _told(found: Difference) -> str:
    name = f" of '{found.output}'" if found.output else ""
    return (
        f"axis {found.axis}     {show_count(found.elements, 'element')}{name} differ by up to"
        f" {found.largest:.6g}, as far as {show_count(found.reach, 'voxel')} from the cut; at"
        f" {found.at} it is {found.whole} in one block and {found.cut} in two"
    )


@told_in_python
def check_locality(
    pipeline: Pipeline, axes_whole: Sequence[Axis] = (), rule: Rule = AUTOMATIC
) -> Locality:
    """Try on a sample whether the mapped functions of a pipeline make the same of an array however
    it is cut, and with which halo they do.

    Blocks are not cut along `axes_whole` (numbers or names), nor along axes that `rule` leaves
    whole, if it says how large blocks are or how many. Raises UsageError for a pipeline that maps
    nothing or merges voxels, and for a rule that does not fit,
    DoesNotFit for a halo that is too large for the memory of this machine, and BlockError when a
    function fails.
    """
    if not pipeline.steps or any(n > 1 for n in pipeline.scale):
        raise UsageError(
            "--check-locality works only for functions that are mapped over blocks and merge no"
            " voxels; a fold does not depend on neighbours"
        )
    whole = numbered("--axes-whole", axes_whole, axes_of(pipeline.source.sources))
    pipeline = learned(_over_first(pipeline), whole)
    kept = {*whole, *_uncut(pipeline, rule)}
    tried: list[Locality] = []
    telling: list[Locality] = []
    for sample in itertools.islice(samples_of(pipeline), _LOOKS):
        found = _tried_on(_Trial(pipeline, sample.window), kept, sample.is_nearly_constant)
        tried.append(found)
        if found.is_telling and not found.ok:
            return found
        if found.is_telling:
            telling.append(found)
        if len(telling) == _SAMPLES:
            break
    alike = telling or tried
    found = replace(alike[0], samples=len(alike))
    if not found.ok:
        return found
    return _tried_along(pipeline, found, kept)


def _tried_along(pipeline: Pipeline, found: Locality, kept: Collection[int]) -> Locality:
    """What windows say that are longer than those which show no difference, each cut along its long
    axis alone: a function may reach farther than half a window.
    """
    longest = list(found.window.count)
    axes = set(range(len(longest)))
    for axis, sample in long_samples_of(pipeline, found.window):
        if axis not in found.axes:
            continue
        others = {*kept, *axes.difference({axis})}
        along = _tried_on(_Trial(pipeline, sample.window), others, sample.is_nearly_constant)
        if along.is_telling and not along.ok:
            return along
        if along.is_telling:
            longest[axis] = sample.window.count[axis]
    return replace(found, longest=tuple(longest))


def _uncut(pipeline: Pipeline, rule: Rule) -> set[int]:
    """Axes that a rule leaves whole, where it says how to cut; what another rule does depends on
    the machine.
    """
    if rule.kind not in ("blocks", "block-shape"):
        return set()
    written = pipeline.altered(end=None).write("nowhere", HOLDS_ANY, "blocks")
    plan = compile_plan(written, rule, UNBOUNDED)
    return set(range(pipeline.source.ndim)) - cut_axes(plan)


def _tried_on(tried: _Trial, axes_whole: Collection[int], is_sparse: bool) -> Locality:
    """What one window says."""
    pipeline = tried.pipeline
    ndim = pipeline.source.ndim
    kept = {axis % ndim for axis in axes_whole}.union(pipeline.dropped)
    axes = tuple(axis for axis in range(ndim) if axis not in kept and tried.window.count[axis] > 1)
    whole = tried.made()
    again = tried.made()
    if not all(equal(whole[name], again[name]).all() for name in whole):
        return Locality(tried.window, pipeline.halo, axes, (), is_repeatable=False)
    differences = tuple(tried.differences(axes))
    hardly_any = is_sparse or all(map(is_nearly_constant, whole.values()))
    if axes and hardly_any and not _by_axis(differences):
        return Locality(tried.window, pipeline.halo, axes, (), is_telling=False)
    advice = _search(tried, axes, differences)
    return Locality(tried.window, pipeline.halo, axes, differences, advice=advice)


def _search(tried: _Trial, axes: Sequence[int], differences: Sequence[Difference]) -> Advice:
    """What makes the window the same however it is cut."""
    ndim = tried.pipeline.source.ndim
    more = [0] * ndim
    failed = [0] * ndim
    whole: set[int] = set()
    for attempt in itertools.count():
        odd = _by_axis(differences)
        if not odd:
            break
        for axis, found in odd.items():
            failed[axis] = tried.pipeline.halo[axis] + more[axis]
            more[axis] = tried.next_halo(axis, found, more[axis])
        if attempt == _ROUNDS or tried.is_too_large(more):
            more = [0 if axis in odd else n for axis, n in enumerate(more)]
        whole.update(axis for axis in odd if not more[axis])
        left = [axis for axis in axes if axis not in whole]
        differences = tuple(tried.with_more_halo(more).differences(left))
    halo = tried.with_more_halo(more).pipeline.halo
    return Advice(halo, tuple(sorted(whole)), tuple(failed), tried.shape)


def _by_axis(differences: Sequence[Difference]) -> dict[int, list[Difference]]:
    """The differences that are more than rounding."""
    odd: dict[int, list[Difference]] = {}
    for found in differences:
        if not found.is_rounding:
            odd.setdefault(found.axis, []).append(found)
    return odd


@dataclass(frozen=True, slots=True)
class _Trial:
    """A pipeline over a window."""

    pipeline: Pipeline
    window: Hyperslab

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of which the window is a part."""
        return self.pipeline.source.wholes[0].shape

    def next_halo(self, axis: int, odd: Sequence[Difference], more: int) -> int:
        """What to add to the halo along an axis; 0 where the sample cannot say whether that would
        be enough.
        """
        reach = max(found.reach for found in odd)
        if all(found.has_bound for found in odd):
            return more + reach
        if self.window.count[axis] < self.shape[axis]:
            return 0
        return max(reach, 2 * more)

    def is_too_large(self, more: Sequence[int]) -> bool:
        """Whether the window would take too much with so much more halo."""
        sides = zip(self.window.count, self.pipeline.halo, more, strict=True)
        return math.prod(n + 2 * (h + m) for n, h, m in sides) > _LARGEST_WITH_HALO

    def with_more_halo(self, more: Sequence[int]) -> _Trial:
        if not any(more):
            return self
        first, *others = self.pipeline.steps
        halo = first.halo or (0,) * self.pipeline.source.ndim
        wider = replace(first, halo=tuple(map(sum, zip(halo, more, strict=True))))
        return _Trial(self.pipeline.altered(steps=(wider, *others)), self.window)

    def differences(self, axes: Sequence[int]) -> Iterator[Difference]:
        """What differs between one block and two along each axis."""
        whole = self.made()
        for axis in axes:
            cut = self.made(axis)
            for number, name in enumerate(whole):
                found = self._difference(axis, number, whole[name], cut[name])
                if found is not None:
                    yield found

    def made(self, axis: int | None = None) -> Arrays:
        """What the pipeline makes of the window, as one block, or of two along an axis."""
        return made_of_window(self.pipeline, self.window, axis)

    def _difference(self, axis: int, number: int, whole: Array, cut: Array) -> Difference | None:
        odd = ~equal(whole, cut)
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
        made = self.pipeline.axes[number]
        position = made.kept.index(axis)
        cut_at = cut_of(whole.shape[position])
        others = tuple(other for other in range(odd.ndim) if other != position)
        start = made.pick(self.window.start, (0,) * made.ndim)
        planes = np.flatnonzero(odd.any(axis=others))
        reach = int(max(cut_at - planes.min(), planes.max() - cut_at + 1))
        shorter = min(cut_at, whole.shape[position] - cut_at)
        largest = float(apart.max())
        return Difference(
            axis=axis,
            output=self.pipeline.returns[number].name,
            elements=int(np.count_nonzero(odd)),
            largest=largest,
            at=tuple(int(a + b) for a, b in zip(start, place, strict=True)),
            whole=whole[place],
            cut=cut[place],
            reach=reach,
            has_bound=reach < _FAR * shorter,
            is_rounding=not is_more.any(),
        )


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


def _over_first(pipeline: Pipeline) -> Pipeline:
    """The same over the first array alone. Raises UsageError for one without elements."""
    inputs = {
        name: replace(found, wholes=(found.beside(0),)) for name, found in pipeline.inputs.items()
    }
    if 0 in inputs[PRIMARY].wholes[0].shape or not inputs[PRIMARY].ndim:
        raise UsageError("--check-locality: the first source holds no elements to try")
    return pipeline.altered(inputs=inputs)
