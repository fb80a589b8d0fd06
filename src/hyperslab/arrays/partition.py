"""Partition: ways to cut an array into blocks. Without the halo, blocks are disjoint and cover the
array exactly.

A partition is its cut positions per axis; blocks are their cross product, in stored order so that
neighbouring tasks read neighbouring bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError

FAST_AXIS_WEIGHT = 4
"How many times longer than the others the fastest axis of a block with a halo may be."

RuleKind = Literal["auto", "block-shape", "blocks", "chunks", "slabs", "bytes"]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a user asked for an array to be cut."""

    kind: RuleKind = "auto"
    value: tuple[int, ...] = ()
    """block-shape: the shape; blocks: one number, or one per axis; bytes: one number; otherwise
    empty.
    """
    axes_whole: tuple[int, ...] = ()
    "Axes that are never cut."
    names_whole: tuple[str, ...] = ()
    "Names of further such axes, which `numbered_rule` finds among those of an array."

    def __post_init__(self) -> None:
        kinds = get_args(RuleKind)
        if self.kind not in kinds:
            raise UsageError(f"Rule('{self.kind}'): choose one of {', '.join(kinds)}")

    def __str__(self) -> str:
        text: str = self.kind
        if self.value:
            text += "=" + "x".join(map(str, self.value))
        if self.axes_whole or self.names_whole:
            axes = ",".join(map(str, (*self.axes_whole, *self.names_whole)))
            text += f", axes {axes} whole"
        return text


@dataclass(frozen=True, slots=True)
class Layout:
    """What a partition needs to know of an array."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    "Stored axis i (slowest first) is the array's axis axes[i]."
    itemsize: int
    chunk_shape: tuple[int, ...] | None
    "Shape of the stored chunks along the array's own axes; None where it is contiguous or unknown."
    halo: tuple[int, ...] = ()
    "Elements that are read around every block, per axis; empty: none."


@dataclass(frozen=True, slots=True)
class Partition:
    """Blocks of an array: the cross product of the intervals between cuts."""

    cuts: tuple[tuple[int, ...], ...]
    "Cut positions of each axis: 0 (or where a region begins), the inner ones, the extent."
    order: tuple[int, ...]
    "Axes from slowest to fastest, for the order of the blocks."

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis[-1] for axis in self.cuts)

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of blocks along each axis."""
        return tuple(len(axis) - 1 for axis in self.cuts)

    def __len__(self) -> int:
        return math.prod(self.grid)

    def __iter__(self) -> Iterator[Hyperslab]:
        intervals = [
            [(low, high - low) for low, high in itertools.pairwise(self.cuts[axis])]
            for axis in self.order
        ]
        places = [self.order.index(axis) for axis in range(len(self.cuts))]
        for block in itertools.product(*intervals):
            start = tuple([block[place][0] for place in places])
            count = tuple([block[place][1] for place in places])
            yield Hyperslab(start, count)

    @property
    def largest(self) -> tuple[int, ...]:
        """Shape of the largest block."""
        extents = []
        for axis in self.cuts:
            intervals = [high - low for low, high in itertools.pairwise(axis)]
            extents.append(max(intervals, default=0))
        return tuple(extents)


def cut(
    layout: Layout,
    rule: Rule,
    limit_nbytes: int,
    align: Sequence[int] = (),
    most: int | None = None,
) -> Partition:
    """Cut an array by a rule.

    `limit_nbytes` bounds the blocks of the `auto` rule; `align` gives per axis a number that every
    inner cut must be a multiple of (for functions that merge neighbouring voxels). Raises
    UsageError for a rule that does not fit, and for one that makes more than `most` blocks, before
    any of them is made.
    """
    whole = _whole_axes(rule.axes_whole, len(layout.shape))
    align = tuple(align) or (1,) * len(layout.shape)
    if rule.kind == "blocks":
        asked = _parts_per_axis(layout, rule.value, whole)
        parts = tuple(map(_possible, layout.shape, asked, align))
        _require_few(layout, rule, math.prod(parts), most)
        cuts = tuple(map(_balanced, layout.shape, parts, align))
    else:
        wanted = _block_shape(layout, rule, limit_nbytes, whole)
        block = tuple(map(_align, wanted, align, layout.shape))
        _require_few(layout, rule, number_of_blocks(layout, block), most)
        cuts = tuple(map(_regular, layout.shape, block))
    return Partition(cuts, layout.axes)


def number_cut(layout: Layout, rule: Rule) -> int:
    """How many blocks `cut` makes by a rule other than `auto`, none of which is made. Raises
    UsageError for a rule that does not fit.
    """
    whole = _whole_axes(rule.axes_whole, len(layout.shape))
    if rule.kind == "blocks":
        asked = _parts_per_axis(layout, rule.value, whole)
        return math.prod(map(_possible, layout.shape, asked, (1,) * len(asked)))
    return number_of_blocks(layout, _block_shape(layout, rule, 0, whole))


