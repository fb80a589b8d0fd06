"""A picture of an image: three orthogonal slices through its middle, as small PNG files, by which
one sees whether the data are what they should be.

Shown as neurologists do: left is left, up is superior or anterior. Of a series, its first volume.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.arrays.transposition import space_first
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from hyperslab.units import show_bytes, show_count

if TYPE_CHECKING:
    from hyperslab.report.outline import Bools

MOST_PIXELS = 240
"Along an edge of a slice; a longer one is shown by every second, third, ... voxel."
MOST_NBYTES = 64 << 20
"Bytes that may be read for a picture; a volume that takes more has none."
MOST_VOLUME_NBYTES = 256 << 20
"Bytes that may be held to cut all slices out of one volume."
MOST_OPERATIONS = 4096
"Reads that they may take."
LONGEST_PX = 230
"The longest edge of all slices of an image, as shown."
MONTAGE_PX = 160
"The same in a picture of all slices side by side."
LEAST_PX = 96
"The longer edge of each slice, at least."
THINNEST_PX = 12
"The shorter edge of a slice that one sees anything in."
WINDOW = (1.0, 99.0)
"Percentiles of the values that are shown as black and as white."
PLANES = (("sagittal", 0, (1, 2)), ("coronal", 1, (0, 2)), ("axial", 2, (0, 1)))
"Name, the axis of space that is fixed, and those that run to the right and up."

OUTLINE_COLOUR = "#f0e442"
"Yellow of the palette of Okabe and Ito."
GREY = 0
PALETTE = 3
"What the bytes of a PNG file stand for."

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of an image."""

    plane: str
    "sagittal, coronal or axial."
    png: bytes
    "Greys of 8 bits a pixel; with the edge of a mask a palette of them and its colour."
    size_mm: tuple[float, float]
    "Width and height in millimetres."


@dataclass(frozen=True, slots=True)
class Pictured:
    """An image with its slices, as a page shows it."""

    what: str
    "input or output."
    name: str
    "The image's URL."
    slices: tuple[Slice, ...]
    note: str = ""
    "Why it has not all three slices, in words; '' where it has."


@dataclass(frozen=True, slots=True)
class _Cut:
    """A region of one slice, and how to turn it to be looked at."""

    plane: str
    slab: Hyperslab
    order: tuple[int, ...]
    "Axes of the array: that which runs up, that which runs to the right, all others."
    flipped: tuple[bool, bool]
    "Whether each of the two runs the other way."
    size_mm: tuple[float, float]


def slices(
    source: ArraySource, mask: ArraySource | None = None, above: float | None = None
) -> tuple[Slice, ...]:
    """Three slices of an image, with the edge of a mask that is quick to read, which is inside
    above a number, or where it is not 0; fewer where one is too thin to be seen or takes too long
    to read, none of an array that is no image.

    Raises what `reading.read` does.
    """
    return tuple(
        Slice(cut.plane, png(grey, outline), cut.size_mm)
        for cut, grey, outline in _seen(source, mask, above)
    )


def montage(source: ArraySource, mask: ArraySource | None = None) -> bytes:
    """The same slices side by side at one scale, as one PNG file; b'' where there are none.

    Raises what `reading.read` does.
    """
    seen = _seen(source, mask)
    if not seen:
        return b""
    longest_mm = max(max(cut.size_mm) for cut, _, _ in seen)
    greys = []
    outlines = []
    for cut, grey, outline in seen:
        width, height = (max(1, round(mm * MONTAGE_PX / longest_mm)) for mm in cut.size_mm)
        edges = np.zeros(grey.shape, np.bool_) if outline is None else outline
        greys.append(_centred(_resampled(grey, height, width)))
        outlines.append(_centred(_resampled(edges, height, width)))
    return png(np.hstack(greys), np.hstack(outlines))


def _resampled(pixels: Array, height: int, width: int) -> Array:
    """The nearest pixels in so many rows and columns."""
    rows = (np.arange(height) * pixels.shape[0]) // height
    columns = (np.arange(width) * pixels.shape[1]) // width
    return pixels[np.ix_(rows, columns)]


