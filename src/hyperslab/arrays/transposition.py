"""Transposition: an array seen with its axes in another order than its file has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.arrays.header import FIRST, Header
from hyperslab.arrays.source import ArraySource, Scaling


def space_first(source: ArraySource) -> ArraySource:
    """The same array with its axes of space first, and its affine with them; itself where they are,
    or where there are not three of which the file says the place.
    """
    header = source.header
    if header.space == FIRST:
        return source
    order = order_of_space(source)
    placed = replace(
        header,
        space=FIRST,
        origin=tuple(header.origin[axis] for axis in order if header.origin),
        step=tuple(header.step[axis] for axis in order if header.step),
        dims=tuple(header.dims[axis] for axis in order if header.dims),
    )
    return transposed(source, order, placed)


def order_of_space(source: ArraySource) -> tuple[int, ...]:
    """Axes of an array, those of space first."""
    header = source.header
    return (*header.space, *header.further(source.ndim))[: source.ndim]


def order_of(source: ArraySource, axes: Sequence[int]) -> tuple[int, ...]:
    """Axis by axis the file's own axis that a source's axis is; `axes` are the file's own axes in
    stored order.
    """
    pairs = sorted(zip(source.axes, axes, strict=True))
    return tuple(own for _, own in pairs)


def transposed(source: ArraySource, order: Sequence[int], header: Header) -> ArraySource:
    """The array whose axis i is this one's axis `order[i]`, with that header."""
    places = {old: new for new, old in enumerate(order)}
    return replace(
        source,
        shape=tuple(source.shape[axis] for axis in order),
        dims=tuple(source.dims[axis] for axis in order),
        axes=tuple(places[axis] for axis in source.axes),
        scaling=_scaling(source.scaling, order),
        header=header,
    )


def _scaling(scaling: Scaling | None, order: Sequence[int]) -> Scaling | None:
    if scaling is None or scaling.is_linear:
        return scaling
    slope, inter = (_factor(factor, order) for factor in (scaling.slope, scaling.inter))
    return replace(scaling, slope=slope, inter=inter)


def _factor(factor: Any, order: Sequence[int]) -> Any:
    if isinstance(factor, np.ndarray) and factor.ndim:
        return factor.transpose(order)
    return factor
