"""Variables that go into a new file with its array: its coordinates, and what these need.

Their values lie in the head of the file, before the array's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.arrays.header import Companion
from hyperslab.formats.hdf5.attributes import is_plain

_LARGEST_COMPACT_NBYTES = 60_000
"""Values up to this size lie among the metadata (HDF5 File Format Specification, compact layout:
less than 64 KiB). Larger ones get a place of their own; small ones would share one with the array.
"""

Said = Callable[[Any], Any]
"An attribute as the file has it."


def write(parent: Any, one: Companion, said: Said) -> Any:
    """A dataset with the values and attributes of a companion."""
    import h5py

    values = np.asarray(one.values, order="C")
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_obj_track_times(False)
    if values.nbytes <= _LARGEST_COMPACT_NBYTES:
        creation.set_layout(h5py.h5d.COMPACT)
    else:
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(values.shape)
    if not values.shape:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(values.dtype, logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(parent.id, one.name.encode(), kind, space, creation))
    if values.size:
        dataset[...] = values
    plain = {name: value for name, value in one.attributes.items() if is_plain(name, value)}
    dataset.attrs.update({name: said(value) for name, value in plain.items()})
    return dataset