def _centred(pixels: Array) -> Array:
    """Add rows of zeros above and below, so that all slices are of one height."""
    missing = MONTAGE_PX - pixels.shape[0]
    above = missing // 2
    return np.pad(pixels, ((above, missing - above), (0, 0)))


def _seen(
    source: ArraySource, mask: ArraySource | None, above: float | None = None
) -> list[tuple[_Cut, Pixels, Bools | None]]:
    """The slices of an image that can be shown, as greys, and the edge of the mask in each."""
    if not _can_be_shown(source):
        return []
    source = space_first(source)
    values = _values_of(source)
    cuts = _thick(_cuts(source))
    if not cuts:
        return []
    found = [(cut, _turned(cut, block)) for cut, block in _blocks(source, cuts, values)]
    if not found:
        return []
    low, high = _window([block for _, block in found])
    return [
        (cut, _grey(block, low, high), _outline(cut, source, mask, above)) for cut, block in found
    ]


def left_out(source: ArraySource, shown: Sequence[Slice]) -> str:
    """Why slices of an image are not among those shown, in words; '' where nothing is to be said,
    as of an array that is no image.
    """
    if not _can_be_shown(source):
        return ""
    source = space_first(source)
    cuts = _cuts(source)
    thick = _thick(cuts)
    planes = [one.plane for one in shown]
    slow = [cut for cut in thick if cut.plane not in planes]
    thin = [cut.plane for cut in cuts if cut not in thick]
    return "; ".join(filter(None, (_too_slow(source, slow), _too_thin(thin))))


def _too_slow(source: ArraySource, cuts: Sequence[_Cut]) -> str:
    if not cuts:
        return ""
    nbytes = min(reading.read_nbytes(source, cut.slab) for cut in cuts)
    operations = min(reading.read_operations(source, cut.slab) for cut in cuts)
    return (
        f"no {_or([cut.plane for cut in cuts])} slice, which takes {show_bytes(nbytes)} in"
        f" {show_count(operations, 'read')}: a page reads {show_bytes(MOST_NBYTES)} in"
        f" {show_count(MOST_OPERATIONS, 'read')} at most"
    )


def _too_thin(planes: Sequence[str]) -> str:
    if not planes:
        return ""
    return f"no {_or(planes)} slice: it would be too thin to see"


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)


def _outline(
    cut: _Cut, source: ArraySource, mask: ArraySource | None, above: float | None
) -> Bools | None:
    """The pixels of a slice on the edge of the mask; None without one that is quick to read."""
    if mask is None:
        return None
    from hyperslab.report.outline import can_lie_on, edge, inside  # which runs with a mask need

    mask = space_first(mask)
    if not can_lie_on(mask, source):
        return None
    whole = Hyperslab((0,) * mask.ndim, (*mask.shape[:3], *[1] * (mask.ndim - 3)))
    if not _is_cheap(mask, [whole]):
        return None
    values = _values_of(mask)
    read = partial(reading.read, mask, values=values)
    inner = inside(source, cut.slab, mask, read, above)
    return edge(_turned(cut, inner) > 0)


def _values_of(source: ArraySource) -> Values:
    """Real values where there are any."""
    if source.unscalable:
        return "stored"
    return "real"


def _can_be_shown(source: ArraySource) -> bool:
    """Whether an array is an image of numbers that a grey can stand for."""
    if not source.is_image or source.size == 0 or source.broken:
        return False
    is_real = source.stored.kind in "biuf"
    is_plane = source.ndim > 2 and sum(source.shape[axis] > 1 for axis in source.header.space) > 1
    return is_real and is_plane and _has_extent(np.asarray(source.header.affine))


def _has_extent(affine: Array) -> bool:
    """Whether voxels of an affine have an edge in every direction."""
    edges = np.linalg.norm(affine[:3, :3], axis=0)
    return bool(np.isfinite(affine).all() and (edges > 0).all())


