"""Naming: a name for every array, by which what is made of it is called; and those of axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hyperslab.arrays import Array
from hyperslab.arrays.affines import directions
from hyperslab.arrays.axes import Axes, NamedAxes
from hyperslab.arrays.header import VOXELS, WORLD
from hyperslab.arrays.header import names_of as names_of_axes
from hyperslab.arrays.source import ArraySource
from hyperslab.storage.location import parts

Stem = Callable[[str], str]
"Function that takes from a file's name the part which names what is made of it."
IN_MEMORY = "array"
"Name of an array in memory, which has no file."


def names_of(sources: Sequence[ArraySource], stem_of: Stem) -> list[str]:
    """A name per source for its outputs."""
    return unique_names([_stem_parts(source, stem_of) for source in sources])


def unique_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """A name per path, of its folders and its file's stem: the stem, with as much of the folders as
    makes it unique.
    """
    for depth in range(1, max(len(p) for p in paths) + 1):
        names = ["_".join(p[-depth:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{'_'.join(p[-1:])}_{i}" for i, p in enumerate(paths)]


def _stem_parts(source: ArraySource, stem_of: Stem) -> tuple[str, ...]:
    if source.data is not None:
        return (IN_MEMORY,)
    *folders, name = parts(source.url)
    stem = stem_of(name)
    dataset = source.name.strip("/").replace("/", "-")
    if dataset:
        stem = f"{stem}_{dataset}"
    return (*folders, stem)


def axes_of(sources: Sequence[ArraySource], axes: Axes | None = None) -> list[NamedAxes]:
    """Names of the axes of these files, or of what has the axes `axes` of them: once for all that
    have the same.
    """
    known = [source for source in sources if not source.broken] or sources
    first: dict[tuple[str, ...], str] = {}
    for source in known:
        first.setdefault(source.dims, source.label)
    if axes is None:
        axes = Axes.same(known[0].ndim)
    return [NamedAxes(file, names_of_axes(axes, dims)) for dims, file in first.items()]


def names_in_space(affine: Array, dims: Sequence[str], shape: Sequence[int]) -> tuple[str, ...]:
    """Names of the axes of space of an image, of which the names and extents are given.

    Axes that are numbered keep their letters, in whichever order these come.
    """
    found = []
    for column, to in enumerate(directions(affine, shape)):
        if to is not None:
            found.append(WORLD[to])
        elif dims[column] in VOXELS:
            found.append(dims[column])
        else:
            found.append(VOXELS[column])
    return tuple(found)


def groups_above(name: str) -> list[str]:
    """The groups that an array of this name is in, the outermost first; without the root."""
    parts = name.strip("/").split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
