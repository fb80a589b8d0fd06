"""Transposition: an array seen with its axes in another order than its file has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.arrays.header import OF_SPACE, SPACE_AFFINE, WORLD, Header
from hyperslab.arrays.source import ArraySource, Scaling


def space_first(source: ArraySource) -> ArraySource:
    """The same array with its axes of space first, and its affine with them; itself where they are,
    or where there are not three of which the file says the place.
    """
    affine = replace(source.header, dims=source.dims).space_affine
    space = [axis for axis, name in enumerate(source.dims) if name in OF_SPACE]
    if affine is None or len(space) != len(WORLD):
        return source
    rest = [axis for axis in range(source.ndim) if axis not in space]
    said = {n: value for n, value in source.header.attributes.items() if n != SPACE_AFFINE}
    header = replace(source.header, base_affine=affine, attributes=said)
    return transposed(source, [*space, *rest], header)


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
