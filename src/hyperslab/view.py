"""ArrayView: an array in a file that is read when it is indexed, as NumPy's arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab import blockio
from hyperslab.array import Array, ArraySource, Values
from hyperslab.errors import UsageError
from hyperslab.formats import open_array, open_source
from hyperslab.slab import Hyperslab, Index, from_index
from hyperslab.units import show_bytes


def open(url: str | Array, values: Values = "real") -> ArrayView:  # noqa: A001  # the public name of the verb
    """Open PATH, PATH::DATASET or an array in memory; nothing but metadata is read now.

    `values` is 'real' for values as meant (slope and intercept applied) or 'stored' for those in the file. Raises
    FormatError for a file that cannot be read, UsageError for a dataset that is not there.
    """
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    return ArrayView(open_array(url) if isinstance(url, np.ndarray) else open_source(str(url)), values)


class ArrayView:
    """What NumPy code asks of an array; indexing with integers, slices and '...' reads those elements."""

    __slots__ = ("source", "values")

    def __init__(self, source: ArraySource, values: Values = "real") -> None:
        self.source = source
        self.values: Values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype(self.values)

    @property
    def ndim(self) -> int:
        return self.source.ndim

    @property
    def size(self) -> int:
        return self.source.size

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array in memory."""
        return self.size * self.dtype.itemsize

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return self.source.dims

    @property
    def affine(self) -> Array | None:
        """(4, 4) float64: voxel indices to millimetres; None where the array has none."""
        return self.source.header.affine

    def read(self, slab: Hyperslab, out: Array | None = None) -> Array:
        """Read a region into a new array, or into `out` (any strides). Errors as `hyperslab.blockio.read`."""
        return blockio.read(self.source, slab, out, self.values)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Any:
        """Read a basic index: a block, or a scalar where every axis is given an integer. Raises IndexError."""
        slab, dropped = from_index(index, self.shape)
        block = self.read(slab)
        return block[tuple(0 if axis in dropped else slice(None) for axis in range(self.ndim))]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array in a file cannot be had without a copy")
        block = self.read(Hyperslab.full(self.shape))
        return block if dtype is None else block.astype(dtype, copy=False)

    def _repr_html_(self) -> str:
        if not self._is_known:
            return self.source.html({"values": f"real; they need {self.source.packing}, which cannot be applied yet"})
        return self.source.html({"values": f"{self.values}, {self.dtype}, {show_bytes(self.nbytes)} in memory"})

    def __repr__(self) -> str:
        name = f"::{self.source.name}" if self.source.name else ""
        kind = (
            f"{self.dtype} {self.values}, {self.nbytes:,} bytes"
            if self._is_known
            else f"real, they need {self.source.packing}"
        )
        return f"<ArrayView {self.source.url}{name} {self.shape} {kind}>"

    @property
    def _is_known(self) -> bool:
        """Whether this version can compute the values, and so knows their dtype."""
        return self.values == "stored" or not self.source.packing
