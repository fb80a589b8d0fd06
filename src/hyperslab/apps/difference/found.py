"""What a comparison found, as plain data: Comparison, Difference, ValueDifference,
HeaderDifference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperslab.arrays.slab import Hyperslab


@dataclass(frozen=True, slots=True)
class Element:
    """One element of both arrays."""

    index: tuple[int, ...]
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How the values of two arrays of one shape differ."""

    compared: int = 0
    """Elements that were compared; fewer than the arrays have when the comparison stopped at the
    first difference.
    """
    differing: int = 0
    one_nan: int = 0
    "Differing elements where one is NaN and the other is not."
    absolute: float | None = None
    "Largest |a - b|, but for NaN; None where nothing differs, or not by a number."
    relative: float | None = None
    "Largest |a - b| / |b|, infinite where b is 0; None as above."
    first: Element | None = None
    "The differing element of the lowest index: the first axis counts most."
    box: Hyperslab | None = None
    "The smallest region that holds all differing elements."
    files_a: Mapping[str, int] = field(default_factory=dict)
    "Differing elements per file of A that has some."
    files_b: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: ValueDifference) -> ValueDifference:
        """The result of two parts of one array, in any order."""
        return ValueDifference(
            self.compared + other.compared,
            self.differing + other.differing,
            self.one_nan + other.one_nan,
            _larger(self.absolute, other.absolute),
            _larger(self.relative, other.relative),
            min(
                (e for e in (self.first, other.first) if e is not None),
                key=lambda e: e.index,
                default=None,
            ),
            _around(self.box, other.box),
            Counter(self.files_a) + Counter(other.files_a),
            Counter(self.files_b) + Counter(other.files_b),
        )


@dataclass(frozen=True, slots=True)
class HeaderDifference:
    """One thing that two headers say differently."""

    what: str
    "shape, affine, units, ... or 'attribute NAME'."
    a: str
    b: str
    detail: str = ""
    "Size of the difference, and what was tolerated."


@dataclass(frozen=True, slots=True)
class Difference:
    """How two arrays differ."""

    a: str
    "What was compared: a path, or how many files where."
    b: str
    headers: tuple[HeaderDifference, ...] = ()
    "The shape alone where shapes differ."
    stored: tuple[HeaderDifference, ...] = ()
    "What is only stored differently (chunks, compression, byte order, ...): no difference."
    values: ValueDifference | None = None
    "None where the values cannot be compared one by one: `headers` says why."
    trouble: str = ""
    "Why the two could not be compared, for one pair among several."

    @property
    def same(self) -> bool:
        """True when neither values nor headers differ."""
        return (
            not self.trouble
            and not self.headers
            and self.values is not None
            and not self.values.differing
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two sources differ: one pair of arrays, or a pair for every two files of equal names."""

    pairs: tuple[Difference, ...]
    only_a: tuple[str, ...] = ()
    "Files of A that have no partner in B."
    only_b: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """True when no pair differs and every file has a partner."""
        return not self.only_a and not self.only_b and all(pair.same for pair in self.pairs)


def _larger(a: float | None, b: float | None) -> float | None:
    return max((number for number in (a, b) if number is not None), default=None)


def _around(a: Hyperslab | None, b: Hyperslab | None) -> Hyperslab | None:
    if a is None or b is None:
        return a or b
    low, high = ([*zip(*edges, strict=True)] for edges in zip(a.bounds, b.bounds, strict=True))
    first = tuple(map(min, low))
    return Hyperslab(
        first, tuple(max(ends) - start for ends, start in zip(high, first, strict=True))
    )
