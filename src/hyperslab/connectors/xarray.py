"""The engine `hyperslab` of `xarray.open_dataset`: lazy variables that are read without a library's
lock.

- xarray decodes: variables are as stored, with the attributes and encodings that its engine netcdf4
  gives them (`tests/connectors/test_xarray_files.py`); its own tests of that engine run against
  this one (`tests/connectors/test_xarray_suite.py`)
- a file is described when it is opened, a variable at its first read or when it is pickled: what is
  sent to a worker says where the bytes are
- a file that was written to after it was opened is SourceChanged where it is read
"""

from __future__ import annotations

import asyncio
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.view import ArrayView
from hyperslab.connectors.views import shared, threads
from hyperslab.errors import HyperslabError, MissingExtra, SourceChanged, UsageError
from hyperslab.formats.conventions.variables import Group, Listing, Variable
from hyperslab.formats.facts import Facts
from hyperslab.formats.groups import read_groups
from hyperslab.machine.forklock import ForkLock

try:
    import xarray
    from xarray.backends import (
        AbstractDataStore,
        BackendArray,
        BackendEntrypoint,
        StoreBackendEntrypoint,
    )
    from xarray.coding.strings import create_vlen_dtype
    from xarray.core import indexing

    from hyperslab.connectors import affine as _accessor  # noqa: F401  # what images then have
except ImportError as error:
    raise MissingExtra(
        f"the engine of xarray needs {error.name}: pip install 'hyperslab[xarray]'"
    ) from error

BLOCK_NBYTES = 128 * 1024**2
"""Bytes of what `chunks={}` makes one chunk of an image without stored chunks: Dask's
`array.chunk-size`.
"""


class HyperslabBackend(BackendEntrypoint):
    """The engine: netCDF (classic, netCDF-4), HDF5, MINC and NIfTI files."""

    description = (
        "Open netCDF, HDF5, MINC and NIfTI files; their chunks are read and decoded in parallel,"
        " without a lock"
    )
    supports_groups = True
    open_dataset_parameters = (
        *(
            "filename_or_obj",
            "mask_and_scale",
            "decode_times",
            "concat_characters",
            "decode_coords",
            "drop_variables",
        ),
        *("use_cftime", "decode_timedelta", "group", "storage_options"),
    )
    "Said here for those who pass the class itself as engine=, which xarray then does not look at."

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the first bytes of a file are those of a format that is read here.

        xarray asks its own engines netcdf4, h5netcdf and scipy first, whichever of them are
        installed: this one is chosen for NIfTI, and for netCDF and HDF5 where nothing else would
        be. Its engine zarr is asked later, so Zarr stores are left to it.
        """
        try:
            if not isinstance(filename_or_obj, str | os.PathLike):
                return False
            return not _facts(filename_or_obj).xarray_engine
        except HyperslabError:
            return False

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> xarray.Dataset:
        """Open one group of a file; see `xarray.open_dataset`. `storage_options` are what fsspec is
        given with a URL.

        Raises FormatError, Missing, MissingGroup, and Unavailable for a store that does not answer.
        """
        decoders = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        listing = _listing(filename_or_obj, group, False, drop_variables, storage_options)
        (found,) = listing.groups.values()
        return _dataset(listing, found, drop_variables, decoders)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **decoders: Any,
    ) -> dict[str, xarray.Dataset]:
        """Open a group of a file, named '.' if it is not the root, and all below it; see
        `xarray.open_groups`.
        """
        listing = _listing(filename_or_obj, group, True, drop_variables, storage_options)
        top = next(iter(listing.groups))
        names = {
            path: (path.removeprefix(top).strip("/") or ".") if group else path
            for path in listing.groups
        }
        return {
            names[path]: _dataset(listing, found, drop_variables, decoders)
            for path, found in listing.groups.items()
        }

    def open_datatree(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **decoders: Any,
    ) -> xarray.DataTree:
        """Open a group of a file and all below it; see `xarray.open_datatree`."""
        groups = self.open_groups_as_dict(
            filename_or_obj, drop_variables=drop_variables, **decoders
        )
        tree = xarray.DataTree.from_dict(groups)
        for path, dataset in groups.items():
            tree[path].set_close(dataset.close)
        return tree


class LazyArray(BackendArray):
    """The values of a variable, read when indexed. Threads may share it; pickled, it knows where
    the bytes are.
    """

    __slots__ = ("_opening", "_source", "_view", "dtype", "listing", "shape", "variable")

    def __init__(
        self, variable: Variable, listing: Listing | None = None, source: ArraySource | None = None
    ) -> None:
        self.variable = variable
        self.listing = listing
        self.shape = variable.shape
        self.dtype = variable.dtype
        if variable.is_text:
            self.dtype = create_vlen_dtype(str)
        self._source = source
        self._view = None
        if source is not None:
            self._view = shared(source, variable.values)
        self._opening = ForkLock()  # threads that share a variable wait for the one description

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyArray, (self.variable, None, self._opened().source)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read
        )

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)

    @property
    def holds_lists(self) -> bool:
        return self.dtype.kind == "O" and not self.variable.is_text

    def close(self) -> None:
        """Close the file, until the next read."""
        self._view = None

    def _read(self, key: tuple[Any, ...]) -> Array:
        """Read by integers, slices and at most one array of indices."""
        view = self._opened()
        is_padded = self.shape != self.variable.stored_shape
        if is_padded:
            found = _padded(view, key, self.shape, self.variable.fill)
        else:
            found = view[key]
        if any(isinstance(part, slice | np.ndarray) for part in key):
            block: Array = found
        else:  # one element, which may be a list
            block = np.empty((), view.dtype)
            block[()] = found
        if self.variable.is_text:
            return _words(block)
        return block

    def _opened(self) -> ArrayView:
        if (view := self._view) is not None:
            return view
        with self._opening:
            if self._view is None:
                self._source = self._source or self._described()
                self._view = ArrayView(self._source, self.variable.values, threads)
            return self._view

    def _described(self) -> ArraySource:
        """What the variable's format says of it; the file has to be the one that was listed."""
        listing = self.listing
        variable = self.variable
        assert listing is not None
        source = formats.module(listing.format).open(listing.path, variable.path)
        is_linked = source.url != listing.path
        state = (source.file_size, source.mtime_ns)
        if source.shape != variable.stored_shape or not (
            is_linked or state == (listing.file_size, listing.mtime_ns)
        ):
            raise SourceChanged(
                f"{listing.path}: was written to after it was opened; open it again"
            )
        return gzipindex.indexed(source)


