"""Phases of operations on files: by what kind of file they are on, else by when they were.

What Spark shuffles or evicts says by its names what it is for, whenever it was: stages may overlap,
and a stage may read one shuffle and write the next. Everything else belongs to the stage, or the
part of a run, in whose time it falls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.accesses import KNOWN, Accesses, Window

SHUFFLE_WRITE, SHUFFLE_READ = "shuffle write", "shuffle read"
EVICTION, REREAD, CLEANING = "eviction", "re-read", "clean-up"
OUTSIDE, WHOLE = "outside of stages", "command"
_FINAL = re.compile(r".*/shuffle_\d+_\d+_\d+\.(data|index)$")
_READING = np.array([KNOWN[name] for name in ("open", "read", "stat", "map", "close")])
_UNLINK = KNOWN["unlink"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Words:
    """Words in the place of numbers: what every row of a column says."""

    def __init__(self, numbers: Ints, words: Sequence[str]) -> None:
        self.numbers = numbers
        self.words = list(words)

    @classmethod
    def of(cls, each: Sequence[str]) -> Words:
        """A column of words."""
        known: dict[str, int] = {}
        numbers = np.array([known.setdefault(word, len(known)) for word in each], np.int64)
        return cls(numbers, list(known))

    def at(self, rows: Any) -> Words:
        """The column in other rows."""
        return Words(self.numbers[rows], self.words)

    def are(self, word: str) -> Bools:
        """Rows that say a word."""
        if word not in self.words:
            return np.zeros(len(self.numbers), bool)
        found: Bools = self.numbers == self.words.index(word)
        return found

    def set(self, rows: Bools, word: str) -> None:
        """Have some rows say another word."""
        if word not in self.words:
            self.words.append(word)
        self.numbers[rows] = self.words.index(word)


def phases_of(accesses: Accesses, kinds: Words, windows: Sequence[Window]) -> Words:
    """The phase of every access, whose kinds are given."""
    each = accesses.columns
    found = _by_time(each["start_ns"], windows)
    reads = np.isin(each["operation"], _READING)
    removes = each["operation"] == _UNLINK
    is_shuffle = kinds.are("shuffle")
    is_final = np.array([_FINAL.match(path) is not None for path in accesses.paths], bool)
    on_final = is_shuffle & is_final[each["path"]]
    found.set(is_shuffle, SHUFFLE_WRITE)
    found.set(on_final & reads, SHUFFLE_READ)
    found.set(on_final & removes, CLEANING)
    is_evicted = kinds.are("eviction")
    found.set(is_evicted, EVICTION)
    found.set(is_evicted & reads, REREAD)
    found.set(is_evicted & removes, CLEANING)
    return found


def _by_time(start_ns: Any, windows: Sequence[Window]) -> Words:
    """The window that each time falls into; of several, the first that is given."""
    found = Words(np.zeros(len(start_ns), np.int64), [OUTSIDE if windows else WHOLE])
    for window in reversed(windows):
        rows = (start_ns >= window.start_ns) & (start_ns <= window.end_ns)
        found.set(rows, window.name)
    return found
