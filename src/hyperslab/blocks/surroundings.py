"""Surroundings: what lies around an array in its file and goes into the new one with it.

Of netCDF, of HDF5 files with dimension scales, and of Zarr: the coordinates along the array's axes,
the variables that its attributes name as coordinates, bounds and grid mapping, and the attributes
of the file. What does not go is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from hyperslab import formats
from hyperslab.arrays.axes import UNNAMED
from hyperslab.arrays.header import Companion
from hyperslab.arrays.references import OF_ARRAYS, OF_COORDINATES, named_in
from hyperslab.arrays.sets import Member, SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource
from hyperslab.blocks import stored
from hyperslab.blocks.stored import LARGEST_NBYTES, NO_NUMBERS, meant, too_large, typed
from hyperslab.blocks.view import ArrayView
from hyperslab.formats.conventions.uncut import says_place
from hyperslab.formats.conventions.variables import (
    Group,
    Listing,
    Variable,
)
from hyperslab.formats.facts import Facts
from hyperslab.formats.groups import read_groups
from hyperslab.formats.hooks import TellsOfGroups
from hyperslab.formats.sharing import are_same, is_same_value
from hyperslab.storage.location import is_remote
from hyperslab.units import show_count

MOST_FILES = 1000
"Files of one array that are asked for their surroundings."
SHOWN = 5
"Names, and lines of one kind, that are shown at most."
_MINC = "/minc-2.0/"
"Group of the arrays of MINC, whose names are the same in all files."
_PLAIN = (str, bytes, np.ndarray, np.generic)
"Types of attributes of one element, or of numbers."


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What lies around an array."""

    companions: Mapping[str, Companion]
    attributes: Mapping[str, Any]
    "Attributes of the file."
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    "Attributes of the groups that the array is in, by their paths."
    others: tuple[str, ...] = ()
    "Variables of its group that neither go with it nor are converted themselves."
    left: tuple[str, ...] = ()
    "What does not go with the array, and why, in words."

    @property
    def all_left(self) -> list[str]:
        """All that does not go with the array, in words."""
        return [*others_left(self.others), *self.left]


_NONE = Surroundings({}, {})


class Reader:
    """Reads groups and small variables of files, each once."""

    def __init__(self) -> None:
        self._listings: dict[tuple[str, str, bool], Listing] = {}
        self._companions: dict[tuple[str, str], Companion] = {}
        self._arrays: dict[str, list[ArrayInfo]] = {}

    def listing(self, url: str, place: str, tree: bool = False) -> Listing:
        """A group of a file. Raises FormatError, MissingGroup."""
        wanted = (url, place, tree)
        if wanted not in self._listings:
            self._listings[wanted] = read_groups(url, place, tree)
        return self._listings[wanted]

    def arrays(self, path: str) -> list[ArrayInfo]:
        """All arrays of a store. Raises FormatError."""
        if path not in self._arrays:
            self._arrays[path] = formats.arrays(path)
        return self._arrays[path]

    def companion(self, listing: Listing, variable: Variable) -> Companion:
        """A variable with its stored values."""
        wanted = (listing.path, variable.path)
        if wanted not in self._companions:
            source = formats.module(listing.format).open(listing.path, variable.path)
            values = np.asarray(ArrayView(source, "stored")[...])
            self._companions[wanted] = Companion(
                variable.name, variable.dims, values, dict(variable.attributes)
            )
        return self._companions[wanted]


