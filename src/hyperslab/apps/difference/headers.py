"""How the headers of two arrays differ: what is a difference, and what is only stored differently.

Of several files that make one array, all count: a field differs where the sets of what the files
say differ.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.apps.difference.found import HeaderDifference
from hyperslab.arrays import Array
from hyperslab.arrays.affines import ROUNDINGS, apart, tolerance
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.formats import facts_of
from hyperslab.formats.conventions.coordinates import UNITS
from hyperslab.formats.conventions.packing import ATTRIBUTES
from hyperslab.formats.conventions.uncut import SAID, SPACE_UNITS
from hyperslab.formats.netcdf.minc import OF_VARIABLES, STANDARD_VARIABLE, VALID
from hyperslab.formats.nifti.header import said_beside

_PLACED_VOXELS = 0.5
"A block further from where its affine says was placed by a list."
_APART = {"units", "corner", "whole_shape", SPACE_UNITS, *SAID}
"Attributes that are compared as fields of their own, or place a block among others."
_OF_NETCDF = ("_Netcdf4", "_NC")
"How attributes begin by which netCDF-4 keeps its dimensions in HDF5."
_OF_A_HEADER_APART = {"units", "zooms", "version", "byte_order"}
"Fields of a header that are compared as fields of their own."
_FILLS = ("_FillValue", "missing_value")
_SHOWN = 80
_LISTED = 3


def compare_headers(a: SourceSet, b: SourceSet, attributes: bool = True) -> list[HeaderDifference]:
    """All fields in which two arrays of one shape differ; `attributes` says whether those beside
    the geometry count.
    """
    found = [
        _field("stored dtype", a, b, lambda source: str(source.stored.newbyteorder("="))),
        _field(
            "real dtype", a, b, lambda s: f"none: {s.unscalable}" if s.unscalable else str(s.real)
        ),
        _names_of_axes(a, b),
        _affine(a, b),
        _zooms(a, b),
        _field("scaling", a, b, lambda source: source.scaling, _say_scaling),
        _units(a, b),
        _unit_of_space(a, b),
    ]
    if attributes:
        is_own = _have_one_header(a, b)
        names = dict.fromkeys(
            name for side in (a, b) for s in side.sources for name in _own_attributes(s, is_own)
        )
        found += [_attribute(f"attribute {name}", name, a, b) for name in names]
        found += _beside_geometry(a, b)
    return [difference for difference in found if difference is not None]


def compare_storage(a: SourceSet, b: SourceSet) -> list[HeaderDifference]:
    """How two arrays are stored differently, which makes no difference."""
    fields: dict[str, Callable[[ArraySource], str]] = {
        "format": lambda source: source.format,
        "byte order": lambda source: (
            "little" if source.stored.newbyteorder("<") == source.stored else "big"
        ),
        "chunks": lambda source: "x".join(map(str, source.own_chunk_shape)) or "one piece",
        "codecs": lambda source: (
            " then ".join(f"{c.name}{list(c.options) or ''}" for c in source.codecs) or "none"
        ),
    }
    found = [_field(what, a, b, say) for what, say in fields.items()]
    if _have_one_header(a, b):
        found.append(_attribute("version", "version", a, b))
    if len(a.sources) != len(b.sources):
        found.append(HeaderDifference("files", f"{len(a.sources):,}", f"{len(b.sources):,}"))
    return [difference for difference in found if difference is not None]


def say_shape(shape: Sequence[int]) -> str:
    """A shape in words."""
    return "x".join(map(str, shape)) or "scalar"


def _field(
    what: str,
    a: SourceSet,
    b: SourceSet,
    take: Callable[[ArraySource], Any],
    say: Callable[[Any], str] = str,
) -> HeaderDifference | None:
    """The difference in one field, where what the files of both sides say is not the same."""
    ours, theirs = (list(dict.fromkeys(map(take, side.sources))) for side in (a, b))
    if set(ours) == set(theirs):
        return None
    one, other = (_listed([say(value) for value in values]) for values in (ours, theirs))
    return HeaderDifference(what, one, other, "beyond what is shown here" if one == other else "")


def _listed(words: Sequence[str]) -> str:
    short = [word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..." for word in words[:_LISTED]]
    return " or ".join(short) + (f" or {len(words) - _LISTED} more" if len(words) > _LISTED else "")


def _names_of_axes(a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    if not all(facts_of(kind).has_named_axes for kind in _formats(a, b)):
        return None
    return _field("names of axes", a, b, lambda source: ", ".join(source.dims))


def _affine(a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    """How far voxels at the corners lie apart in millimetres, of the two arrays and of the blocks
    of each from its own array.
    """
    whole, other = (side.wholes[0].header.affine_mm for side in (a, b))
    if whole is None or other is None:
        return (
            None
            if whole is other
            else HeaderDifference("affine", _say_affine(whole), _say_affine(other))
        )
    shape = tuple(a.wholes[0].shape[axis] for axis in _space(a))
    distances = [(apart(whole, other, shape), "")]
    distances += [
        member for side, affine in ((a, whole), (b, other)) for member in _strayed(side, affine)
    ]
    largest, url = max(distances, key=lambda found: np.inf if np.isnan(found[0]) else found[0])
    tolerated = tolerance(whole, shape)
    if largest <= tolerated:
        return None
    detail = (
        f"corners up to {largest:.4g} mm apart{f' in {url}' * bool(url)}, tolerated are"
        f" {tolerated:.2g} mm"
    )
    return HeaderDifference("affine", _say_affine(whole), _say_affine(other), detail)


def _strayed(side: SourceSet, affine: Array) -> Iterator[tuple[float, str]]:
    """How far every block of a mosaic lies from its place by the affine of the whole."""
    for number, box in side.wholes[0].members if side.kind == "mosaic" else ():
        source = side.sources[number]
        motion = np.eye(4)
        space = _space(side)
        motion[: len(space), 3] = [box.start[axis] for axis in space]
        placed = affine @ motion
        own = source.header.affine_mm
        if own is None or not np.isfinite(placed).all():
            continue
        voxel = np.abs(np.linalg.pinv(placed[:3, :3]) @ (own[:3, 3] - placed[:3, 3]))
        if voxel.max() < _PLACED_VOXELS:
            extents = [box.count[axis] for axis in space]
            yield apart(placed, own, extents), source.url


def _space(side: SourceSet) -> list[int]:
    """Axes of an array that its affine places."""
    whole = side.wholes[0]
    return [axis for axis in whole.header.space if axis < len(whole.shape)]


def _say_affine(affine: Array | None) -> str:
    return (
        "none"
        if affine is None
        else "; ".join(" ".join(f"{v:.6g}" for v in row) for row in affine[:3])
    )


def _zooms(a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    """Voxel sizes beside the affine: those of time, too."""
    if not _have_one_header(a, b):
        return None
    ours, theirs = (
        [source.header.attributes["zooms"] for source in side.sources] for side in (a, b)
    )
    if all(
        np.allclose(zooms, ours[0], rtol=ROUNDINGS, atol=0, equal_nan=True)
        for zooms in (*ours, *theirs)
    ):
        return None
    words = [_listed([str(zooms) for zooms in dict.fromkeys(said)]) for said in (ours, theirs)]
    return HeaderDifference("zooms", words[0], words[1])


def _beside_geometry(a: SourceSet, b: SourceSet) -> Iterator[HeaderDifference]:
    """Other fields of NIfTI headers, which files of other formats may carry, of the arrays as
    wholes.
    """
    ours, theirs = (said_beside(side.wholes[0].shape, side.wholes[0].header) for side in (a, b))
    for name in ours if theirs else ():
        one, other = ours[name], theirs[name]
        is_number = isinstance(one, float)
        if one != other and not (
            is_number and np.isclose(one, other, rtol=ROUNDINGS, atol=0, equal_nan=True)
        ):
            yield HeaderDifference(f"NIfTI {name}", str(one), str(other))


def _formats(a: SourceSet, b: SourceSet) -> set[str]:
    return {source.format for source in (*a.sources, *b.sources)}


def _have_one_header(a: SourceSet, b: SourceSet) -> bool:
    """Whether all files are of one format, and have a header of its own."""
    found = _formats(a, b)
    return len(found) == 1 and all(facts_of(kind).has_own_header for kind in found)


def _own_attributes(source: ArraySource, is_own: bool) -> Iterator[str]:
    """The attributes that are compared as such; `is_own` says that the headers compared are of one
    kind, else fields of a header such as no other format has are left out.
    """
    if facts_of(source.format).has_own_header:
        apart = _OF_A_HEADER_APART if is_own else set(source.header.attributes)
    else:
        apart = _APART | _saying_nothing(source)
    return (
        name
        for name in source.header.attributes
        if name not in apart and not name.startswith(_OF_NETCDF)
    )


def _saying_nothing(source: ArraySource) -> set[str]:
    """Attributes that say no more than has been compared: the packing of values that are scaled,
    how MINC keeps its variables, and that NaN is what is not there.
    """
    said = source.header.attributes
    found: set[str] = set()
    is_minc = str(_plain(said.get("varid"))).startswith(STANDARD_VARIABLE)
    is_floating = source.stored.kind == "f"
    if source.scaling is not None:
        found |= ATTRIBUTES
    if is_minc:
        found |= OF_VARIABLES
    if is_minc and is_floating:
        found |= VALID
    if is_floating:
        found |= {name for name in _FILLS if _plain(said.get(name)) == "NaN"}
    return found


def _attribute(what: str, name: str, a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    """The difference in an attribute; a unit that is unknown is none."""

    def take(source: ArraySource) -> Hashable:
        said = _said(source.header.attributes.get(name))
        if name.endswith("units") and said == "unknown":
            return None
        return said

    return _field(what, a, b, take, _say)


def _units(a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    """A header's (NIfTI) are those of the axes; other formats' are those of the values."""
    axes = _have_one_header(a, b)

    def take(source: ArraySource) -> Hashable:
        if facts_of(source.format).has_own_header and not axes:
            return None
        return _said(source.header.attributes.get("units"))

    return _field("units", a, b, take, _say)


def _unit_of_space(a: SourceSet, b: SourceSet) -> HeaderDifference | None:
    """The unit of the affine, of formats that say it in different ways, where both sides do."""

    def take(source: ArraySource) -> str:
        units = source.header.attributes.get("units")
        if isinstance(units, tuple):
            return "" if units[0] == "unknown" else UNITS.get(units[0], "")
        return source.header.space_unit

    if _have_one_header(a, b) or not all(map(take, (*a.sources, *b.sources))):
        return None
    return _field("unit of space", a, b, take)


def _said(value: Any) -> Hashable:
    """A value of an attribute; None of an empty text or list, which says as little as none."""
    plain = _plain(value)
    if isinstance(plain, str) and not plain:
        return None
    if isinstance(value, list | tuple | np.ndarray) and not np.size(value):
        return None
    return plain


def _plain(value: Any) -> Hashable:
    """A value of an attribute so that equal ones are equal: one number is an array of one, bytes
    are text.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").rstrip("\0")
    if isinstance(value, str):
        return str(value).rstrip("\0")
    if isinstance(value, np.ndarray) or (
        isinstance(value, np.generic) and not isinstance(value.item(), np.generic)
    ):
        return (
            _plain(value.item())
            if value.size == 1
            else (value.shape, tuple(map(_plain, value.ravel().tolist())))
        )
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return (
        "NaN" if isinstance(value, float | np.generic) and value != value else value
    )  # NaN equals NaN here


def _say(value: Any) -> str:
    return "none" if value is None else str(value)


def _say_scaling(scaling: Scaling | None) -> str:
    if scaling is None:
        return "none"
    slope, inter = (_say_factor(factor) for factor in (scaling.slope, scaling.inter))
    more = {
        "clipped": scaling.clip is not None,
        "with missing values": bool(scaling.missing),
        "with a valid range": scaling.valid is not None,
        "read without sign": scaling.unsigned,
    }
    return ", ".join([f"x {slope} + {inter}", *(word for word, is_so in more.items() if is_so)])


def _say_factor(factor: Any) -> str:
    return (
        f"{np.ravel(factor)[0]:.9g}"
        if np.size(factor) == 1
        else f"({np.min(factor):.9g} .. {np.max(factor):.9g})"
    )
