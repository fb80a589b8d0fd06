"""Names of the dimensions of new files and stores: every one has one extent in its group, and is no
name of anything else there but of its coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hyperslab.arrays.header import Companion
from hyperslab.arrays.naming import groups_above
from hyperslab.arrays.sink import ArraySink
from hyperslab.formats.place import DATASET, companions_beside

_LONGEST_NAME = 256


@dataclass(slots=True)
class _Group:
    """What a group of a new file has names for."""

    variables: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = field(default_factory=dict)
    "Dimensions and extents of its variables, by their names; of what is no variable neither."
    extents: dict[str, int] = field(default_factory=dict)
    given: dict[tuple[str, int], str] = field(default_factory=dict)
    "Names of the dimensions, by the names that arrays have for them, and their extents."

    def names(self, dims: Sequence[str], shape: Sequence[int]) -> tuple[str, ...]:
        """Names of the dimensions of a variable, none twice."""
        found: list[str] = []
        for name, extent in zip(dims, shape, strict=True):
            known = self.given.get((name, extent))
            if known is None or known in found:
                known = self._free(name, extent, found)
                self.extents[known] = extent
                self.given.setdefault((name, extent), known)
            found.append(known)
        return tuple(found)

    def _free(self, name: str, extent: int, taken: Sequence[str]) -> str:
        numbered = (f"dim_{number}" for number in itertools.count())
        wanted = itertools.chain([name], numbered)
        return next(one for one in wanted if one not in taken and self._can_be(one, extent))

    def _can_be(self, name: str, extent: int) -> bool:
        """Whether a dimension of this extent can have a name."""
        if not is_name(name) or self.extents.get(name, extent) != extent:
            return False
        if name not in self.variables:
            return True
        dims, shape = self.variables[name]
        return dims[:1] == (name,) and shape[:1] == (extent,)


def dataset_name(sink: ArraySink) -> str:
    """Path of an array in its file or store."""
    return sink.encoding.name.strip("/") or DATASET


def with_free_names(sinks: Sequence[ArraySink]) -> tuple[ArraySink, ...]:
    """The same arrays of a file, whose axes have names that are free, numbers where theirs are not;
    as have those of what goes with them.
    """
    groups = _groups(sinks)
    found = []
    for sink, folder in zip(sinks, folders_of(sinks), strict=True):
        names = groups[folder].names(_dims(sink), sink.shape)
        found.append(replace(sink, header=replace(sink.header, dims=names)))
    after = []
    for sink, old, folder in zip(found, sinks, folders_of(sinks), strict=True):
        kept = tuple(
            replace(one, dims=_renamed(one, old, sink, groups[folder]))
            for one in old.header.companions
        )
        after.append(replace(sink, header=replace(sink.header, companions=kept)))
    return tuple(after)


def _renamed(one: Companion, old: ArraySink, new: ArraySink, group: _Group) -> tuple[str, ...]:
    """Names of the dimensions of a variable; along those of its array they are as this one's."""
    pairs = list(zip(old.header.dims, new.header.dims, strict=False))
    along = dict(reversed(pairs))
    beyond = [pair for pair in zip(one.dims, one.values.shape, strict=True) if pair[0] not in along]
    others = iter(group.names([name for name, _ in beyond], [extent for _, extent in beyond]))
    return tuple(along[name] if name in along else next(others) for name in one.dims)


def folders_of(sinks: Sequence[ArraySink]) -> list[str]:
    """The group in which each array has its dimensions: the root for the only one of a file, else
    its own.
    """
    if len(sinks) == 1:
        return [""]
    return [dataset_name(sink).rpartition("/")[0] for sink in sinks]


def _groups(sinks: Sequence[ArraySink]) -> dict[str, _Group]:
    groups = {folder: _Group() for folder in folders_of(sinks)}
    for sink, folder in zip(sinks, folders_of(sinks), strict=True):
        for one in companions_beside(sink.header, sink.shape):
            groups[folder].variables[one.name] = (one.dims, one.values.shape)
    names = [dataset_name(sink) for sink in sinks]
    for name in names:
        for path in (*groups_above(name), name):
            folder, _, own = path.rpartition("/")
            if folder in groups:
                groups[folder].variables[own] = ((), ())
    if len(sinks) > 1:
        for name, sink in zip(names, sinks, strict=True):
            folder, _, own = name.rpartition("/")
            groups[folder].variables[own] = (sink.header.dims, sink.shape)
    return groups


def _dims(sink: ArraySink) -> tuple[str, ...]:
    if len(sink.header.dims) == len(sink.shape):
        return sink.header.dims
    return tuple(f"dim_{axis}" for axis in range(len(sink.shape)))


def is_name(name: str) -> bool:
    """Whether netCDF may have a dimension of this name."""
    return bool(name.strip(".")) and "/" not in name and len(name) <= _LONGEST_NAME
