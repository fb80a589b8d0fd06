"""SourceSet: one or many sources as the array or arrays that a pipeline runs over.

Three ways to see several files: `independent` (each is an array of its own), `concatenated` along
an axis, or a `mosaic` of blocks that tile one array. In every case the set is a list of wholes, and
a whole is a shape tiled by members, so that everything above deals with one kind of thing.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import is_invertible, is_turned
from hyperslab.arrays.header import Header
from hyperslab.arrays.naming import Stem, names_of
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.arrays.transposition import order_of_space, space_first
from hyperslab.errors import UsageError
from hyperslab.redaction import redact
from hyperslab.units import show_bytes, show_count

Kind = Literal["independent", "concatenated", "mosaic"]

ORIGIN_TOLERANCE_VOXELS = 0.01
"""Origins in files are float32 millimetres: at 600 mm and 0.02 mm voxels they are good to 0.003
voxels.
"""


class Member(NamedTuple):
    """One source and its place in a whole."""

    source: int
    "Index into SourceSet.sources."
    box: Hyperslab
    "The region of the whole that the source fills."


class Piece(NamedTuple):
    """Part of a block, as one source holds it."""

    source: int
    slab: Hyperslab
    "Region of the source."
    place: Hyperslab
    "Place in the block."


@functools.lru_cache(maxsize=1024)
def _all_of(count: tuple[int, ...]) -> Hyperslab:
    """All of a block: most blocks of a plan have one of few shapes, and share this region."""
    return Hyperslab.full(count)


@dataclass(frozen=True, slots=True)
class Whole:
    """An array that a pipeline runs over: one source, or several that tile it exactly."""

    name: str
    shape: tuple[int, ...]
    members: tuple[Member, ...]
    "Members in the order of their first element along the axis below."
    header: Header
    axis: int = 0
    "The axis along which the members have the most different places."
    longest: int = 0
    "Largest extent of a member along that axis."

    def pieces(self, slab: Hyperslab) -> Iterator[Piece]:
        """The parts of `slab` (a region of the whole) and where each comes from; together they fill
        its block.
        """
        is_within = all(map(operator.le, slab.bounds[1], self.shape))
        if is_within and self.members[0].box.count == self.shape:
            if slab.size:
                yield Piece(self.members[0].source, slab, _all_of(slab.count))
            return
        for source, box in self.near(slab):
            part = slab.clip(box)
            if part is None:
                continue
            inside, place = part
            offset = tuple(-first for first in box.start)
            yield Piece(source, inside.shift(offset), place)

    def near(self, slab: Hyperslab) -> Sequence[Member]:
        """The members that may touch a region: a task among many must not look at all files."""
        if len(self.members) == 1 or not slab.ndim:
            return self.members
        low, high = (edge[self.axis] for edge in slab.bounds)
        first = bisect.bisect_right(self.members, low - self.longest, key=self._place)
        last = bisect.bisect_left(self.members, high, key=self._place)
        return self.members[first:last]

    def _place(self, member: Member) -> int:
        return member.box.start[self.axis]


@dataclass(frozen=True, slots=True)
class SourceSet:
    """The sources of one input of a pipeline, and the wholes they make.

    As a sequence it holds its arrays, each a SourceSet of its own: `len(found)`, `found[0]`,
    `found[2:5]`, `for one in found`. Several files that are one array are one of these.
    """

    kind: Kind
    sources: tuple[ArraySource, ...]
    wholes: tuple[Whole, ...]

    def __len__(self) -> int:
        return len(self.wholes)

    def __iter__(self) -> Iterator[SourceSet]:
        return (self._only([whole]) for whole in self.wholes)

    def __getitem__(self, number: int | slice) -> SourceSet:
        """One of the arrays, or some of them. Raises IndexError for a number that none has, and for
        no array; TypeError for an index of values.
        """
        if isinstance(number, slice):
            chosen = self.wholes[number]
        elif hasattr(number, "__index__"):
            chosen = (self.wholes[number],)
        else:
            raise TypeError(
                "sources are indexed by the number of an array, or a slice of such numbers; the"
                " values of an array by hyperslab.to_dask(sources[0])[...]"
            )
        if not chosen:
            raise IndexError(f"there is no array in this slice of {len(self):,}")
        return self._only(chosen)

    def _only(self, wholes: Sequence[Whole]) -> SourceSet:
        """These arrays alone, with their names."""
        kept = [member.source for whole in wholes for member in whole.members]
        places = {source: place for place, source in enumerate(kept)}
        numbered = []
        for whole in wholes:
            members = tuple(Member(places[source], box) for source, box in whole.members)
            numbered.append(replace(whole, members=members))
        sources = tuple(self.sources[source] for source in kept)
        return SourceSet(self.kind, sources, tuple(numbered))

    @property
    def ndim(self) -> int:
        return self.sources[0].ndim

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes; () where they have none."""
        return self.sources[0].dims

    @property
    def size(self) -> int:
        return sum(math.prod(whole.shape) for whole in self.wholes)

    def __repr__(self) -> str:
        first = self.wholes[0]
        told = f"{redact(self.sources[0].url)} {'x'.join(map(str, first.shape))}"
        if len(self.wholes) > 1:
            told += f" and {len(self.wholes) - 1:,} more"
        return f"<{told}>"

    def _repr_html_(self) -> str:
        whole = self.wholes[0]
        source = self.first(whole)
        files = show_count(len(self.sources), "file")
        arrays = show_count(len(self.wholes), "array")
        shape = " x ".join(f"{n:,}" for n in whole.shape)
        if len({whole.shape for whole in self.wholes}) > 1:
            shape += " (the first one's)"
        dtypes = {str(source.stored) for source in self.sources}
        nbytes = sum(source.nbytes for source in self.sources)
        rows = {
            "kind": self.kind,
            "arrays": arrays,
            "shape": shape,
            "stored as": ", ".join(sorted(dtypes)),
            "size": show_bytes(nbytes),
            "first file": source.url,
        }
        from hyperslab.markup import fragment, grid_svg

        bounds = [box.bounds for _, box in whole.members]
        edges = []
        for axis in range(self.ndim):
            places = {bound[axis] for pair in bounds for bound in pair}
            edges.append(sorted(places))
        return fragment(f"{arrays} in {files}", rows, grid_svg(edges, source.dims))

    def beside(self, index: int) -> Whole:
        """The array that goes with the source's of this number: its own, or the only one."""
        if len(self.wholes) == 1:
            return self.wholes[0]
        return self.wholes[index]

    def first(self, whole: Whole) -> ArraySource:
        """The source that speaks for a whole: its axes, chunks and dtype decide how the whole is
        cut.
        """
        return self.sources[whole.members[0].source]


