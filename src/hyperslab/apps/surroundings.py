"""Surroundings: what lies around an array in its file and goes into the new one with it.

Of netCDF, and of HDF5 files with dimension scales: the coordinates along the array's axes, the
variables that its attributes name as coordinates, bounds and grid mapping, and the attributes of
the file. What does not go is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Companion
from hyperslab.arrays.sets import Member, SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.view import ArrayView
from hyperslab.formats.conventions.uncut import says_place
from hyperslab.formats.conventions.variables import (
    OF_ARRAYS,
    OF_COORDINATES,
    Group,
    Listing,
    Variable,
    named_in,
)
from hyperslab.formats.groups import read_groups
from hyperslab.storage.location import is_remote
from hyperslab.units import show_count

LARGEST_NBYTES = 16 * 1024**2
"Variables that take more, all of an array together, are left out: every task has the file's head."
MOST_FILES = 1000
"Files of one array that are asked for their surroundings."
_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What lies around an array."""

    companions: Mapping[str, Companion]
    attributes: Mapping[str, Any]
    "Attributes of the file."
    left: tuple[str, ...] = ()
    "What does not go with the array, and why, in words."


_NONE = Surroundings({}, {})


def surrounded(sources: SourceSet, written: str) -> tuple[SourceSet, tuple[str, ...]]:
    """The same arrays with what goes with them into files of a format, and what is to be said of
    the rest, a sentence each.
    """
    _, facts = formats.written_as(written)
    wholes = []
    said: dict[str, None] = {}
    for whole in sources.wholes:
        around = _around(sources, whole)
        label = sources.first(whole).label
        if facts.has_groups:
            kept = tuple(around.companions.values())
            header = replace(whole.header, companions=kept, file_attributes=around.attributes)
            wholes.append(replace(whole, header=header))
            left = list(around.left)
        else:
            wholes.append(whole)
            left = _left_by(facts.title, around)
            left += _backwards(facts.title, whole)
        left += _unplaced(sources, whole)
        if left:
            said[f"left out of {label}: {'; '.join(left)}"] = None
    notes = tuple(said)
    if len(notes) > _SHOWN:
        notes = (*notes[:_SHOWN], f"the same of {show_count(len(notes) - _SHOWN, 'more array')}")
    return replace(sources, wholes=tuple(wholes)), notes


def _backwards(title: str, whole: Whole) -> list[str]:
    """What a format leaves whose step of time is always positive."""
    found = whole.header.sampling(whole.header.dims)
    return [
        f"that time runs backwards along {name}, which {title} cannot say"
        for name, one in found.items()
        if one.unit == "s" and one.step < 0
    ]


def _unplaced(sources: SourceSet, whole: Whole) -> list[str]:
    """What the files of an array say of places that cannot go along."""
    members = [sources.sources[one.source] for one in whole.members]
    return list(dict.fromkeys(text for one in members for text in one.header.unplaced))


def _left_by(title: str, around: Surroundings) -> list[str]:
    """What a format without groups of variables leaves."""
    found = list(around.left)
    lost = [name for name, one in around.companions.items() if not says_place(name, one.attributes)]
    if lost:
        found.append(f"{title} has no place for the variables {', '.join(lost)}")
    if around.attributes:
        found.append(f"{title} has no place for the file's attributes")
    return found


def _around(sources: SourceSet, whole: Whole) -> Surroundings:
    """The surroundings of an array, of all its files together."""
    if not _has_any(sources.first(whole)):
        return _NONE
    if len(whole.members) > MOST_FILES:
        return replace(
            _NONE, left=(f"coordinates and file attributes of more than {MOST_FILES} files",)
        )
    each = [_of_source(sources, sources.sources[one.source]) for one in whole.members]
    if len(each) == 1:
        return each[0]
    return _together(whole, each)


def _has_any(source: ArraySource) -> bool:
    """Whether a file says something of the axes of an array by variables of its own."""
    facts = formats.facts_of(source.format)
    is_plain = all(name.startswith(("dim_", "phony_dim_")) for name in source.dims)
    is_image = any(one.cosines for one in source.header.base_sampling.values())
    return bool(facts.groups) and not (is_plain or is_image or source.broken)


def _of_source(sources: SourceSet, source: ArraySource) -> Surroundings:
    if is_remote(source.url):
        return replace(_NONE, left=("coordinates and file attributes: the file is remote",))
    places = list(_groups_of(source))
    own = source.name.rpartition("/")[2]
    listings = [read_groups(source.url, place) for place in places]
    groups = [group for listing in listings for group in listing.groups.values()]
    wanted = _wanted(source, groups)
    left = []
    kept = {}
    nbytes = 0
    for name, variable in wanted.items():
        nbytes += variable.dtype.itemsize * int(np.prod(variable.shape))
        why = _why_left(variable, nbytes)
        if why:
            left.append(f"variable {name} ({why})")
        else:
            kept[name] = _companion(listings[0], variable)
    converted = {one.name.rpartition("/")[2] for one in sources.sources if one.url == source.url}
    others = [v.name for v in groups[0].variables if v.name not in {own, *wanted, *converted}]
    if others:
        left.append(f"variables {_listed(others)} (name each one to convert it)")
    fixed = sorted(set(source.dims) & {name for group in groups for name in group.unlimited})
    if fixed:
        left.append(f"that {_listed(fixed)} may grow")
    return Surroundings(kept, _attributes(groups[-1]), tuple(left))


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        text += f" and {len(names) - _SHOWN} more"
    return text


