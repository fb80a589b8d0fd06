"""HDF5 files that are left as the parts that their writers made, with a virtual dataset that says where each lies.

So nothing is copied at the end, at the price of as many files as there were tasks. The parts are in a folder beside the
file, and are moved together with it (HDF5 User's Guide, "Virtual Dataset").
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import replace

from hyperslab.array import ArraySink
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5_attributes import dataset_name, describe
from hyperslab.formats.hdf5_sink import sink
from hyperslab.slab import Hyperslab


def part_sink(whole: ArraySink, slab: Hyperslab, folder: str) -> ArraySink:
    """The file of a region, in a folder, stored as the whole is asked for; its name holds the first element."""
    path = os.path.join(folder, "_".join(map(str, slab.start)) + ".h5")
    chunks = tuple(min(c, n) for c, n in zip(whole.unit, slab.count, strict=True)) if whole.unit else ()
    encoding = replace(whole.encoding, chunks=chunks, virtual=False)
    return sink(path, slab.count, whole.dtype, whole.header.for_slab(slab), whole.scaling, encoding)


def write_index(whole: ArraySink, parts: Iterable[str], folder: str, path: str) -> None:
    """Write the file `path`, whose dataset has its regions in the parts; they will be in `folder`, a name beside it.

    Raises FormatError when the parts do not hold every element.
    """
    import h5py

    name, filled = dataset_name(whole), 0
    layout = h5py.VirtualLayout(whole.shape, whole.dtype)
    for part in sorted(parts):
        with h5py.File(part, "r", locking=False) as file:
            count = tuple(file[name].shape)
        own = os.path.basename(part)
        start = tuple(int(first) for first in own.removesuffix(".h5").split("_"))
        layout[Hyperslab(start, count).slices()] = h5py.VirtualSource(f"{folder}/{own}", name, count)
        filled += math.prod(count)
    if filled != math.prod(whole.shape):
        raise FormatError(
            f"{whole.path}: {math.prod(whole.shape) - filled} of its elements were not written; use --resume"
        )
    with h5py.File(path, "x", locking=False) as file:
        describe(file, file.create_virtual_dataset(name, layout), whole)