def scale(size_mm: tuple[float, float], longest_mm: float) -> float:
    """Pixels for each millimetre of a slice: one scale for all of an image, the longest edge of
    which is given, but for slices that would be small.
    """
    return max(LONGEST_PX / longest_mm, LEAST_PX / max(size_mm))


def _thick(cuts: Sequence[_Cut]) -> list[_Cut]:
    """Cuts that are wide enough to be looked at, as most slices of a block of few layers are
    not.
    """
    longest_mm = max(max(cut.size_mm) for cut in cuts)
    return [cut for cut in cuts if _is_plane(cut) and _width_px(cut, longest_mm) >= THINNEST_PX]


def _width_px(cut: _Cut, longest_mm: float) -> float:
    return min(cut.size_mm) * scale(cut.size_mm, longest_mm)


def _is_plane(cut: _Cut) -> bool:
    rows, columns, *_ = cut.order
    return min(cut.slab.count[rows], cut.slab.count[columns]) > 1


def _is_cheap(source: ArraySource, slabs: Sequence[Hyperslab]) -> bool:
    nbytes = sum(reading.read_nbytes(source, slab) for slab in slabs)
    operations = sum(reading.read_operations(source, slab) for slab in slabs)
    peak = max(reading.read_peak(source, slab) for slab in slabs)
    return max(nbytes, peak) <= MOST_NBYTES and operations <= MOST_OPERATIONS


def _blocks(
    source: ArraySource, cuts: Sequence[_Cut], values: Values
) -> Iterator[tuple[_Cut, Array]]:
    """The regions that are quick to read, one by one, or cut out of the volume where each of them
    would read as much as the volume does: a gzip stream without an index is inflated once.
    """
    if _goes_once(source, cuts, values):
        block = _first_volume(source, values)
        if block is not None:
            yield from ((cut, block[cut.slab.slices()]) for cut in cuts)
        return
    for cut in _cheap(source, cuts):
        yield cut, reading.read(source, cut.slab, values=values)


def _goes_once(source: ArraySource, cuts: Sequence[_Cut], values: Values) -> bool:
    """Whether the slices are cut out of the volume: one that memory holds."""
    volume = _volume(source.shape)
    nbytes = reading.read_nbytes(source, volume)
    peak = reading.read_peak(source, volume, values)
    one_by_one = sum(reading.read_nbytes(source, cut.slab) for cut in cuts)
    return len(cuts) * nbytes <= one_by_one and peak <= MOST_VOLUME_NBYTES


def _first_volume(source: ArraySource, values: Values) -> Array | None:
    """The first volume of a file that is quick to read, or of a gzip stream whose front holds it;
    else None.
    """
    volume = _volume(source.shape)
    nbytes = reading.read_nbytes(source, volume)
    if nbytes <= MOST_NBYTES and reading.read_operations(source, volume) <= MOST_OPERATIONS:
        return reading.read(source, volume, values=values)
    return _front_volume(source, values)


def _front_volume(source: ArraySource, values: Values) -> Array | None:
    """The first volume of a gzip stream that holds volume after volume, where its front holds it;
    else None.
    """
    from hyperslab.blocks.reading.ways import front  # which few pages need

    if not front.has_front(source) or front.front_region(source, 1) != _volume(source.shape):
        return None
    try:
        return front.read_front(source, 1, MOST_NBYTES, values)
    except FormatError:
        return None


def _cheap(source: ArraySource, cuts: Sequence[_Cut]) -> list[_Cut]:
    """Cuts that are quick to read together, in their order."""
    found: list[_Cut] = []
    for cut in sorted(cuts, key=lambda cut: reading.read_nbytes(source, cut.slab)):
        if _is_cheap(source, [one.slab for one in (*found, cut)]):
            found.append(cut)
    return [cut for cut in cuts if cut in found]


def _volume(shape: tuple[int, ...]) -> Hyperslab:
    """All of the three axes that may be those of space, the first of all further ones."""
    return Hyperslab((0,) * len(shape), (*shape[:3], *(1 for _ in shape[3:])))


