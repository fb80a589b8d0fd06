"""Inferred: what a function promises, by the extents of what it has returned for two samples, which
differ along every axis that is not whole.

Held by tests/driver/test_learning.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hyperslab.arrays import Array, DType
from hyperslab.arrays.axes import Axes
from hyperslab.driver.unlike import NUMBERS, Pair, Unlike
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Step
from hyperslab.plan.promise import Promise


def promises_of(
    halo: Sequence[int],
    blocks: Sequence[Array],
    returned: Sequence[dict[str, Array]],
    space: Collection[int],
    are_named: bool,
    unlike: Mapping[str, Sequence[Unlike]],
) -> tuple[Promise, ...] | None:
    """What a step promises by what it has returned for both samples; None where that is unclear,
    where axes of space, of the blocks, have got another length, and where axes of one length are
    taken for each other, as the `unlike` arrays of other samples show.
    """
    first, second = returned
    if list(first) != list(second):
        return None
    extents = pairs_of(blocks)
    inner = _without(extents, halo)
    promises = []
    for name, array in first.items():
        other = second[name]
        if array.dtype != other.dtype or array.dtype.kind not in NUMBERS:
            return None
        if array.ndim != other.ndim:
            return None
        made = list(zip(array.shape, other.shape, strict=True))
        axes = matched(made, extents) or matched(made, inner)
        if axes is None:
            return None
        if _resizes_space(axes, len(extents), space, are_named):
            return None
        others = [one for one in unlike.get(name, ()) if len(one.given) == len(extents)]
        if any(_is_mistaken(axes, extents, halo, one) for one in others):
            return None
        promises.append(_promise(name, array, blocks[0], axes))
    return tuple(promises) or None


def unlike_of(
    halo: Sequence[int],
    blocks: Sequence[Array],
    returned: Sequence[dict[str, Array]],
    space: Collection[int],
    are_named: bool,
) -> dict[str, Unlike]:
    """Arrays whose axes are not known by their extents, or are axes of space of another length, and
    those that hold no numbers; by their names.
    """
    first, second = returned
    given = pairs_of(blocks)
    found = {}
    for name in set(first).intersection(second):
        both = (first[name], second[name])
        is_number = all(array.dtype.kind in NUMBERS for array in both)
        made: tuple[Pair, ...] = ()
        axes = None
        if both[0].ndim == both[1].ndim:
            made = pairs_of(both)
            axes = matched(made, given) or matched(made, _without(given, halo))
        is_told = axes is not None and not _resizes_space(axes, len(given), space, are_named)
        if is_number and is_told:
            continue
        found[name] = Unlike(given, made, both[0].shape, str(both[0].dtype), is_number)
    return found


def pairs_of(arrays: Sequence[Array]) -> tuple[Pair, ...]:
    """Extents of the axes of two arrays."""
    return tuple(zip(arrays[0].shape, arrays[1].shape, strict=True))


def _without(extents: Sequence[Pair], halo: Sequence[int]) -> tuple[Pair, ...]:
    """Extents without a halo."""
    return tuple((a - 2 * h, b - 2 * h) for (a, b), h in zip(extents, halo, strict=True))


def _is_mistaken(axes: Axes, extents: Sequence[Pair], halo: Sequence[int], unlike: Unlike) -> bool:
    """Whether any of these axes, found among others of the same extents, is not where it was in an
    array of other samples; or, of extents of its own, has been taken for another axis.
    """
    inner = _without(unlike.given, halo)
    known = {*unlike.given, *inner}
    for position, axis in enumerate(axes.kept):
        made = unlike.made[position : position + 1]
        if axis is None or not made or made[0] in (unlike.given[axis], inner[axis]):
            continue
        is_fixed = made[0][0] == made[0][1]
        is_alike = list(extents).count(extents[axis]) > 1
        if unlike.tells_axes_apart and is_alike and not is_fixed:
            return True
        others = (*unlike.made[:position], *unlike.made[position + 1 :])
        is_another = not is_fixed and made[0] in known
        is_elsewhere = unlike.given[axis] in others or inner[axis] in others
        is_resized_elsewhere = any(a != b and (a, b) not in known for a, b in others)
        if is_another or is_elsewhere or (is_fixed and is_resized_elsewhere):
            return True
    return False


def is_contradicted(promise: Promise, unlike: Unlike) -> bool:
    """Whether a promise has taken one axis for another, as what was made of other samples shows."""
    ndim = len(unlike.given)
    return _is_mistaken(promise.axes(ndim), unlike.given, (0,) * ndim, unlike)


def resized_axes(
    halo: Sequence[int], blocks: Sequence[Array], returned: Sequence[dict[str, Array]]
) -> dict[str, set[int]]:
    """Axes of two blocks, of other extents in each, that an array has with a number of elements
    more or less which is the same in both; by the names of arrays.
    """
    first, second = returned
    found = {}
    for name in set(first).intersection(second):
        pairs = list(zip((first[name], second[name]), blocks, strict=True))
        if any(array.ndim != block.ndim for array, block in pairs):
            continue
        more, other = (np.subtract(array.shape, block.shape) for array, block in pairs)
        differ = np.not_equal(blocks[0].shape, blocks[1].shape)
        is_resized = (more == other) & (more != 0) & differ & (np.array(halo) == 0)
        found[name] = set(np.flatnonzero(is_resized).tolist())
    return found


def with_continued(
    promises: Sequence[Promise], number: int, resized: Mapping[tuple[int, str], set[int]]
) -> tuple[Promise, ...]:
    """The promises of a step, which say of its new axes which are others, longer or shorter."""
    told = []
    for promise in promises:
        same = resized.get((number, promise.name), set())
        same = same.intersection(promise.drop_axis, dict(promise.new_axis))
        told.append(replace(promise, continued=tuple(sorted(same))))
    return tuple(told)


def of_any_dtype(
    promised: Sequence[Sequence[tuple[Promise, ...]]], blocks: Sequence[DType]
) -> list[tuple[Promise, ...]]:
    """The first of these promises of all steps, each of which was learned of blocks of one dtype;
    with the dtype that an array has for blocks of any, or of each.
    """
    dtypes = [block.name for block in blocks]
    told = []
    for step, first in enumerate(promised[0]):
        each = [promises[step] if step < len(promises) else () for promises in promised]
        made = [_made(promises, dtype) for promises, dtype in zip(each, dtypes, strict=True)]
        told.append(tuple(_settled(promise, dtypes, made) for promise in first))
        dtypes = [next(iter(names.values()), "") for names in made]
    return told


def _made(promises: Sequence[Promise], block: str) -> dict[str, str]:
    """Names of the dtypes that arrays have, made of a block of one, by the arrays' names."""
    return {promise.name: promise.dtype or block for promise in promises}


