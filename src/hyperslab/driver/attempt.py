"""Attempt: what steps have returned for a pair of samples.

Held by tests/driver/test_learning.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hyperslab.arrays import Array, DType
from hyperslab.arrays.axes import UNNAMED, axes_of_space
from hyperslab.driver.inferred import promises_of, resized_axes, unlike_of
from hyperslab.driver.sample import Sample
from hyperslab.driver.unlike import Pair, Unexplained, Unlike
from hyperslab.errors import NoArray
from hyperslab.plan.failure import describe_failure
from hyperslab.plan.pipeline import Pipeline, Step, axes_after
from hyperslab.plan.promise import Promise
from hyperslab.plan.steps import call

FIRST = (5, 7, 6, 4, 9, 3, 8, 10)
"Extents of the first sample's axes that are not whole."
_MORE = (3, 5, 2, 7, 1, 4, 6, 8)
"""What the second sample has more along each of them: another number each, so that no axis is taken
for one that has lost a halo, a border or half of its elements.
"""
_HOPELESS = (NameError, ImportError, SyntaxError)
"What a function raises whatever its block is: no other sample is tried."


@dataclass(frozen=True, slots=True)
class Attempt:
    """What steps have returned for samples, up to the first that failed or was unclear."""

    promises: list[tuple[Promise, ...]] = field(default_factory=list)
    "Promises of each step that anything was learned of."
    whole: frozenset[int] = frozenset()
    "Axes of the samples that were whole for that."
    error: str = ""
    "What the next step raised; '' where it raised nothing."
    is_refused: bool = False
    "Whether that was that it returned no array."
    is_hopeless: bool = False
    "Whether it raises that for any sample."
    resized: Mapping[tuple[int, str], set[int]] = field(default_factory=dict)
    "Axes that arrays have longer or shorter than their block, by step and array."
    unlike: Mapping[tuple[int, str], Unlike] = field(default_factory=dict)
    "Arrays that are unlike their block and of which nothing was learned, by step and array."
    odd: str = ""
    "Sentence on those that samples have shown of the next step; '' where there were none."
    is_last: bool = False
    "Whether no other sample is tried, so that nothing better follows."
    has_lengths_left: bool = False
    "Whether arrays of other lengths are still to be tried."


def kinds_of(seen: Mapping[str, Array]) -> list[Mapping[str, Array]]:
    """Values of samples, by input: made up, and those that were seen, where any were."""
    if not seen:
        return [{}]
    return [{}, seen]


def best_of(
    pipeline: Pipeline,
    dtypes: Sequence[DType],
    extents: Sequence[Pair],
    seen: Mapping[str, Array],
) -> list[tuple[Promise, ...]]:
    """What as many steps as possible promise for samples of these extents, of the first values that
    show it.
    """
    best: list[tuple[Promise, ...]] = []
    for values in kinds_of(seen):
        promises = tried(pipeline, dtypes, extents, values, Unexplained()).promises
        if len(promises) > len(best):
            best = promises
        if len(best) == len(pipeline.steps):
            break
    return best


def extents_of(shape: Sequence[int], whole: Collection[int], shorter: Pair = (0, 0)) -> list[Pair]:
    """Extents of the axes of both samples of an array, the second of which may be `shorter`: along
    which axis that is whole, and by how much.
    """
    along, less = shorter
    extents = []
    for axis, extent in enumerate(shape):
        pair = (FIRST[axis], FIRST[axis] + _MORE[axis])
        if axis in whole:
            pair = (extent, extent)
        if axis == along:
            pair = (pair[0], pair[1] - less)
        extents.append(pair)
    return extents


def tried(
    pipeline: Pipeline,
    dtypes: Sequence[DType],
    extents: Sequence[Pair],
    seen: Mapping[str, Array],
    unlike: Unexplained,
) -> Attempt:
    """What the steps return for two samples of these extents, up to the first that fails; `seen`
    are values that they hold, by input, `unlike` what other samples have shown.
    """
    found: list[tuple[Promise, ...]] = []
    made = [Sample.of(pipeline, dtypes, [pair[i] for pair in extents]) for i in range(2)]
    samples = [sample.like(seen) for sample in made if sample is not None]
    if len(samples) < len(made):
        return Attempt(found)
    of_space = _axes_of_space(pipeline)
    are_named = _are_named(pipeline)
    before = list(pipeline.steps)
    blocks = [sample.block for sample in samples]
    for number, step in enumerate(pipeline.steps):
        try:
            pairs = zip(samples, blocks, strict=True)
            returned = [sample.returned(step, block) for sample, block in pairs]
            axes = axes_after(before[:number], pipeline.source.ndim)[0]
            halo = axes.pick(pipeline.halo, (0,) * axes.ndim)
            space = {place for place, axis in enumerate(axes.told) if axis in of_space}
            told = unlike.of_step(number)
            promises = promises_of(halo, blocks, returned, space, are_named, told)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a function raises
            is_refused = isinstance(error, NoArray)
            is_hopeless = isinstance(error, _HOPELESS)
            sentence = _sentence(error, step)
            return Attempt(found, error=sentence, is_refused=is_refused, is_hopeless=is_hopeless)
        if promises is None:
            resized = resized_axes(halo, blocks, returned)
            odd = unlike_of(halo, blocks, returned, space, are_named)
            return Attempt(
                found,
                resized={(number, name): axes for name, axes in resized.items()},
                unlike={(number, name): array for name, array in odd.items()},
            )
        found.append(promises)
        before[number] = replace(step, returns=promises)
        blocks = [next(iter(arrays.values())) for arrays in returned]
    return Attempt(found)


def _axes_of_space(pipeline: Pipeline) -> tuple[int, ...]:
    """Axes of the source along which a voxel has a place, by its affine or else by its names."""
    header = pipeline.source.wholes[0].header
    if header.is_placed:
        return header.space
    return axes_of_space(pipeline.source.sources[0].dims, pipeline.source.ndim)


def _are_named(pipeline: Pipeline) -> bool:
    """Whether an axis of the source has a name, or an affine that places it."""
    if pipeline.source.wholes[0].header.is_placed:
        return True
    return not all(name.startswith(UNNAMED) for name in pipeline.source.sources[0].dims)


def _sentence(error: BaseException, step: Step) -> str:
    """What a function raised, and where in the user's own code."""
    failure = describe_failure(error, "", [step.ref], [call.__code__])
    if failure.frame is None:
        return failure.message
    return f"{failure.message} at {failure.frame.place}"
