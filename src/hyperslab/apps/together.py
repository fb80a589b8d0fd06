"""Together: several arrays that a conversion puts into one new file, each by a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hyperslab import formats
from hyperslab.apps.variables import Chosen
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.gathering import Named, several
from hyperslab.blocks.surroundings import (
    SHOWN,
    Asked,
    Reader,
    Surroundings,
    around_of,
    in_all,
    is_numbered,
    left_of,
    listed,
    name_of,
    others_left,
    with_surroundings,
)
from hyperslab.errors import UsageError
from hyperslab.formats.place import laid_out
from hyperslab.plan.task import Output
from hyperslab.units import show_count


def holds_several(name: str) -> bool:
    """Whether a file of this name may hold several arrays."""
    facts = formats.facts_of_file_name(name)
    return facts is not None and facts.holds_several


def has_groups(name: str) -> bool:
    """Whether variables lie in groups in a file of this name."""
    facts = formats.facts_of_file_name(name)
    return facts is not None and facts.has_groups


def no_place(
    path: str,
    source: Named | Sequence[Named] | SourceSet,
    found: Chosen | None,
    error: UsageError,
) -> UsageError:
    """What to say where arrays that are named do not become one array in a file that holds but
    one: the error itself where one thing is named.
    """
    if found is None or isinstance(source, SourceSet):
        return error
    items = several(source)
    if len(items) == 1 and "::" in str(items[0]):
        return UsageError(no_room(path, len(found.arrays)))
    if len(items) == 1:
        return error
    return UsageError(
        f"{no_room(path, len(found.arrays))}; as blocks of one array they do not fit: {error}"
    )


def no_room(path: str, arrays: int) -> str:
    """What to do with arrays of which a file can hold but one."""
    facts = formats.facts_of_file_name(path)
    title = facts.title if facts else "such"
    return (
        f"{path}: a file of {title} holds one array, and {arrays} are named: name one, write .h5,"
        " .nc or .zarr, which hold several, or a directory for a file of each"
    )


def require_room(path: str, asked: Encoding, sources: SourceSet) -> None:
    """Raise UsageError for several arrays that cannot be in one file, or not by one name."""
    arrays = len(sources.wholes)
    if not holds_several(path):
        raise UsageError(no_room(path, arrays))
    if asked.name and arrays > 1:
        raise UsageError(
            f"--name {asked.name}: {arrays} arrays go into {path}, each by the name that it has:"
            " leave out --name, or name one of them"
        )


def named_apart(sources: SourceSet, encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    """The same encodings, in which every array has a name: that of its file where it has none."""
    return tuple(
        replace(one, name=one.name.strip("/") or whole.name)
        for one, whole in zip(encodings, sources.wholes, strict=True)
    )


def surrounded_together(
    sources: SourceSet, written: str, asked: Asked
) -> tuple[SourceSet, tuple[str, ...]]:
    """Arrays that go into one file with what goes with them there, and what is to be said of the
    rest, a sentence each. Raises UsageError where one would get what belongs to another.
    """
    _, facts = formats.written_as(written)
    arounds = _around_each(sources, asked)
    urls = [sources.first(whole).url for whole in sources.wholes]
    _require_own(sources, arounds)
    common, differing = _common(urls, arounds)
    notes: dict[str, dict[str, None]] = {url: {} for url in urls}
    notes[urls[0]] |= dict.fromkeys(asked.left)
    wholes = []
    for whole, url, around in zip(sources.wholes, urls, arounds, strict=True):
        groups = {place: common[place] for place in around.groups}
        own = replace(around, attributes=common[""], groups=groups, others=())
        wholes.append(with_surroundings(whole, own, facts))
        notes[url] |= dict.fromkeys(left_of(sources, whole, own, facts))
    for url, unnamed in _others(sources, arounds, asked):
        notes[url] |= dict.fromkeys(others_left(unnamed))
    said = [f"left out of {url}: {'; '.join(left)}" for url, left in notes.items() if left]
    if len(said) > SHOWN:
        said = [*said[:SHOWN], f"the same of {show_count(len(said) - SHOWN, 'more file')}"]
    if differing:
        said.append(f"left out: attributes {listed(differing)} (they differ from file to file)")
    return replace(sources, wholes=tuple(wholes)), tuple(said)


def _around_each(sources: SourceSet, asked: Asked) -> list[Surroundings]:
    """The surroundings of every array, without what is an array of the same group itself."""
    reader = Reader()
    found = []
    for whole in sources.wholes:
        first = sources.first(whole)
        place = _place_of(first)
        beside = {name_of(one) for one in sources.sources if one.url == first.url}
        skipped = {name for name in beside if name.rpartition("/")[0] == place}
        around = around_of(sources, whole, reader, with_plain=True, skipped=skipped)
        more = {one.name: one for one in asked.extras.get(name_of(first), ())}
        found.append(replace(around, companions={**around.companions, **more}))
    return found


def _place_of(source: ArraySource) -> str:
    """The group that an array is in."""
    return name_of(source).rpartition("/")[0]


def _require_own(sources: SourceSet, arounds: Sequence[Surroundings]) -> None:
    """Raise UsageError where an array would get coordinates that only another file has."""
    firsts = [sources.first(whole) for whole in sources.wholes]
    brought: dict[tuple[str, str], str] = {}
    for first, around in zip(firsts, arounds, strict=True):
        brought |= {(_place_of(first), name): first.url for name in around.companions}
    for first, around in zip(firsts, arounds, strict=True):
        arrays = {name_of(one) for one in firsts if one.url == first.url}
        for name in set(first.dims) - around.companions.keys():
            url = brought.get((_place_of(first), name), first.url)
            if url != first.url and f"{_place_of(first)}/{name}".lstrip("/") not in arrays:
                raise UsageError(
                    f"{first.label} has no coordinates along {name}, and would get those of {url}:"
                    " name a directory, for a file of each array"
                )


def _common(
    urls: Sequence[str], arounds: Sequence[Surroundings]
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Attributes that the root, '', and the groups have in all files that have these, by their
    paths; and names of those that differ.
    """
    each: dict[str, dict[str, Mapping[str, Any]]] = {}
    for url, around in zip(urls, arounds, strict=True):
        for place, said in {"": around.attributes, **around.groups}.items():
            each.setdefault(place, {})[url] = said
    common: dict[str, Mapping[str, Any]] = {}
    differing: set[str] = set()
    for place, files in each.items():
        common[place], others = in_all(list(files.values()))
        differing |= others
    return common, sorted(differing)


