"""Encoding: how a new file stores an array, as far as a user chooses it."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a new file stores an array, as far as a user chooses it; xarray's word. What is left out
    is the format's.

    A number for `chunks` or `shards` is that of an array of one dimension, and a `compression` may
    bring its level: 'gzip:1'. Raises UsageError for what can be meant in no format.
    """

    chunks: tuple[int, ...] = ()
    "Shape of a chunk along the array's own axes; (): the format's choice."
    compression: str | None = None
    "'none', or a name that the format knows: gzip, zstd, ...; None: the format's choice."
    level: int | None = None
    "Level of the compression; None: its fastest sensible one."
    shards: tuple[int, ...] = ()
    "Shape of a shard, which holds whole chunks, along the array's own axes (Zarr 3); (): none."
    version: int | None = None
    "Version of the format, where it has several (Zarr: 2 or 3)."
    name: str = ""
    "Name of the dataset in the file; '': the format's choice; '/': the file itself (Zarr)."
    virtual: bool = False
    """True: the parts that writers made stay, and the file says where they are (HDF5: a virtual
    dataset).
    """

    def __post_init__(self) -> None:
        name, level = parse_compression(self.compression)
        if level is not None and self.level not in (None, level):
            raise UsageError(
                f"--compression {self.compression} says another level than level={self.level}"
            )
        object.__setattr__(self, "chunks", _shape("chunks", self.chunks))
        object.__setattr__(self, "shards", _shape("shards", self.shards))
        object.__setattr__(self, "compression", name)
        if level is not None:
            object.__setattr__(self, "level", level)


def require_encoding(given: object) -> None:
    """Raise UsageError for what is no Encoding."""
    if not isinstance(given, Encoding):
        raise UsageError(f"encoding has to be a hyperslab.Encoding, not a {type(given).__name__}")


def parse_compression(text: Any) -> tuple[str | None, int | None]:
    """(name, level) from 'gzip:4', 'gzip' or 'none'; None where nothing is said."""
    if text is None:
        return None, None
    said = re.fullmatch(r"([^:]+)(?::(-?\d{1,3}))?", text) if isinstance(text, str) else None
    if said is None:
        raise UsageError(
            f"--compression {text}: give none, gzip, or a name with a level such as gzip:4"
        )
    name, level = said.groups()
    if level is None:
        return name, None
    return name, int(level)


def _shape(what: str, given: Any) -> tuple[int, ...]:
    numbers = [given]
    if isinstance(given, Sequence):
        numbers = list(given)
    try:
        shape = tuple(operator.index(n) for n in numbers)
    except TypeError:
        shape = (0,)
    if any(n < 1 for n in shape):
        told = given
        if isinstance(given, tuple):
            told = ",".join(map(str, given))
        raise UsageError(f"--{what} {told}: give one number of at least 1 for every axis")
    return shape


DEFAULT_ENCODING = Encoding()
"All is left to the format."