def independent(
    sources: Sequence[ArraySource], stem_of: Stem = str, alike: bool = True
) -> SourceSet:
    """Every source is an array of its own; all that are `alike` have one number of dimensions, so
    that a function can be given any of them.

    Outputs are named by what `stem_of` makes of the names of files.
    """
    if alike:
        _require_same_ndim(sources)
    wholes = []
    names = names_of(sources, stem_of)
    for number, (name, source) in enumerate(zip(names, sources, strict=True)):
        member = Member(number, Hyperslab.full(source.shape))
        wholes.append(Whole(name, source.shape, (member,), _header(source)))
    return SourceSet("independent", tuple(sources), tuple(wholes))


def concatenated(sources: Sequence[ArraySource], axis: int, stem_of: Stem = str) -> SourceSet:
    """One array: the sources one after the other along `axis`, in the order given."""
    _require_same_ndim(sources)
    ndim = sources[0].ndim
    if not ndim:
        raise UsageError(
            f"{sources[0].url} holds a single number, which has no axis: numbers cannot be"
            " concatenated"
        )
    if not -ndim <= axis < ndim:
        raise UsageError(f"--axis {axis}: the sources have axes 0 to {ndim - 1}")
    axis %= ndim
    origins = []
    reach = 0
    for source in sources:
        if _without(source.shape, axis) != _without(sources[0].shape, axis):
            raise UsageError(
                f"cannot concatenate along axis {axis}: {source.url} has shape {source.shape}, "
                f"{sources[0].url} has {sources[0].shape}"
            )
        origin = [0] * ndim
        origin[axis] = reach
        origins.append(tuple(origin))
        reach += source.shape[axis]
    _require_one_place(sources, origins, axis)
    return _tiled("concatenated", sources, origins, stem_of)


