"""Variables: the arrays of one file that a conversion takes together into one new file.

A file stands for the variables of its root group, a group for its own. Small variables that belong
to others, such as coordinates, go with these (`hyperslab.blocks.surroundings`), as do other small
ones that are no arrays of numbers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from hyperslab import formats
from hyperslab.arrays.header import Companion
from hyperslab.arrays.sets import mosaic
from hyperslab.blocks.gathering import Named, several
from hyperslab.blocks.stored import NO_NUMBERS, is_number, read_stored
from hyperslab.blocks.surroundings import Asked, Reader, belonging, listed, unlimited, why_left
from hyperslab.errors import HyperslabError, MissingGroup, UsageError
from hyperslab.formats.conventions.variables import Group, Listing, Variable
from hyperslab.storage.location import is_remote

_NUMBERS = "biufc"
"Kinds of NumPy's dtypes of which arrays are converted in blocks."


@dataclass(frozen=True, slots=True)
class Chosen:
    """Arrays of one file."""

    path: str
    arrays: tuple[str, ...]
    "Their names in the file."
    asked: Asked

    @property
    def urls(self) -> list[str]:
        """PATH::DATASET of each."""
        return [f"{self.path}::{name}" for name in self.arrays]


class _Members(NamedTuple):
    """What a group has for a new file."""

    arrays: tuple[str, ...]
    extras: tuple[Companion, ...] = ()
    left: tuple[str, ...] = ()


def variables_of(named: Named | Sequence[Named], has_groups: bool = True) -> Chosen | None:
    """The arrays that go into one file together: of a file that holds several, of a group, or those
    that are named, of one file on this machine, but for blocks of one image. None for anything
    else. Raises FormatError.

    Those that go along with others are none of their own, unless they are named and the new file
    has no groups of variables, so that it may have no place for them else.
    """
    items = several(named)
    split = [_split(item) for item in items]
    paths = {path for path, _ in split}
    names = [name for _, name in split]
    if len(paths) != 1 or "" in paths:
        return None
    path = paths.pop()
    if not _may_be_several(path, names):
        return None
    parts = [_of_name(path, name) for name in names]
    if len(parts) == 1 and (parts[0] is None or not parts[0].arrays):
        return None
    arrays: dict[str, None] = {}
    extras: dict[str, tuple[Companion, ...]] = {}
    groups = set()
    left: dict[str, None] = {}
    for name, part in zip(names, parts, strict=True):
        if part is None:
            arrays[name.strip("/")] = None
            continue
        arrays |= dict.fromkeys(part.arrays)
        left |= dict.fromkeys(part.left)
        groups.add(name.strip("/"))
        extras |= dict.fromkeys(part.arrays[:1], part.extras)
    kept = list(arrays)
    if not groups and _is_one_image(path, kept):
        return None
    if has_groups or groups:
        kept = _without_belonging(path, kept)
    return Chosen(path, tuple(kept), Asked(extras, frozenset(groups), tuple(left)))


def _is_one_image(path: str, names: Sequence[str]) -> bool:
    """Whether arrays are blocks of one image, by their affines, which make all of it."""
    try:
        opened = [formats.open_source(f"{path}::{name}") for name in names]
        if len(opened) < 2 or not all(one.header.is_placed for one in opened):
            return False
        mosaic(opened)
    except HyperslabError:
        return False
    return True


def _split(item: Named) -> tuple[str, str]:
    """Path and dataset of a name; ('', '') for an array, a URL, or what is no file."""
    if not isinstance(item, str | os.PathLike) or is_remote(os.fspath(item)):
        return "", ""
    path, name = formats.split_url(os.path.expanduser(os.fspath(item)))
    is_file = os.path.isfile(path) or (os.path.isdir(path) and formats.is_store(path))
    if not is_file:
        return "", ""
    return path, name


def _may_be_several(path: str, names: Sequence[str]) -> bool:
    """Whether names can stand for several arrays of a file."""
    try:
        facts = formats.facts_of(formats.detect(path))
        if facts.is_one_array or (len(names) > 1 and not all(names)):
            return False
        if names == [""]:
            found = formats.module(facts.name).candidates(path)
            return len(found) > 1 or (not facts.groups and _has_coordinates(path, found))
    except HyperslabError:
        return False
    return True


def _has_coordinates(path: str, arrays: Sequence[str]) -> bool:
    """Whether the only array of a store has others beside it, and does not say its place itself."""
    if len(arrays) != 1 or not arrays[0]:
        return False
    source = formats.open_source(f"{path}::{arrays[0]}")
    return len(formats.arrays(path)) > 1 and not source.header.is_placed


def _of_name(path: str, name: str) -> _Members | None:
    """What a group holds; None where the name is that of no group."""
    place = name.strip("/")
    if place and _is_named(path, name):
        return None
    if not formats.facts_of(formats.detect(path)).groups:
        return _of_store(path, place)
    reader = Reader()
    with suppress(MissingGroup):
        return _of_group(reader, reader.listing(path, place, tree=True), place)
    return None


def _is_named(path: str, name: str) -> bool:
    """Whether a name is that of an array, also of one that cannot be read."""
    try:
        formats.open_source(f"{path}::{name}")
    except UsageError:
        return False
    except HyperslabError:
        return True
    return True


def _of_store(path: str, place: str) -> _Members | None:
    """The arrays of a group of a store, coordinates among them."""
    infos = formats.arrays(path)
    inside = [one for one in infos if not place or one.name.startswith(f"{place}/")]
    if not inside:
        return None
    own = [one for one in inside if one.name.rpartition("/")[0] == place]
    numbers = [one for one in own if is_number(one)]
    arrays = tuple(one.name for one in numbers if one.shape and 0 not in one.shape)
    left = [f"variable {one.name} ({NO_NUMBERS})" for one in own if one not in numbers]
    extras = [read_stored(path, one.name) for one in numbers if one.name not in arrays]
    below = {one.name.removeprefix(f"{place}/") for one in inside if one not in own}
    return _Members(arrays, tuple(extras), (*left, *_groups_left(path, place, below)))


def _groups_left(path: str, place: str, below: Collection[str]) -> list[str]:
    """A note of the groups in a group, by paths of what they hold."""
    groups = sorted({name.strip("/").partition("/")[0] for name in below} - {""})
    if not groups:
        return []
    example = "/".join(filter(None, (place, groups[0])))
    return [f"groups {listed(groups)} (name each one, as {os.path.basename(path)}::/{example})"]


def _of_group(reader: Reader, listing: Listing, place: str) -> _Members:
    wanted = f"/{place}"
    group = listing.groups[wanted]
    every = [one for one in group.variables if _is_array(one)]
    named = _belonging_names(every, group)
    arrays = [one for one in every if one.name not in named] or every
    taken = {one.name for one in arrays}
    taken |= _belonging_names(arrays, group)
    extras = []
    left = [f"variable {name} ({why})" for name, why in group.left_out.items()]
    for one in group.variables:
        if one.name in taken:
            continue
        why = why_left(one, one.dtype.itemsize * one.size)
        if why:
            left.append(f"variable {one.name} ({why})")
        else:
            extras.append(reader.companion(listing, one))
    growing = group.unlimited - {name for one in arrays for name in one.dims}
    if growing:
        left.append(unlimited(sorted(growing)))
    below = [name.removeprefix(wanted) for name in listing.groups if name != wanted]
    left += _groups_left(listing.path, place, below)
    return _Members(tuple(one.path.strip("/") for one in arrays), tuple(extras), tuple(left))


def _is_array(variable: Variable) -> bool:
    """Whether a variable is converted in blocks."""
    is_number = variable.dtype.kind in _NUMBERS and not variable.is_text
    return is_number and 0 not in variable.stored_shape and bool(variable.stored_shape)


def _belonging_names(arrays: Sequence[Variable], group: Group) -> set[str]:
    """Names of small variables that go with some arrays of a group."""
    found: dict[str, Variable] = {}
    for one in arrays:
        found |= belonging(one.name, one.dims, one.attributes, [group])
    return {name for name, one in found.items() if not why_left(one, one.dtype.itemsize * one.size)}


def _without_belonging(path: str, names: Sequence[str]) -> list[str]:
    """The arrays without those that go with others of them anyway."""
    if not formats.facts_of(formats.detect(path)).groups:
        return list(names)
    reader = Reader()
    gone: set[str] = set()
    for place in dict.fromkeys(name.rpartition("/")[0] for name in names):
        with suppress(MissingGroup):
            group = reader.listing(path, place).groups[f"/{place}"]
            own = [one for one in group.variables if one.path.strip("/") in names]
            beside = _belonging_names(own, group)
            if len(beside) < len(own):
                gone |= {one.path.strip("/") for one in own if one.name in beside}
    return [name for name in names if name not in gone]