def _groups_of(source: ArraySource) -> Iterator[str]:
    """The groups that an array is in, the innermost first."""
    above = source.name.strip("/").split("/")[:-1]
    while above:
        yield "/".join(above)
        above = above[:-1]
    yield ""


def _wanted(source: ArraySource, groups: Sequence[Group]) -> dict[str, Variable]:
    """Variables that say something of an array, as the innermost group has them."""
    known: dict[str, Variable] = {}
    for group in groups:
        known = {variable.name: variable for variable in group.variables} | known
    known.pop(source.name.rpartition("/")[2], None)
    found = {}
    for name in source.dims:
        if name in known and known[name].dims == (name,):
            found[name] = known[name]
    for name in named_in(source.header.attributes, OF_ARRAYS):
        if name in known:
            found[name] = known[name]
    for one in tuple(found.values()):
        for name in named_in(one.attributes, OF_COORDINATES):
            if name in known:
                found[name] = known[name]
    return found


def _why_left(variable: Variable, nbytes: int) -> str:
    if variable.is_text or variable.dtype.kind not in "biufcS":
        return "it is neither numbers nor characters"
    if variable.shape != variable.stored_shape:
        return "it is shorter than its dimension"
    if nbytes > LARGEST_NBYTES:
        return f"with it there are more than {LARGEST_NBYTES // 1024**2} MiB"
    return ""


def _companion(listing: Listing, variable: Variable) -> Companion:
    source = formats.module(listing.format).open(listing.path, variable.path)
    values = np.asarray(ArrayView(source, "stored")[...])
    return Companion(variable.name, variable.dims, values, dict(variable.attributes))


def _attributes(root: Group) -> dict[str, Any]:
    """Attributes of a file, without those that netCDF's libraries keep for themselves."""
    return {
        name: value
        for name, value in root.attributes.items()
        if not name.startswith("_NC") and isinstance(value, str | bytes | np.ndarray | np.generic)
    }


def _together(whole: Whole, each: Sequence[Surroundings]) -> Surroundings:
    """Surroundings of an array of several files: coordinates that are one after the other, or the
    same, and attributes that all files have.
    """
    first = each[0]
    left = dict.fromkeys(text for one in each for text in one.left)
    kept = {}
    for name in first.companions:
        joined = _joined(whole, [one.companions.get(name) for one in each])
        if joined is None:
            left[f"variable {name} (it differs from file to file)"] = None
        else:
            kept[name] = joined
    same = {
        name: value
        for name, value in first.attributes.items()
        if all(_is_same(value, one.attributes.get(name)) for one in each)
    }
    if differing := sorted(first.attributes.keys() - same.keys()):
        left[f"file attributes {_listed(differing)} (they differ from file to file)"] = None
    return Surroundings(kept, same, tuple(left))


def _joined(whole: Whole, parts: Sequence[Companion | None]) -> Companion | None:
    """One variable of those of all files; None where they do not fit."""
    one = parts[0]
    assert one is not None
    extents = dict(zip(whole.header.dims, whole.shape, strict=True))
    shape = [extents.get(*pair) for pair in zip(one.dims, one.values.shape, strict=True)]
    values = np.zeros(shape, one.values.dtype)
    is_there = np.zeros(shape, np.bool_)
    for member, part in zip(whole.members, parts, strict=True):
        if part is None or not _is_alike(one, part):
            return None
        place = _place(whole, member, part)
        already = is_there[place]
        if values[place].shape != part.values.shape or not _is_same(
            values[place][already], part.values[already]
        ):
            return None
        values[place] = part.values
        is_there[place] = True
    if not is_there.all():
        return None
    return replace(one, values=values)


def _is_alike(one: Companion, other: Companion) -> bool:
    """Whether the numbers of two variables mean the same."""
    said = one.attributes
    return (
        (one.dims, one.values.dtype) == (other.dims, other.values.dtype)
        and said.keys() == other.attributes.keys()
        and all(_is_same(value, other.attributes[name]) for name, value in said.items())
    )


def _place(whole: Whole, member: Member, part: Companion) -> tuple[slice, ...]:
    """Where the values of a file's variable lie in that of the whole."""
    box: Hyperslab = member.box
    along = dict(zip(whole.header.dims, zip(box.start, box.count, strict=True), strict=True))
    pairs = [along.get(name, (0, n)) for name, n in zip(part.dims, part.values.shape, strict=True)]
    return tuple(slice(first, first + count) for first, count in pairs)


def _is_same(one: Any, other: Any) -> bool:
    a: Array = np.asarray(one)
    b: Array = np.asarray(other)
    return a.dtype.kind == b.dtype.kind and a.shape == b.shape and a.tobytes() == b.tobytes()
