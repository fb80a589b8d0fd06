"""HDF5 datasets of any kind: layout, chunk index, filters, fill value, history and name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
from h5py import h5d

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.datasets import hdf5_filters, hdf5_links, hdf5_types
from tests.comparison.made import Dataset, NotMade
from tests.formats.hdf5_made import DONT_FILTER_PARTIAL_CHUNKS, create

_REFUSED = (OSError, ValueError, RuntimeError, TypeError)
"What h5py raises where HDF5 does not make or write what was asked for."


@dataclass(slots=True)
class Design:
    """What is drawn before anything is made."""

    shape: tuple[int, ...]
    kind: hdf5_types.Kind
    libver: Any = "earliest"
    filters: tuple[hdf5_filters.Filter, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    "Arguments of `hdf5_made.create`."
    user_block: int = 0
    history: list[str] = field(default_factory=list)
    has_grown: bool = False
    "After it was written to: what a chunk held beyond the edge may be anything then."
    has_mask: bool = False
    "A chunk lacks some filters: libhdf5 loses elements of it when it stores it again."

    def __str__(self) -> str:
        filters = ", ".join(map(str, self.filters)) or "none"
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        history = "; ".join(self.history)
        return (
            f"{self.shape} {self.kind.name}, {options}, filters {filters}, libver {self.libver}:"
            f" {history}"
        )


def make(rng: Random, folder: Path) -> Dataset:
    """A dataset by itself in a file, under any name."""
    path, design = folder / "made.h5", _design(rng, folder)
    try:
        with h5py.File(path, "w", libver=design.libver, userblock_size=design.user_block) as file:
            known = _write(rng, file, design)
            name = hdf5_links.rename(rng, file)
    except _REFUSED as error:
        raise NotMade(f"HDF5: {type(error).__name__}: {error}") from error
    url, is_linked = hdf5_links.link(rng, path, name)
    return Dataset(
        kind=_kind(design),
        path=url[0],
        name=url[1],
        said=f"{design}, as {url[1]}" + " by an external link" * is_linked,
        reference=lambda values: _by_h5py(*url, values),
        known=known,
        change=(
            None
            if design.has_mask or _is_fixed(design, is_linked)
            else lambda copy, places, new: _change(copy, url[1], places, new)
        ),
        is_copied_whole="external" not in design.options and not is_linked,
        engine="h5netcdf",
    )


def _kind(design: Design) -> str:
    if not design.kind.is_number or design.kind.dtype.subdtype is not None:
        return "HDF5, other elements"
    if "external" in design.options:
        return "HDF5, external storage"
    return "HDF5, chunked" if design.options.get("chunks") else "HDF5, in one piece"


def _is_fixed(design: Design, is_linked: bool) -> bool:
    """Whether writing a value to a copy says nothing: values that change when stored, or are
    elsewhere.
    """
    survives = design.kind.is_number and design.kind.dtype.subdtype is None
    return is_linked or not survives or "external" in design.options or not _keeps(design)


def _keeps(design: Design) -> bool:
    return design.kind.keeps and all(one.keeps for one in design.filters)


def _by_h5py(path: Path, name: str, values: Values) -> Array:
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(file[name][...])


def _change(path: Path, name: str, places: Sequence[tuple[int, ...]], new: Array) -> None:
    with h5py.File(path, "r+", locking=False) as file:
        for place, value in zip(places, new, strict=True):
            file[name][place] = value


def _design(rng: Random, folder: Path) -> Design:
    kind = hdf5_types.any_kind(rng)
    design = Design(
        draws.shape(rng), kind, libver=rng.choice(("earliest", "v108", "latest", "latest"))
    )
    if draws.chance(rng, 0.05):
        design.user_block = rng.choice((512, 2048))
    layout = rng.random()
    if layout < 0.06:
        design.options["layout"] = h5d.COMPACT
    elif layout < 0.1 and 0 not in design.shape:
        design.options["external"] = _external(rng, design, folder)
    elif layout < 0.75 and design.shape:
        _draw_chunks(rng, design)
    _draw_fill(rng, design)
    return design


def _external(rng: Random, design: Design, folder: Path) -> list[tuple[str, int, int]]:
    """Segments of other files, one after the other, each at some offset."""
    left = math.prod(design.shape) * design.kind.dtype.itemsize
    found: list[tuple[str, int, int]] = []
    while left > 0:
        nbytes = left if len(found) > 2 else rng.randint(1, left)
        found.append((str(folder / f"part{len(found)}.raw"), rng.choice((0, 0, 7, 100)), nbytes))
        left -= nbytes
    return found


def _draw_chunks(rng: Random, design: Design) -> None:
    design.options["chunks"] = draws.chunks(rng, design.shape)
    growing = rng.choice(("none", "none", "first", "all", "last", "bounded", "bounded"))
    most: list[int | None] = list(design.shape)
    if growing == "all":
        most = [None] * len(most)
    elif growing == "bounded":
        most = [n + rng.randint(0, 9) for n in design.shape]
    elif growing != "none":
        most[0 if growing == "first" else -1] = None
    if growing == "none":  # a chunk may not be longer than an axis that cannot grow
        longest = zip(design.options["chunks"], design.shape, strict=True)
        design.options["chunks"] = tuple(min(n, max(1, extent)) for n, extent in longest)
    design.options["maxshape"] = tuple(None if n is None else max(1, n) for n in most)
    design.filters = hdf5_filters.chain(rng, design.kind.dtype)
    if draws.chance(rng, 0.05):
        design.options["chunk_opts"] = DONT_FILTER_PARTIAL_CHUNKS


def _draw_fill(rng: Random, design: Design) -> None:
    is_plain = (
        design.kind.keeps and design.kind.dtype.subdtype is None and design.kind.dtype.kind != "S"
    )
    if is_plain and draws.chance(rng, 0.4):
        fill = hdf5_types.values(rng, (1,), design.kind)[0]
        design.options["fill"] = fill
    if draws.chance(rng, 0.25) and "external" not in design.options:
        times = ("EARLY", "LATE", "INCR") if "chunks" in design.options else ("EARLY", "LATE")
        design.options["alloc_time"] = getattr(h5d, f"ALLOC_TIME_{rng.choice(times)}")
    if "layout" in design.options:
        design.options.pop("alloc_time", None)
    if draws.chance(rng, 0.2):
        design.options["fill_time"] = rng.choice((h5d.FILL_TIME_ALLOC, h5d.FILL_TIME_IFSET))


def _write(rng: Random, file: Any, design: Design) -> Array | None:
    """Make the dataset and write to it; the values that are in it then, if nothing changes what is
    written.
    """
    options = dict(design.options)
    external = options.pop("external", ())

    def add(creation: Any) -> None:
        hdf5_filters.add(creation, design.filters)
        for name, offset, nbytes in external:
            creation.set_external(name.encode(), offset, nbytes)

    dataset = create(file, design.shape, design.kind.file_type, add=add, **options)
    inner = () if design.kind.dtype.subdtype is None else design.kind.dtype.subdtype[1]
    known = np.zeros((*design.shape, *inner), design.kind.dtype.base)
    known[...] = options.get("fill", known)
    if external:  # what is not written there is nowhere, whatever the fill value
        known = _write_values(rng, dataset, design, known, ...)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        known = _step(rng, dataset, design, known)
    if design.filters and draws.chance(
        rng, 0.3
    ):  # last: HDF5 mistakes chunks that it changes after that
        known = _write_chunk(rng, dataset, design, known)
    return (
        known.astype(known.dtype.newbyteorder("="))
        if _keeps(design) and not design.has_grown
        else None
    )


def _step(rng: Random, dataset: Any, design: Design, known: Array) -> Array:
    """Write all, or a part; or make the dataset longer or shorter."""
    if draws.chance(rng, 0.2) and "maxshape" in design.options:
        return _resize(rng, dataset, design, known)
    where = (
        draws.region(rng, known.shape[: dataset.ndim])
        if dataset.ndim and draws.chance(rng, 0.5)
        else ...
    )
    return _write_values(rng, dataset, design, known, where)


def _write_values(rng: Random, dataset: Any, design: Design, known: Array, where: Any) -> Array:
    known = known.copy()
    shape = known.shape[: dataset.ndim]
    values = hdf5_types.values(rng, shape, design.kind)
    if 0 in shape:
        return known
    design.history.append(f"{where} written" if where is not ... else "all written")
    dataset[where] = values[where]
    known[where] = values[where]
    return known


def _resize(rng: Random, dataset: Any, design: Design, known: Array) -> Array:
    most = design.options["maxshape"]
    old, ndim = known.shape, dataset.ndim
    new = tuple(
        rng.randint(0, n + 6 if end is None else end)
        for n, end in zip(old[:ndim], most, strict=True)
    )
    if math.prod(new) > 4 * draws.LARGEST_SIZE:
        return known
    design.has_grown |= bool(design.history) and any(
        a < z for a, z in zip(old[:ndim], new, strict=True)
    )
    design.history.append(f"resized to {new}")
    dataset.resize(new)
    found = np.zeros((*new, *old[ndim:]), known.dtype)
    found[...] = design.options.get("fill", found)
    both = tuple(slice(0, min(pair)) for pair in zip(old[:ndim], new, strict=True))
    found[both] = known[both]
    return found


def _write_chunk(rng: Random, dataset: Any, design: Design, known: Array) -> Array:
    """Store one chunk as a writer does that leaves some of the filters out."""
    shape, extent = design.options["chunks"], known.shape[: dataset.ndim]
    if 0 in extent or not _keeps(design):
        return known
    first = tuple(
        rng.randrange(-(-n // size)) * size for n, size in zip(extent, shape, strict=True)
    )
    is_new = not design.history and design.options.get("alloc_time") != h5d.ALLOC_TIME_EARLY
    # HDF5 keeps the mask that a chunk of the same size had before.
    mask = rng.randrange(2 ** len(design.filters)) if is_new else 0
    values = hdf5_types.values(rng, shape, design.kind)
    raw = hdf5_filters.packed(values, design.kind.file_type, design.filters, mask)
    is_partial = any(a + n > end for a, n, end in zip(first, shape, extent, strict=True))
    if raw is None or (is_partial and "chunk_opts" in design.options):
        return known
    design.history.append(f"chunk at {first} stored with the mask {mask:b}")
    dataset.id.write_direct_chunk(first, raw, mask)
    design.has_mask = mask != 0
    found = known.copy()
    inside = tuple(slice(a, a + n) for a, n in zip(first, shape, strict=True))
    kept = found[inside].shape
    found[inside] = values[tuple(slice(0, n) for n in kept[: dataset.ndim])]
    return found