def _settled(promise: Promise, blocks: Sequence[str], made: Sequence[Mapping[str, str]]) -> Promise:
    """A promise of the dtype that an array has for blocks of all of these dtypes, or has for each;
    as it was learned of the first, where nothing was of another one.
    """
    dtypes = [names.get(promise.name) for names in made]
    of_each = {block: dtype for block, dtype in zip(blocks, dtypes, strict=True) if dtype}
    others = {block: dtype for block, dtype in of_each.items() if dtype != block}
    if not others:
        return replace(promise, dtype=None)
    if len(set(of_each.values())) == 1:
        return replace(promise, dtype=next(iter(others.values())))
    return replace(promise, dtype=None, of_dtypes=tuple(others.items()))


def _resizes_space(axes: Axes, ndim: int, space: Collection[int], are_named: bool) -> bool:
    """Whether an axis of space has got another length, by which its voxels would lose their place:
    that has to be said. Where no axis has a name, that is so if their number is another one.
    """
    if not are_named and axes.ndim == ndim:
        return False
    dropped = axes.dropped(ndim)
    places = [place for place in space if place in dropped and place < axes.ndim]
    return any(axes.lengths[place] > 1 for place in places)


def _promise(name: str, array: Array, block: Array, axes: Axes) -> Promise:
    dtype = None
    if array.dtype != block.dtype:
        dtype = array.dtype.name
    new = [
        (position, length)
        for position, (axis, length) in enumerate(zip(axes.kept, axes.lengths, strict=True))
        if axis is None
    ]
    return Promise(name, dtype, axes.dropped(block.ndim), tuple(new))


def matched(made: Sequence[Pair], given: Sequence[Pair]) -> Axes | None:
    """The axes of a block that an array has, by their extents in two samples, in the order of the
    block's; None where that is unclear.

    An extent that is the same in both, and of no axis of the block, is that of a new axis.
    """
    kept: list[int | None] = []
    lengths = []
    next_axis = 0
    for pair in made:
        same = [axis for axis in range(next_axis, len(given)) if given[axis] == pair]
        if len(same) > len([other for other in made if other == pair]):
            return None
        if same:
            kept.append(same[0])
            lengths.append(0)
            next_axis = same[0] + 1
        elif pair[0] == pair[1] and pair[0] > 0:
            kept.append(None)
            lengths.append(pair[0])
        else:
            return None
    return Axes(tuple(kept), tuple(lengths))


def require_arrays_of(step: Step, promises: Sequence[Promise], ndim: int) -> None:
    """Raise UsageError where a function returns a number for a block of `ndim` axes."""
    for promise in promises:
        if len(promise.drop_axis) == ndim and not promise.new_axis:
            named = f" as '{promise.name}'" if promise.name else ""
            raise UsageError(
                f"{step.ref.name} returned a single number for a block{named}: that reduces the"
                " array, as a fold does: write a hyperslab.Fold, whose lift makes a number of a"
                " block and whose merge makes one of two ('Reduce all blocks to one value' in the"
                " tutorial)"
            )