def cut_within(
    layout: Layout, region: Hyperslab, rule: Rule, limit_nbytes: int, most: int | None = None
) -> Partition:
    """Cut a region of an array by a rule; blocks that a rule makes of chunks begin where these
    do. Raises UsageError for a rule that does not fit, or makes more than `most`.
    """
    unit = _unit(layout)
    if rule.kind == "blocks":
        unit = (1,) * len(layout.shape)
    origin = [first // u * u for first, u in zip(region.start, unit, strict=True)]
    stop = region.bounds[1]
    shape = tuple(last - first for first, last in zip(origin, stop, strict=True))
    made = cut(replace(layout, shape=shape), rule, limit_nbytes, most=most)
    cuts = []
    for first, begin, axis in zip(region.start, origin, made.cuts, strict=True):
        places = {max(first, begin + place) for place in axis}
        cuts.append(tuple(sorted(places)))
    return Partition(tuple(cuts), made.order)


def cut_part(
    layout: Layout,
    region: Hyperslab,
    rule: Rule,
    limit_nbytes: int,
    align: Sequence[int] = (),
    most: int | None = None,
) -> Partition:
    """Cut a region as an array of its own by a rule, as `cut` does: of its own first element every
    inner cut is as far as `align` says. The cuts are those of the array that it is a part of.
    """
    made = cut(replace(layout, shape=region.count), rule, limit_nbytes, align, most)
    cuts = [
        tuple(first + place for place in axis)
        for first, axis in zip(region.start, made.cuts, strict=True)
    ]
    return Partition(tuple(cuts), made.order)


def _require_few(layout: Layout, rule: Rule, blocks: int, most: int | None) -> None:
    """Raise UsageError for more blocks than may be planned."""
    if most is None or blocks <= most:
        return
    shape = "x".join(map(str, layout.shape))
    raise UsageError(
        f"{flag_of(rule)} cuts the array of shape {shape} into {blocks:,} blocks; a run has at most"
        f" {most:,}: ask for fewer and larger ones, or leave the choice to --partition auto"
    )


def flag_of(rule: Rule) -> str:
    """A rule as the command line has it."""
    value = ",".join(map(str, rule.value))
    match rule.kind:
        case "block-shape":
            return f"--block-shape {value}"
        case "blocks":
            return f"--blocks {'x'.join(map(str, rule.value))}"
        case "bytes":
            return f"--partition bytes={value}"
        case _:
            return f"--partition {rule.kind}"


def _block_shape(
    layout: Layout, rule: Rule, limit_nbytes: int, whole: frozenset[int]
) -> tuple[int, ...]:
    match rule.kind:
        case "block-shape":
            return _given_shape(layout, rule.value, whole)
        case "chunks":
            if layout.chunk_shape is None:
                raise UsageError(
                    "--partition chunks: the array is not stored in chunks; use --partition slabs"
                    " or bytes=64MiB"
                )
            return _with_whole(layout.chunk_shape, layout.shape, whole)
        case "slabs":
            return _slab_shape(layout, whole)
        case "bytes":
            return _bounded(layout, rule.value[0], whole)
        case _ if any(layout.halo):
            return _compact(layout, limit_nbytes, whole)
        case _:
            return _bounded(layout, limit_nbytes, whole)


def _given_shape(layout: Layout, value: tuple[int, ...], whole: frozenset[int]) -> tuple[int, ...]:
    if len(value) != len(layout.shape) or min(value, default=1) < 1:
        raise UsageError(
            f"--block-shape {','.join(map(str, value))}: the array has {len(layout.shape)}"
            f" dimensions, give one positive extent for each of shape {layout.shape}"
        )
    return _with_whole(value, layout.shape, whole)


def _with_whole(
    block: Sequence[int], shape: Sequence[int], whole: frozenset[int]
) -> tuple[int, ...]:
    """A block's shape with the array's extents along the axes that are not cut."""
    extents = list(block)
    for axis in whole:
        extents[axis] = shape[axis]
    return tuple(extents)


def _slab_shape(layout: Layout, whole: frozenset[int]) -> tuple[int, ...]:
    """One index (or one chunk) thick along the slowest axis that may be cut, whole along all
    others.
    """
    thick = next((axis for axis in layout.axes if axis not in whole), None)
    block = list(layout.shape)
    if thick is not None:
        block[thick] = _unit(layout)[thick]
    return tuple(block)


def _unit(layout: Layout) -> tuple[int, ...]:
    """Shape of what is read as a whole: a chunk, or one element."""
    return layout.chunk_shape or (1,) * len(layout.shape)


def _bounded(layout: Layout, limit_nbytes: int, whole: frozenset[int]) -> tuple[int, ...]:
    """The longest run of storage within the limit: whole along the fast axes, cut along the slow
    ones.
    """
    unit = _unit(layout)
    smallest = tuple(map(min, unit, layout.shape))
    block = list(_with_whole(smallest, layout.shape, whole))
    for axis in reversed(layout.axes):
        others = math.prod(n for a, n in enumerate(block) if a != axis)
        fits = limit_nbytes // max(1, others * layout.itemsize)
        if fits >= layout.shape[axis]:
            block[axis] = layout.shape[axis]
            continue
        if axis not in whole:
            block[axis] = max(block[axis], fits // unit[axis] * unit[axis])
        break
    return tuple(block)


def _compact(layout: Layout, limit_nbytes: int, whole: frozenset[int]) -> tuple[int, ...]:
    """A block that stays within the limit with its halo, and has little of it: halved where the
    halo costs least.

    The fastest axis is halved only when the others are much shorter, since that makes the runs of
    storage shorter.
    """
    block = layout.shape
    for block in halvings(layout, whole):
        if padded_nbytes(layout, block) <= limit_nbytes:
            break
    return block


def halvings(layout: Layout, whole: Collection[int] = ()) -> Iterator[tuple[int, ...]]:
    """Shapes of blocks with a halo, from the array's own down to the smallest: each is the one
    before, halved along the axis where the halo costs least.
    """
    unit = _unit(layout)
    block = list(layout.shape)

    def gain(axis: int) -> float:
        halo = layout.halo[axis] or 0.5
        if axis == layout.axes[-1]:
            halo *= FAST_AXIS_WEIGHT
        return block[axis] / halo

    while True:
        yield tuple(block)
        axes = [axis for axis in layout.axes if axis not in whole and block[axis] > unit[axis]]
        if not axes:
            return
        axis = max(axes, key=gain)
        half = math.ceil(block[axis] / 2 / unit[axis]) * unit[axis]
        block[axis] = max(unit[axis], half)


def padded_nbytes(layout: Layout, block: Sequence[int]) -> int:
    """Bytes of a block with its halo, that beyond the array's edges included."""
    padded = (n + 2 * h for n, h in zip(block, layout.halo, strict=True))
    return math.prod(padded) * layout.itemsize


def number_of_blocks(layout: Layout, block: Sequence[int]) -> int:
    """How many blocks of a shape an array is cut into."""
    return math.prod(map(_number, layout.shape, block))


def _parts_per_axis(
    layout: Layout, value: tuple[int, ...], whole: frozenset[int]
) -> tuple[int, ...]:
    ndim = len(layout.shape)
    if min(value, default=0) < 1 or len(value) not in (1, ndim):
        example = "x".join(str(max(1, n)) for n in (*value, *(1,) * ndim)[:ndim])
        raise UsageError(
            f"--blocks {'x'.join(map(str, value))}: give one number, or {ndim} joined by x, as in"
            f" {example}, for shape {layout.shape}"
        )
    if len(value) == ndim and ndim > 1:
        if any(n > 1 for axis, n in enumerate(value) if axis in whole):
            raise UsageError("--blocks cuts an axis that --axes-whole keeps whole")
        return value
    left = value[0]
    parts = [1] * ndim
    for axis in layout.axes:
        if axis not in whole and left > 1:
            parts[axis] = min(left, max(1, layout.shape[axis]))
            left = math.ceil(left / parts[axis])
    return tuple(parts)


def _possible(extent: int, parts: int, align: int) -> int:
    """The number of parts asked for, or as many as the extent has elements."""
    return max(1, min(parts, -(-extent // align)))


def _balanced(extent: int, parts: int, align: int) -> tuple[int, ...]:
    """Cut positions of `parts` nearly equal intervals."""
    units = -(-extent // align)
    inner = (align * (units * i // parts) for i in range(1, parts))
    return (0, *inner, extent)


def _number(extent: int, block: int) -> int:
    return -(-extent // max(1, block))


def _regular(extent: int, block: int) -> tuple[int, ...]:
    if extent == 0:
        return (0,)
    return (*range(0, extent, max(1, block)), extent)


def _align(block: int, align: int, extent: int) -> int:
    if block >= extent:
        return block
    return max(align, block // align * align)


def _whole_axes(axes: Sequence[int], ndim: int) -> frozenset[int]:
    if any(not -ndim <= axis < ndim for axis in axes):
        raise UsageError(
            f"--axes-whole {','.join(map(str, axes))}: the array has axes 0 to {ndim - 1}"
        )
    return frozenset(axis % ndim for axis in axes)