class _Store(AbstractDataStore):
    """A group as xarray's decoders take it."""

    __slots__ = ("_arrays", "_group", "_path")

    def __init__(self, listing: Listing, group: Group) -> None:
        self._group = group
        self._path = str(listing.path)  # of a URL what can be shown
        self._arrays = [LazyArray(variable, listing) for variable in group.variables]

    def get_variables(self) -> Mapping[Any, xarray.Variable]:
        found = {
            array.variable.name: self._variable(array)
            for array in self._arrays
            if not array.holds_lists
        }
        for one in self._group.coordinates:
            found[one.name] = xarray.Variable((one.name,), one.values, dict(one.attributes))
        return found

    def lists(self) -> Mapping[Any, xarray.Variable]:
        """Variables whose elements are lists, which xarray takes but cannot decode: it looks for
        times in them.
        """
        return {
            array.variable.name: self._variable(array)
            for array in self._arrays
            if array.holds_lists
        }

    def of_compounds(self) -> Mapping[Any, Mapping[str, Any]]:
        """Attributes of compound variables, which xarray would apply to them: no fill value masks a
        part of one.
        """
        return {v.name: v.attributes for v in self._group.variables if v.dtype.fields}

    def get_attrs(self) -> Mapping[Any, Any]:
        return dict(self._group.attributes)

    def get_encoding(self) -> dict[str, Any]:
        return {"unlimited_dims": set(self._group.unlimited)}

    def close(self) -> None:
        for array in self._arrays:
            array.close()

    def _variable(self, array: LazyArray) -> xarray.Variable:
        about = array.variable
        said = {}
        if not about.dtype.fields:
            said = dict(about.attributes)
        encoding = {**about.encoding, "source": self._path, "original_shape": about.shape}
        if (
            0 in about.shape and "preferred_chunks" in encoding
        ):  # else `chunks={}` makes a task of each stored one
            encoding["preferred_chunks"] = {
                dim: max(1, n) for dim, n in zip(about.dims, about.shape, strict=True)
            }
        if "preferred_chunks" not in encoding and _nbytes(about) > BLOCK_NBYTES:
            encoding["preferred_chunks"] = dict(zip(about.dims, _long_runs(about), strict=True))
        return xarray.Variable(about.dims, indexing.LazilyIndexedArray(array), said, encoding)