def _require_one_place(
    sources: Sequence[ArraySource], origins: Sequence[tuple[int, ...]], axis: int
) -> None:
    """Raise UsageError where affines say another place than the joined array's.

    All may be the first one's, as those of copies of one header are, or say where each source comes
    to lie.
    """
    affines = [_affine_or_none(source) for source in sources]
    offsets = [_offset(affine, affines[0]) for affine in affines]
    strays = []
    for source, offset, origin in zip(sources, offsets, origins, strict=True):
        place = _along_space(origin, sources[0].header)
        if not _is_near(offset, place):
            strays.append(source)
    if strays and not all(_is_near(offset, (0, 0, 0)) for offset in offsets):
        raise UsageError(
            f"{strays[0].url} does not lie where joining along axis {axis} would put it, by its"
            f" affine and that of {sources[0].url}: leave out --axis, which joins files where their"
            " affines say, or give them one affine"
        )


def _along_space(origin: Sequence[int], header: Header) -> tuple[int, ...]:
    """An origin along the axes of space; 0 along those that an array of fewer axes lacks."""
    return tuple(origin[axis] if axis < len(origin) else 0 for axis in header.space)


def _affine_or_none(source: ArraySource) -> Array:
    """The affine of a source in millimetres; where it has none, its voxels count as such."""
    affine = source.header.affine_mm
    if affine is None:
        return np.eye(4)
    return affine


def mosaic(
    sources: Sequence[ArraySource],
    origins: Sequence[Sequence[int]] | None = None,
    stem_of: Stem = str,
) -> SourceSet:
    """One array tiled by the sources; `origins` in voxels, or as their headers place them: by the
    affines, and along further axes by what the files say of the array that they were cut from.

    Raises UsageError when the blocks overlap, leave a gap, or their affines do not fit one grid.
    """
    _require_same_ndim(sources)
    if origins is None and len(sources) > 1:
        from hyperslab.arrays.tiling import require_complete, require_places

        found = _origins_from_affines(sources)
        require_places(sources, found)
        made = mosaic(sources, found, stem_of)
        require_complete(sources, made.wholes[0].shape)
        return made
    if origins is None:
        origins = [(0,) * sources[0].ndim]
    lowest = [min(axis) for axis in zip(*origins, strict=True)]
    shifted = [tuple(map(operator.sub, origin, lowest)) for origin in origins]
    return _tiled("mosaic", sources, shifted, stem_of)


def _tiled(
    kind: Kind,
    sources: Sequence[ArraySource],
    origins: Sequence[tuple[int, ...]],
    stem_of: Stem,
) -> SourceSet:
    boxes = []
    for origin, source in zip(origins, sources, strict=True):
        boxes.append(Hyperslab(origin, source.shape))
    ends = [box.bounds[1] for box in boxes]
    shape = tuple(max(axis) for axis in zip(*ends, strict=True))
    if kind == "mosaic":
        from hyperslab.arrays.tiling import require_exact_cover

        require_exact_cover(shape, boxes, sources)
    first = sources[0]
    # The header of the first corner is the whole's, without rounding.
    corner = min(range(len(sources)), key=lambda i: origins[i])
    header = _header(sources[corner])
    if len(sources) > 1:
        back = tuple(-first for first in origins[corner])
        header = header.moved(back, (1,) * first.ndim)
    axis = max(range(first.ndim), key=lambda a: len({box.start[a] for box in boxes}), default=0)
    members = [Member(number, box) for number, box in enumerate(boxes)]
    members.sort(key=lambda member: member.box.start[axis : axis + 1])
    name: str = kind
    if len(sources) == 1:
        (name,) = names_of(sources, stem_of)
    longest = max(math.prod(box.count[axis : axis + 1]) for box in boxes)
    whole = Whole(name, shape, tuple(members), header, axis, longest)
    return SourceSet(kind, tuple(sources), (whole,))


