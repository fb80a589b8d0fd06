"""Lengths: how long the axes are that functions resize, for arrays of several lengths: as a trial
of each has shown, or by the rule that explains all that were tried.

Held by tests/driver/test_lengths.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Step, axes_after
from hyperslab.plan.promise import NewAxes, Promise

MOST_TRIED = 16
"Lengths that are tried; those of further arrays follow from them by a rule."

Shape = tuple[int, ...]


def distinct(shapes: Sequence[Shape], whole: Collection[int]) -> list[Shape]:
    """The first of the shapes of each combination of extents along these axes."""
    found: dict[Shape, Shape] = {}
    for shape in shapes:
        found.setdefault(tuple(shape[axis] for axis in sorted(whole)), shape)
    return list(found.values())


def some_of(shapes: Sequence[Shape]) -> list[Shape]:
    """Shapes of these that are tried, from the smallest to the largest."""
    ordered = sorted(shapes)
    last = len(ordered) - 1
    if last < MOST_TRIED:
        return ordered
    return [ordered[number * last // (MOST_TRIED - 1)] for number in range(MOST_TRIED)]


def resizes(steps: Sequence[Step], promised: Sequence[Sequence[Promise]]) -> bool:
    """Whether steps of which nothing was said make arrays with a new axis in the place of others,
    whose length may follow from theirs.
    """
    return any(
        promise.drop_axis and promise.new_axis
        for step, promises in zip(steps, promised, strict=False)
        for promise in promises
        if not step.changes_axes
    )


def with_lengths(
    steps: Sequence[Step],
    promised: Sequence[tuple[Promise, ...]],
    shapes: Sequence[Shape],
    tried: Mapping[Shape, Sequence[tuple[Promise, ...]]],
) -> list[tuple[Promise, ...]]:
    """Promises of steps, as they were learned of the first of the shapes, with the new axes for
    arrays of all; `tried` is what was learned of some. Raises UsageError where that is no rule.
    """
    told: list[tuple[Promise, ...]] = []
    before = list(steps)
    for number, known in enumerate(promised):
        promises = known
        blocks = {
            shape: axes_after(before[:number], len(shape), shape)[0].shape(shape)
            for shape in shapes
        }
        if not steps[number].changes_axes:
            shown = [
                (blocks[shape], found[number])
                for shape, found in tried.items()
                if number < len(found)
            ]
            promises = tuple(
                _of_all(steps[number], promise, list(blocks.values()), shown) for promise in known
            )
            before[number] = replace(steps[number], returns=promises)
        told.append(promises)
    return told


def _of_all(
    step: Step,
    promise: Promise,
    blocks: Sequence[Shape],
    shown: Sequence[tuple[Shape, tuple[Promise, ...]]],
) -> Promise:
    """A promise of a step, learned of the first block, with the new axes for all blocks."""
    others = []
    for block, promises in shown:
        same = [each for each in promises if each.name == promise.name]
        if len(promises) != len(shown[0][1]) or not same:
            raise _other(step, "other arrays")
        others.append((block, same[0]))
    dropped = sorted(set(promise.drop_axis).union(*(each.drop_axis for _, each in others)))
    first = _without(promise, blocks[0], dropped)
    found: dict[Shape, NewAxes] = {}
    for block, each in others:
        extents = tuple(block[axis] for axis in dropped)
        new = _without(each, block, dropped).new_axis
        if found.setdefault(extents, new) != new or not _are_alike(new, first.new_axis):
            raise _other(step, "other axes")
    for block in blocks:
        extents = tuple(block[axis] for axis in dropped)
        if extents in found:
            continue
        likely = _by_rule(extents, found)
        if likely is not None:
            found[extents] = likely
        elif len(blocks) > MOST_TRIED:
            raise _other(step, "an axis of a length that follows by no rule from theirs")
    if first.drop_axis == promise.drop_axis and set(found.values()) <= {first.new_axis}:
        return promise
    return replace(first, of_lengths=tuple(sorted(found.items())))


def _without(promise: Promise, block: Shape, dropped: Sequence[int]) -> Promise:
    """The same for a block of this shape, which says of axes that are kept that they are dropped,
    and new as they were.
    """
    kept = promise.axes(len(block), block).kept
    again = [(kept.index(axis), block[axis]) for axis in dropped if axis in kept]
    new = tuple(sorted((*promise.new_axis, *again)))
    return replace(promise, drop_axis=tuple(dropped), new_axis=new)


def _are_alike(new: NewAxes, other: NewAxes) -> bool:
    """Whether new axes are in the same places."""
    return [position for position, _ in new] == [position for position, _ in other]


def _other(step: Step, what: str) -> UsageError:
    return UsageError(
        f"{step.ref.name} returns {what} for arrays of other lengths: run over arrays of one length"
        " at a time"
    )


def _by_rule(extents: Shape, found: Mapping[Shape, NewAxes]) -> NewAxes | None:
    """The new axes for blocks of these extents, by what all that were found have in common; None
    for several axes, and where no rule explains these, or several do that differ.
    """
    if len(extents) > 1 or len(found) < 2:
        return None
    new = []
    for place, (position, _) in enumerate(next(iter(found.values()))):
        known = {of[0]: axes[place][1] for of, axes in found.items()}
        lengths = {rule(extents[0]) for rule in _rules(known)}
        if len(lengths) != 1 or min(lengths) < 1:
            return None
        new.append((position, lengths.pop()))
    return tuple(new)


def _rules(known: Mapping[int, int]) -> Iterator[Callable[[int], int]]:
    """Rules by which lengths follow from extents, of those that explain all that are known: the
    same one, by as many less or more, a part rounded down or up, a multiple, half and one.
    """
    extent, length = next(iter(known.items()))
    rules: list[Callable[[int], int]] = [
        lambda n: length,
        lambda n: n + length - extent,
        lambda n: n * (length // extent),
        lambda n: n // 2 + 1,
    ]
    for part in range(2, max(known) + 1):
        rules.append(lambda n, part=part: n // part)  # type: ignore[misc]
        rules.append(lambda n, part=part: -(-n // part))  # type: ignore[misc]
    for rule in rules:
        if all(rule(n) == made for n, made in known.items()):
            yield rule