def _others(
    sources: SourceSet, arounds: Sequence[Surroundings], asked: Asked
) -> Iterator[tuple[str, list[str]]]:
    """Files, and variables of their groups that go with no array, and are none."""
    found: dict[tuple[str, str], set[str]] = {}
    for whole, around in zip(sources.wholes, arounds, strict=True):
        first = sources.first(whole)
        place = (first.url, _place_of(first))
        if place[1] not in asked.groups:
            found[place] = found.get(place, set(around.others)) & set(around.others)
    for (url, _), unnamed in found.items():
        yield url, sorted(unnamed)


def renamed_axes(sources: SourceSet, output: Output | None) -> tuple[str, ...]:
    """What is to be said of axes whose names were taken by others in the new file, a sentence."""
    if output is None or not any(volume.sink.members for volume in output.volumes):
        return ()
    said = []
    for whole, volume in zip(sources.wholes, output.volumes, strict=True):
        old = laid_out(whole.header, whole.shape).dims
        pairs = zip(old, volume.sink.header.dims, strict=False)
        changed = [pair for pair in pairs if pair[0] != pair[1] and not is_numbered(pair[0])]
        said += [
            f"axis {name} of {volume.sink.array_name} is called {new}" for name, new in changed
        ]
    if not said:
        return ()
    return (f"names that {output.volumes[0].sink.path} has for others: {'; '.join(said)}",)