def _cuts(source: ArraySource) -> list[_Cut]:
    affine = np.asarray(source.header.affine_mm)
    of_space = _axes(affine)
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    found = []
    for plane, fixed, (right, up) in PLANES:
        across, along, height = of_space[fixed], of_space[right], of_space[up]
        width_mm = float(sizes[along] * source.shape[along])
        height_mm = float(sizes[height] * source.shape[height])
        others = (across, *range(3, source.ndim))
        flipped = (affine[up, height] > 0, affine[right, along] < 0)
        slab = _slab(source.shape, across)
        found.append(_Cut(plane, slab, (height, along, *others), flipped, (width_mm, height_mm)))
    return found


def _axes(affine: Array) -> list[int]:
    """The axis of an array that runs most along each axis of space."""
    directions = np.abs(affine[:3, :3])
    directions = directions / np.maximum(np.linalg.norm(directions, axis=0), np.finfo(float).tiny)
    found = [-1, -1, -1]
    for _ in found:
        space, axis = np.unravel_index(np.argmax(directions), directions.shape)
        found[int(space)] = int(axis)
        directions[space, :] = -1
        directions[:, axis] = -1
    return found


def _slab(shape: tuple[int, ...], across: int) -> Hyperslab:
    """The middle of one axis, few voxels of the other two, the first of all further axes."""
    start = [0] * len(shape)
    count = [1] * len(shape)
    stride = [1] * len(shape)
    start[across] = shape[across] // 2
    for axis in {0, 1, 2} - {across}:
        stride[axis] = math.ceil(shape[axis] / MOST_PIXELS)
        count[axis] = math.ceil(shape[axis] / stride[axis])
    return Hyperslab(tuple(start), tuple(count), tuple(stride))


def _turned(cut: _Cut, block: Array) -> Array:
    """The slice as it is looked at: rows from top to bottom, columns from left to right."""
    upright = block.transpose(cut.order)
    flat = upright.reshape(upright.shape[:2]).astype(np.float64)
    for axis, is_flipped in enumerate(cut.flipped):
        if is_flipped:
            flat = np.flip(flat, axis)
    return flat


def _window(blocks: Sequence[Array]) -> tuple[float, float]:
    """The values that are black and white; two numbers that differ."""
    values = np.concatenate([block.ravel() for block in blocks])
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = _percentiles(finite)
    if low == high:
        low = finite.min()
        high = finite.max()
    if low == high:
        high = low + 1
    return float(low), float(high)


def _percentiles(values: Array) -> Array:
    """The percentiles of WINDOW as np.percentile gives them, which would import numpy.ma."""
    ranks = np.array(WINDOW) / 100 * (values.size - 1)
    below = ranks.astype(np.intp)
    above = np.minimum(below + 1, values.size - 1)
    ordered = np.partition(values, np.concatenate([below, above]))
    share = ranks - below
    return np.asarray(ordered[below] + (ordered[above] - ordered[below]) * share)


def _grey(block: Array, low: float, high: float) -> Pixels:
    """NaN is black, as what lies below the window."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (block / 2 - low / 2) / (high / 2 - low / 2)
    return np.asarray(np.nan_to_num(np.clip(scaled, 0, 1)) * 255, np.uint8)


def png(pixels: Pixels, outline: Bools | None = None) -> bytes:
    """(height, width) greys as a PNG file (ISO/IEC 15948): one byte a pixel, no filter.

    With an outline of that shape the bytes are numbers of a palette: 255 greys, then its colour.
    """
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = pixels
    kind = GREY
    palette = []
    if outline is not None:
        kind = PALETTE
        palette = [(b"PLTE", _palette())]
        rows[:, 1:] = np.where(outline, 255, np.rint(pixels * (254 / 255)))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    values = zlib.compress(rows.tobytes(), 9)
    parts = ((b"IHDR", head), *palette, (b"IDAT", values), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _palette() -> bytes:
    greys = np.rint(np.arange(255) * (255 / 254)).astype(np.uint8)
    return np.repeat(greys, 3).tobytes() + bytes.fromhex(OUTLINE_COLOUR.removeprefix("#"))


def _part(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum
