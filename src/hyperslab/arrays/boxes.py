"""Boxes: many regions without strides, in columns, so that all are looked at together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from hyperslab.arrays.slab import Hyperslab


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Regions whose strides are 1, of arrays of one number of axes."""

    low: npt.NDArray[np.int64]
    "(boxes, ndim): first element."
    count: npt.NDArray[np.int64]
    "(boxes, ndim): number of elements."

    @classmethod
    def of(cls, slabs: Sequence[Hyperslab]) -> Self:
        """These regions, of which there is at least one, and all of which are boxes."""
        low = np.array([slab.start for slab in slabs], np.int64)
        count = np.array([slab.count for slab in slabs], np.int64)
        return cls(low, count)

    def __len__(self) -> int:
        return len(self.low)

    def __iter__(self) -> Iterator[Hyperslab]:
        for start, count in zip(self.low.tolist(), self.count.tolist(), strict=True):
            yield Hyperslab(tuple(start), tuple(count))

    @property
    def high(self) -> npt.NDArray[np.int64]:
        """(boxes, ndim): one past the last element."""
        return self.low + self.count

    @property
    def size(self) -> npt.NDArray[np.int64]:
        """(boxes,): number of elements of each."""
        size: npt.NDArray[np.int64] = self.count.prod(axis=1)
        return size

    def take(self, rows: npt.NDArray[np.intp]) -> Boxes:
        """Some of the boxes."""
        return Boxes(self.low[rows], self.count[rows])

    def permute(self, axes: Sequence[int]) -> Boxes:
        """The boxes of the array whose axis i is this array's axis `axes[i]`."""
        order = list(axes)
        return Boxes(self.low[:, order], self.count[:, order])