def _facts(path: str | os.PathLike[str]) -> Facts:
    return formats.facts_of(formats.detect(os.path.expanduser(os.fspath(path))))


def _listing(
    file: Any,
    group: str | None,
    tree: bool,
    without: str | Iterable[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> Listing:
    if not isinstance(file, str | os.PathLike):
        raise UsageError(
            f"the engine hyperslab opens files by their name, which a {type(file).__name__} is not"
        )
    if not isinstance(group, str | None):
        raise UsageError(f"group must be a string, not {group!r}")
    if isinstance(without, str):
        names = [without]
    else:
        names = list(without or ())
    return read_groups(os.fspath(file), group or "", tree, names, storage_options)


def _dataset(
    listing: Listing, group: Group, without: Any, decoders: dict[str, Any]
) -> xarray.Dataset:
    for name, why in group.left_out.items():
        warnings.warn(
            f"{name} is left out: {why}; drop_variables={name!r} says so", UserWarning, stacklevel=4
        )
    _warn_of_attributes("", group.unread)
    for variable in group.variables:
        _warn_of_attributes(f" of {variable.name}", variable.unread)
    store = _Store(listing, group)
    dataset = StoreBackendEntrypoint().open_dataset(store, drop_variables=without, **decoders)
    for name, lists in store.lists().items():
        dataset[name] = lists
    for name, said in store.of_compounds().items():
        dataset[name].attrs.update(said)
    return dataset


def _warn_of_attributes(of_what: str, unread: Mapping[str, str]) -> None:
    for name, why in unread.items():
        warnings.warn(
            f"the attribute {name}{of_what} is left out: it is {why}", UserWarning, stacklevel=5
        )


def _nbytes(variable: Variable) -> int:
    return math.prod(variable.shape) * variable.dtype.itemsize


def _long_runs(variable: Variable) -> tuple[int, ...]:
    """Chunks of a variable that is stored in one piece."""
    axes = variable.axes or tuple(range(len(variable.shape)))
    layout = Layout(variable.shape, axes, variable.dtype.itemsize, None)
    return cut(layout, Rule("bytes", (BLOCK_NBYTES,)), BLOCK_NBYTES).largest


def _padded(view: ArrayView, key: tuple[Any, ...], shape: tuple[int, ...], fill: Any) -> Array:
    """What an index selects of an array that goes on with `fill` where the file's ends, up to
    `shape`.
    """
    counts = []
    places = []
    wanted = []
    for axis in zip(key, shape, view.shape, strict=True):
        count, place, part = _inside(*axis)
        wanted.append(part)
        if count is not None:
            counts.append(count)
            places.append(place)
    block = np.full(counts, fill, view.dtype)
    if all(part is not None for part in wanted):
        block[tuple(places)] = view[tuple(wanted)]
    return block


def _inside(part: Any, extent: int, stored: int) -> tuple[int | None, Any, Any]:
    """Look at one axis: how many elements are selected (None: an integer), which of them are
    stored, and their index or None.
    """
    positions = np.arange(extent)[part]
    where = np.flatnonzero(positions < stored)
    if not where.size:
        if positions.ndim == 0:
            return None, None, None
        return len(positions), None, None
    if not isinstance(part, slice):
        if positions.ndim == 0:
            return None, None, int(positions)
        return len(positions), where, positions[where]
    place = slice(int(where[0]), int(where[-1]) + 1)
    taken = range(extent)[part][place]
    stop = None
    if taken.stop >= 0:
        stop = taken.stop
    return len(positions), place, slice(taken.start, stop, taken.step)


def _word(part: Any) -> Any:
    if isinstance(part, bytes):
        return part.decode("utf-8", "surrogateescape")
    return part


def _words(block: Array) -> Array:
    """Text as Python has it, of the bytes in a file."""
    words = [_word(part) for part in block.ravel()]
    return np.array(words, object).reshape(block.shape)
