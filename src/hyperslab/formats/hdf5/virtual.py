"""HDF5 files that are left as the parts that their writers made, with a virtual dataset that says
where each lies.

So nothing is copied at the end, at the price of as many files as there were tasks. The parts are in
a folder beside the file, and are moved together with it (HDF5 User's Guide, "Virtual Dataset").
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import AGAIN, FormatError
from hyperslab.formats.free_names import dataset_name
from hyperslab.formats.hdf5.head import create
from hyperslab.formats.hdf5.sinks import sink
from hyperslab.units import show_count


def part_sink(whole: ArraySink, slab: Hyperslab, folder: str) -> ArraySink:
    """The file of a region, in a folder, stored as the whole is asked for; its name holds the first
    element.
    """
    path = os.path.join(folder, "_".join(map(str, slab.start)) + ".h5")
    chunks: tuple[int, ...] = ()
    if whole.unit:
        chunks = tuple(min(c, n) for c, n in zip(whole.unit, slab.count, strict=True))
    encoding = replace(whole.encoding, chunks=chunks, virtual=False)
    return sink(path, slab.count, whole.dtype, whole.header.for_slab(slab), whole.scaling, encoding)


def require_parts(dataset: Any, path: str) -> None:
    """Raise FormatError for a virtual dataset of which a file is missing: libhdf5 would give the
    fill value for it.

    It is looked for where libhdf5 does (H5F_prefix_open_file); files of which the names are counted
    up may be missing.
    """
    if not dataset.is_virtual:
        return
    names = _files(dataset) - {"."}
    prefixes = os.environ.get("HDF5_VDS_PREFIX", "").split(":")
    near = [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path)), "."]
    for name in sorted(names):
        places = [
            name,
            *(os.path.join(folder, name) for folder in (*filter(None, prefixes), *near)),
        ]
        places += [os.path.join(folder, os.path.basename(name)) for folder in near]
        if not any(map(os.path.exists, places)):
            raise FormatError(
                f"{path}::{dataset.name}: its part {name} is missing, for which HDF5 would read the"
                " fill value: put the part back where it was"
            )


def _files(dataset: Any) -> set[str]:
    """The files that a virtual dataset names, but for those that are counted up by a %b in a name
    (H5Pset_virtual).
    """
    names = {source.file_name for source in dataset.virtual_sources()}
    return {name.replace("%%", "%") for name in names if "%" not in name.replace("%%", "")}


def parts_folder(path: str) -> str:
    """Name of the folder beside a file in which the parts of its virtual dataset are; '' for any
    other file.
    """
    import h5py

    found: list[str] = []

    def look(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.is_virtual:
            found.extend(_files(item))

    try:
        with h5py.File(path, "r", locking=False) as file:
            file.visititems(look)
    except (OSError, RuntimeError):
        return ""
    folders = {os.path.dirname(name) for name in found}
    if len(folders) == 1:
        return next(iter(folders))
    return ""


def write_index(whole: ArraySink, parts: Iterable[str], folder: str, path: str) -> None:
    """Write the file `path`, whose dataset has its regions in the parts; they will be in `folder`,
    a name beside it.

    Raises FormatError when the parts do not hold every element.
    """
    import h5py

    name = dataset_name(whole).encode().replace(b"%", b"%%")
    filled = 0
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    region = h5py.h5s.create_simple(whole.shape)
    for part in sorted(parts):
        with h5py.File(part, "r", locking=False) as file:
            held = file[dataset_name(whole)].id.get_space()
        own = os.path.basename(part)
        start = tuple(int(first) for first in own.removesuffix(".h5").split("_"))
        region.select_hyperslab(start, held.shape)
        creation.set_virtual(
            region, os.fsencode(f"{folder}/{own}").replace(b"%", b"%%"), name, held
        )
        filled += math.prod(held.shape)
    if filled != math.prod(whole.shape):
        raise FormatError(
            f"{whole.path}: {show_count(math.prod(whole.shape) - filled, 'element')} not written",
            AGAIN,
        )
    held_in_memory = io.BytesIO()  # libhdf5 cannot close a file on a disk that is full
    with h5py.File(held_in_memory, "w") as file:
        create(file, [whole], [creation])
    Path(path).write_bytes(held_in_memory.getbuffer())
