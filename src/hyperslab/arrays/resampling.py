"""Resampling: a region of one image from the voxels of another one that lies elsewhere, by affines.

Values are those of nibabel.processing.resample_from_to over the whole images, of order 0 (nearest)
and 1 (linear), whose outside is 0: coordinates are computed in the same order of operations, so
that ties and edges fall alike however the image is cut (`tests/arrays/test_resampling.py`). An
image of more than three axes is resampled volume by volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array, DType
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import MissingExtra

Resampling = Literal["nearest", "linear"]
"Value of the nearest voxel, or trilinear interpolation between the eight around a place."
SPACE = 3
"Axes that affines place: the first ones."
_PIECE_ELEMENTS = 2**17
_MARGIN = 1
"Voxels more on each side, which rounded coordinates and weights of zero may touch."


def voxels_of(image: Array, grid: Array) -> Array:
    """(3, 4) float64: voxel indices of the grid to those of the image; both affines are (4, 4)."""
    between: Array = np.linalg.inv(image).dot(grid)
    return between[:SPACE]


def needed(between: Array, wanted: Boxes, shape: Sequence[int]) -> Boxes:
    """The regions of an image of this shape that regions of the grid are made from, each; empty
    where they do not meet. All are of three axes.
    """
    factors = between[:, :SPACE]
    shift = between[:, SPACE]
    at_low = factors * wanted.low[:, np.newaxis]
    at_last = factors * (wanted.high - 1)[:, np.newaxis]
    first = shift + _summed(np.minimum(at_low, at_last)) - _MARGIN
    end = shift + _summed(np.maximum(at_low, at_last)) + 2 + _MARGIN
    begin = _within(first, shape)
    return Boxes(begin, np.maximum(_within(end, shape) - begin, 0))


def _summed(terms: Array) -> Array:
    """Sums over the last axis of three, one after the other, so that each is the same beside
    whatever others.
    """
    total: Array = terms[..., 0] + terms[..., 1] + terms[..., 2]
    return total


def require_installed(how: Resampling) -> None:
    """Raise MissingExtra where this kind of resampling needs what is not installed."""
    if how == "linear" and find_spec("scipy") is None:
        raise MissingExtra(
            "linear resampling needs SciPy: pip install 'hyperslab[resample]', or use nearest"
        )


def _within(places: Array, shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """The whole numbers below places, each from 0 to the extent of its axis."""
    below: npt.NDArray[np.int64] = np.floor(np.clip(places, 0, np.array(shape))).astype(np.int64)
    return below


def resampled(
    block: Array,
    held: Hyperslab,
    shape: Sequence[int],
    between: Array,
    wanted: Hyperslab,
    how: Resampling,
) -> Array:
    """The values of a region of the grid, from the block of the region that `needed` has named.

    `shape` is that of the whole image along its first three axes; of further axes the block holds
    what is wanted. Returns an array of shape `(*wanted.count, *block.shape[3:])` in the block's
    dtype. Raises MissingExtra for linear interpolation without SciPy.
    """
    order: Literal["C", "F"] = "C"
    if block.flags.f_contiguous:
        order = "F"
    made = np.zeros((*wanted.count, *block.shape[SPACE:]), block.dtype, order)
    if not held.size or not made.size:
        return made
    for piece in _pieces(wanted.count):
        places = _places(between, wanted.compose(piece))
        out = made[piece.slices()]
        if how == "nearest":
            _nearest(block, held, shape, places, out)
        else:
            _linear(block, held, shape, places, out)
    return made


def working_nbytes(dtype: DType) -> int:
    """Upper bound of the bytes that `resampled` takes beside its block and its result."""
    return _PIECE_ELEMENTS * (12 * 8 + 4 * dtype.itemsize)


def _pieces(count: Sequence[int]) -> Iterator[Hyperslab]:
    layout = Layout(tuple(count), (2, 1, 0), 1, None)
    return iter(cut(layout, Rule("bytes", (_PIECE_ELEMENTS,)), 0))


def _places(between: Array, slab: Hyperslab) -> Array:
    """(3, ...) float64: places of a region's voxels in the image; the sums are in SciPy's order."""
    steps = np.meshgrid(
        *(
            np.arange(first, first + n, dtype=np.float64)
            for first, n in zip(slab.start, slab.count, strict=True)
        ),
        indexing="ij",
        sparse=True,
    )
    places = np.empty((SPACE, *slab.count))
    for axis, row in enumerate(between):
        total = row[SPACE]
        for factor, step in zip(row[:SPACE], steps, strict=True):
            total = total + step * factor
        places[axis] = total
    return places


def _nearest(
    block: Array, held: Hyperslab, shape: Sequence[int], places: Array, out: Array
) -> None:
    inside = np.ones(places.shape[1:], np.bool_)
    for place, extent in zip(places, shape, strict=False):
        inside &= (place >= 0) & (place <= extent - 1)
    index = []
    for place, first in zip(places, held.start, strict=True):
        index.append(np.floor(place[inside] + 0.5).astype(np.intp) - first)
    out[inside] = block[tuple(index)]


def _linear(block: Array, held: Hyperslab, shape: Sequence[int], places: Array, out: Array) -> None:
    require_installed("linear")
    from scipy.ndimage import map_coordinates

    places -= np.array(held.start, np.float64).reshape(SPACE, *(1,) * (places.ndim - 1))
    volumes = block.reshape(*block.shape[:SPACE], -1)
    made = out.reshape(*out.shape[:SPACE], -1)
    for number in range(volumes.shape[-1]):
        made[..., number] = map_coordinates(volumes[..., number], places, order=1)
    out[...] = made.reshape(out.shape)
