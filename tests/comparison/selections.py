"""Random selections as NumPy's users write them, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from tests.comparison.draws import chance


class Selection(NamedTuple):
    """An index of integers, slices and '...', with a list along one axis at most."""

    parts: tuple[Any, ...]
    listed: int | None = None
    "Which part of the index is a list; there is no '...' then."

    def of(self, whole: Array) -> Array:
        """What it selects; the axis of a list stays where it is."""
        if self.listed is None:
            return np.asarray(whole[self.parts], whole.dtype)  # a text by itself loses its length
        plain: tuple[Any, ...] = (
            *self.parts[: self.listed],
            slice(None),
            *self.parts[self.listed + 1 :],
        )
        axis = sum(isinstance(part, slice) for part in plain[: self.listed])
        where: tuple[Any, ...] = (slice(None),) * axis
        return np.asarray(whole[plain][(*where, np.asarray(self.parts[self.listed]))])

    def __str__(self) -> str:
        return "[" + ", ".join(map(_written, self.parts)) + "]"


def select(rng: Random, shape: Sequence[int], lists: bool = True) -> Selection:
    """Everything, one element, or by turns integers, slices with any steps, '...', and a list."""
    style = rng.random()
    if style < 0.08:
        return Selection((...,))
    if style < 0.12:
        return Selection(())
    if style < 0.2 and 0 not in shape:
        return Selection(tuple(_integer(rng, extent) for extent in shape))
    parts = [_part(rng, extent) for extent in shape]
    if lists and shape and chance(rng, 0.12):
        axis = rng.randrange(len(shape))
        parts[axis] = _list(rng, shape[axis])
        return Selection(tuple(parts), axis)
    if shape and chance(rng, 0.25):
        first = rng.randint(0, len(parts))
        last = rng.randint(first, len(parts))
        parts[first:last] = [...]
    elif chance(rng, 0.2):
        del parts[rng.randint(0, len(parts)) :]
    return Selection(tuple(parts))


def box(rng: Random, shape: Sequence[int]) -> Selection:
    """A plain block."""
    edges = [sorted((rng.randint(0, extent), rng.randint(0, extent))) for extent in shape]
    return Selection(tuple(slice(low, high) for low, high in edges))


def _part(rng: Random, extent: int) -> Any:
    style = rng.random()
    if style < 0.15 and extent:
        return _integer(rng, extent)
    if style < 0.3:
        return slice(None)
    if style < 0.34:
        return slice(extent, extent)
    step = rng.choice((None, 1, 1, 1, 2, 3, 5, -1, -1, -2, -4, extent + 1))
    start, stop = (_end(rng, extent) for _ in range(2))
    return slice(start, stop, step)


def _end(rng: Random, extent: int) -> int | None:
    return None if chance(rng, 0.25) else rng.randint(-extent - 1, extent + 1)


def _integer(rng: Random, extent: int) -> int:
    return rng.randrange(-extent, extent)


def _list(rng: Random, extent: int) -> Any:
    style = rng.random()
    if style < 0.3:
        return np.array([chance(rng, 0.4) for _ in range(extent)], np.bool_)
    count = rng.randint(0, 6) if extent else 0
    found = [_integer(rng, extent) for _ in range(count)]
    return np.array(found, np.intp)


def _written(part: Any) -> str:
    if part is Ellipsis:
        return "..."
    if isinstance(part, slice):
        ends = ("" if end is None else str(end) for end in (part.start, part.stop))
        return ":".join(ends) + ("" if part.step is None else f":{part.step}")
    return str(part.tolist()) if isinstance(part, np.ndarray) else str(part)
