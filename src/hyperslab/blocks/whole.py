"""A block of an array that several files make up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hyperslab.arrays import Array
from hyperslab.arrays.order import empty
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.source import ArraySource, Values

ReadPiece = Callable[[Piece, Array | None], Array]
"Reads a piece into an array, or into a block of its own."


def assemble(
    pieces: Sequence[Piece],
    shape: Sequence[int],
    first: ArraySource,
    values: Values,
    read: ReadPiece,
) -> Array:
    """The block that the pieces make, laid out as in the first file; one piece is the block itself
    and is not copied.
    """
    if len(pieces) == 1:
        return read(pieces[0], None)
    block = empty(shape, first.axes, first.dtype(values))
    for piece in pieces:
        read(piece, block[piece.place.slices()])
    return block