def surrounded(sources: SourceSet, written: str) -> tuple[SourceSet, tuple[str, ...]]:
    """The same arrays with what goes with them into files of a format, and what is to be said of
    the rest, a sentence each.
    """
    _, facts = formats.written_as(written)
    reader = Reader()
    wholes = []
    said: dict[str, None] = {}
    for whole in sources.wholes:
        around = around_of(sources, whole, reader)
        label = sources.first(whole).label
        wholes.append(with_surroundings(whole, around, facts))
        left = left_of(sources, whole, around, facts)
        if left:
            said[f"left out of {label}: {'; '.join(left)}"] = None
    notes = tuple(said)
    if len(notes) > SHOWN:
        notes = (*notes[:SHOWN], f"the same of {show_count(len(notes) - SHOWN, 'more array')}")
    return replace(sources, wholes=tuple(wholes)), notes


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of arrays that go into one file together."""

    extras: Mapping[str, Sequence[Companion]] = field(default_factory=dict)
    "Further small variables, by the name of an array with which they go."
    groups: frozenset[str] = frozenset()
    "Groups of which all variables are asked for."
    left: tuple[str, ...] = ()
    "What is left out of these groups, and why, in words."


def with_surroundings(whole: Whole, around: Surroundings, facts: Facts) -> Whole:
    """An array with what goes with it into files of a format."""
    if not facts.holds_several:
        return whole
    placed = [_placed(one, facts) for one in around.companions.values()]
    kept = [one for one in placed if one is not None]
    header = replace(
        whole.header,
        companions=tuple(kept),
        file_attributes=around.attributes,
        group_attributes=around.groups,
    )
    return replace(whole, header=header)


def left_of(sources: SourceSet, whole: Whole, around: Surroundings, facts: Facts) -> list[str]:
    """What does not go with an array into files of a format."""
    left = around.all_left
    lost = [name for name, one in around.companions.items() if _placed(one, facts) is None]
    lost = [name for name in lost if not says_place(name, around.companions[name].attributes)]
    if lost:
        left.append(f"{facts.title} has no place for the variables {', '.join(lost)}")
    if around.attributes and not facts.holds_several:
        left.append(f"{facts.title} has no place for the file's attributes")
    if facts.has_groups:
        left += _unsaid(facts.title, around)
    else:
        left += _backwards(facts.title, whole)
    return left + _unplaced(sources, whole)


def _unsaid(title: str, around: Surroundings) -> list[str]:
    """Attributes of files and groups that only JSON can hold."""
    every = {name: one for said in around.groups.values() for name, one in said.items()}
    every |= around.attributes
    kinds = (*_PLAIN, bool, int, float)
    lost = [name for name, one in every.items() if not (isinstance(one, kinds) or _is_texts(one))]
    if not lost:
        return []
    return [f"{title} has no place for the attributes {listed(sorted(lost))}"]


def _placed(one: Companion, facts: Facts) -> Companion | None:
    """A variable as files of a format can hold it: where they have no attributes of packing for it,
    with its real values; None where they cannot.
    """
    if facts.has_groups:
        return one
    if not facts.holds_several:
        return None
    return meant(one)


def others_left(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"variables {listed(names)} (name each one to convert it)"]


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


def around_of(
    sources: SourceSet,
    whole: Whole,
    reader: Reader,
    with_plain: bool = False,
    skipped: Collection[str] = (),
) -> Surroundings:
    """The surroundings of an array, of all its files together, without variables that are skipped;
    of one whose axes have no names of their own only with `with_plain`.
    """
    first = sources.first(whole)
    if not has_variables(first) or (_is_plain(first) and not with_plain):
        return _NONE
    if len(whole.members) > MOST_FILES:
        return replace(
            _NONE, left=(f"coordinates and file attributes of more than {MOST_FILES} files",)
        )
    files = [sources.sources[one.source] for one in whole.members]
    each = [_of_source(sources, one, reader, skipped) for one in files]
    if len(each) == 1:
        return each[0]
    return _together(whole, each)


def _is_plain(source: ArraySource) -> bool:
    """Whether no axis of an array has a name, by which a variable could belong to it."""
    return all(map(is_numbered, source.dims))


def is_numbered(name: str) -> bool:
    """Whether an axis has no name but a number."""
    return name.startswith(UNNAMED)


def has_variables(source: ArraySource) -> bool:
    """Whether a file may say something of an array by variables of its own."""
    facts = formats.facts_of(source.format)
    is_image = any(one.cosines for one in source.header.base_sampling.values())
    is_known = bool(facts.groups) or facts.says_of_groups
    return is_known and not (is_image or source.broken)


def _of_source(
    sources: SourceSet,
    source: ArraySource,
    reader: Reader,
    skipped: Collection[str],
) -> Surroundings:
    if is_remote(source.url):
        return replace(_NONE, left=("coordinates and file attributes: the file is remote",))
    if formats.facts_of(source.format).says_of_groups:
        return _of_store(source, reader, skipped)
    places = list(_groups_of(source))
    own = source.name.rpartition("/")[2]
    listings = [reader.listing(source.url, place) for place in places]
    groups = [group for listing in listings for group in listing.groups.values()]
    wanted = belonging(own, source.dims, source.header.attributes, groups)
    converted = {name_of(one) for one in sources.sources if one.url == source.url}
    left = []
    kept = {}
    nbytes = 0
    for name, variable in wanted.items():
        if variable.path.strip("/") in skipped:
            continue
        own_nbytes = variable.dtype.itemsize * variable.size
        why = why_left(variable, nbytes + own_nbytes)
        if why:
            left.append(f"variable {name} ({why})")
        else:
            nbytes += own_nbytes
            kept[name] = reader.companion(listings[0], variable)
    beside = [one for one in groups[0].variables if one.path.strip("/") not in converted]
    others = tuple(one.name for one in beside if one.name not in {own, *wanted})
    fixed = sorted(set(source.dims) & {name for group in groups for name in group.unlimited})
    if fixed:
        left.append(unlimited(fixed))
    inner = zip(places[:-1], groups[:-1], strict=True)
    said = {place: _attributes(group) for place, group in inner}
    return Surroundings(kept, _attributes(groups[-1]), said, others, tuple(left))


def _of_store(source: ArraySource, reader: Reader, skipped: Collection[str]) -> Surroundings:
    """Attributes of the groups that an array is in, none of one that is in no group; and the
    variables beside it that say something of it.
    """
    if not name_of(source):
        return _NONE
    module = cast(TellsOfGroups, formats.module(source.format))
    said = {}
    for place in _groups_of(source):
        found = module.group_attributes(source.url, place)
        said[place] = {name: typed(value) for name, value in found.items()}
    kept, left = stored.belonging(source, reader.arrays(source.url), skipped)
    return Surroundings(kept, said.pop(""), said, (), tuple(left))


def name_of(source: ArraySource) -> str:
    return source.name.strip("/")


def own_name(sources: SourceSet, whole: Whole) -> str:
    """The name of an array in all of its files; '' where it has several, or none of its own."""
    names = {sources.sources[member.source].name for member in whole.members}
    name = names.pop()
    if names or name.startswith(_MINC):
        return ""
    return name


def unlimited(names: Sequence[str]) -> str:
    """What is said of dimensions that could grow in the file, and in the new one cannot."""
    return f"unlimited dimensions, which become fixed ({listed(names)})"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first of them."""
    text = ", ".join(names[:SHOWN])
    if len(names) > SHOWN:
        text += f" and {len(names) - SHOWN} more"
    return text