def in_order_of_space(sources: SourceSet, stem_of: Stem = str) -> SourceSet:
    """The same arrays with their axes of space first; themselves where they are."""
    turned = [space_first(source) for source in sources.sources]
    if all(new is old for new, old in zip(turned, sources.sources, strict=True)):
        return sources
    if sources.kind == "independent":
        return independent(turned, stem_of)
    order = order_of_space(sources.sources[0])
    boxes = {member.source: member.box for member in sources.wholes[0].members}
    origins = []
    for number in range(len(turned)):
        start = boxes[number].start
        origins.append(tuple(start[axis] for axis in order))
    return _tiled(sources.kind, turned, origins, stem_of)


def _header(source: ArraySource) -> Header:
    """Header of a source that goes on with its values: the names of its axes, too."""
    return replace(source.header, dims=source.dims)


def _origins_from_affines(sources: Sequence[ArraySource]) -> list[tuple[int, ...]]:
    """Voxel origin of every source in the grid of the first one."""
    affines = [_affine_of(source) for source in sources]
    space = sources[0].header.space
    origins = []
    for source, affine in zip(sources, affines, strict=True):
        exact = None
        if source.header.space == space:
            exact = _offset(affine, affines[0])
        if exact is None or not _is_near(exact, np.rint(exact)):
            raise UsageError(
                f"{source.url} does not lie on the voxel grid of {sources[0].url}: "
                "a mosaic needs blocks cut from one array; give them as independent sources instead"
            )
        nearest = np.rint(exact).astype(int).tolist()
        further = _origin_beyond_affine(source, sources[0])
        axes = (*space, *source.header.further(source.ndim))
        places = dict(zip(axes, (*nearest, *further), strict=True))
        origins.append(tuple(places[axis] for axis in range(source.ndim)))
    return origins


def _offset(affine: Array, grid: Array) -> Array | None:
    """Where an affine begins, in voxels of another one along the axes of space; None where they are
    not alike.
    """
    if np.array_equal(affine, grid, equal_nan=True):
        return np.zeros(3)
    if not is_invertible(grid) or is_turned(affine, grid):
        return None
    between = affine[:3, 3] - grid[:3, 3]
    return np.asarray(np.linalg.solve(grid[:3, :3], between))


def _is_near(offset: Array | None, place: Array | tuple[int, ...]) -> bool:
    if offset is None:
        return False
    distance = np.abs(offset - place).max()
    return bool(distance <= ORIGIN_TOLERANCE_VOXELS)


def _origin_beyond_affine(source: ArraySource, first: ArraySource) -> list[int]:
    """Voxel origin along the axes that no affine places, 0 where the headers say nothing."""
    places = itertools.zip_longest(source.header.corner, first.header.corner, fillvalue=0.0)
    beyond = len(source.header.further(source.ndim))
    exact = [a - b for a, b in places][:beyond]
    nearest = [round(place) for place in exact]
    misses = [abs(place - n) for place, n in zip(exact, nearest, strict=True)]
    if max(misses, default=0) > ORIGIN_TOLERANCE_VOXELS:
        raise UsageError(
            f"{source.url} lies between the steps of {first.url} along an axis that is none of"
            " space"
        )
    return nearest + [0] * (beyond - len(nearest))


def _affine_of(source: ArraySource) -> Array:
    affine = source.header.affine_mm
    if affine is None:
        raise UsageError(
            f"{source.url} has no affine, so its place in a mosaic is unknown: give origins"
        )
    if not is_invertible(affine):
        raise UsageError(
            f"{source.url} has an affine that is singular or not finite, so its place in a mosaic"
            " is unknown: give origins, in a list of 'path,dataset,origin' in a .txt file"
        )
    return affine


def _require_same_ndim(sources: Sequence[ArraySource]) -> None:
    if not sources:
        raise UsageError("there is no source: name a file, a directory, a glob or a list of paths")
    odd = next((s for s in sources if s.ndim != sources[0].ndim), None)
    if odd is not None:
        raise UsageError(
            f"{odd.url} has {show_count(odd.ndim, 'dimension')}, {sources[0].url} has"
            f" {sources[0].ndim}: run them one by one"
        )


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