def _groups_of(source: ArraySource) -> Iterator[str]:
    """The groups that an array is in, the innermost first."""
    above = source.name.strip("/").split("/")[:-1]
    while above:
        yield "/".join(above)
        above = above[:-1]
    yield ""


def belonging(
    own: str, dims: Sequence[str], attributes: Mapping[str, Any], groups: Sequence[Group]
) -> dict[str, Variable]:
    """Variables that say something of an array with a name, dimensions and attributes, as the
    innermost of its groups has them.
    """
    known: dict[str, Variable] = {}
    for group in groups:
        known = {variable.name: variable for variable in group.variables} | known
    known.pop(own, None)
    found = {}
    for name in dims:
        if name in known and known[name].dims[:1] == (name,):
            found[name] = known[name]
    for name in named_in(attributes, OF_ARRAYS):
        if name in known:
            found[name] = known[name]
    for one in tuple(found.values()):
        for name in named_in(one.attributes, OF_COORDINATES):
            if name in known:
                found[name] = known[name]
    return found


def why_left(variable: Variable, nbytes: int) -> str:
    """Why a variable, with which there are so many bytes, does not go with an array; '' where it
    does.
    """
    if variable.is_text or variable.dtype.kind not in "biufcS":
        return NO_NUMBERS
    if variable.shape != variable.stored_shape:
        return "it is shorter than its dimension"
    if nbytes > LARGEST_NBYTES:
        return too_large()
    return ""


def _attributes(root: Group) -> dict[str, Any]:
    """Attributes of a file, without those that netCDF's libraries keep for themselves."""
    return {
        name: value
        for name, value in root.attributes.items()
        if not name.startswith("_NC") and (_is_texts(value) or isinstance(value, _PLAIN))
    }


def _is_texts(value: Any) -> bool:
    """Whether an attribute is several texts."""
    is_several = isinstance(value, list | tuple) and bool(value)
    return is_several and all(isinstance(one, str) and "\0" not in one for one in value)


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
    same, others = in_all([one.attributes for one in each])
    if others:
        left[f"file attributes {listed(sorted(others))} (they differ from file to file)"] = None
    return Surroundings(kept, same, first.groups, first.others, tuple(left))


def in_all(each: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], set[str]]:
    """Attributes that are the same in all files, and names of the others."""
    same = {
        name: value
        for name, value in each[0].items()
        if all(name in one and is_same_value(value, one[name]) for one in each)
    }
    return same, {name for one in each for name in one} - same.keys()


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
        if values[place].shape != part.values.shape or not is_same_value(
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
    return (one.dims, one.values.dtype) == (other.dims, other.values.dtype) and are_same(
        one.attributes, other.attributes
    )


def _place(whole: Whole, member: Member, part: Companion) -> tuple[slice, ...]:
    """Where the values of a file's variable lie in that of the whole."""
    box: Hyperslab = member.box
    along = dict(zip(whole.header.dims, zip(box.start, box.count, strict=True), strict=True))
    pairs = [along.get(name, (0, n)) for name, n in zip(part.dims, part.values.shape, strict=True)]
    return tuple(slice(first, first + count) for first, count in pairs)
