"""HDF5's index of chunks, laid out here: where every chunk of a dataset lies, as a version 1
B-tree.

It is what libhdf5 makes in files that its oldest versions read ("HDF5 File Format Specification
Version 3.0", section III.A.1, nodes of type 1): a node holds up to 64 chunks, or nodes of the level
below, in the order of their corners. Between them are keys; the one before a chunk has its size and
corner, the last lies behind all chunks.

- a node of a file that libhdf5 wrote is made again byte for byte, but for the last key, which there
  depends on what was written when; libhdf5 finds and lists every chunk of trees of three levels
  (`tests/formats/test_hdf5_chunkindex.py`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import FormatError

_ENTRIES = 64
"Twice the rank of such a tree, of which superblocks of version 0 say nothing: libhdf5's own is 32."
_CHUNKS = 1
"Type of the nodes of such a tree."
_NOWHERE = 2**64 - 1
_LARGEST_NBYTES = 2**32 - 1


def node_dtype(ndim: int) -> np.dtype[Any]:
    """A node for arrays of so many axes; a corner has one number more, of the bytes within an
    element.
    """
    key = [("nbytes", "<u4"), ("mask", "<u4"), ("corner", "<u8", (ndim + 1,))]
    head = [
        ("signature", "S4"),
        ("kind", "u1"),
        ("level", "u1"),
        ("used", "<u2"),
        ("left", "<u8"),
        ("right", "<u8"),
    ]
    return np.dtype(
        [*head, ("entries", [("key", key), ("child", "<u8")], (_ENTRIES,)), ("end", key)]
    )


def layout(
    grid: Sequence[int], unit: Sequence[int], itemsize: int, nbytes: Array, offsets: Array, at: int
) -> tuple[bytes, bytes]:
    """The root of a dataset's tree, and the nodes below it for byte `at` of the file.

    `grid` is how many chunks of shape `unit` an array has along its axes; `nbytes` and `offsets`
    say how large each of them is and where it begins, in C order. Raises FormatError for a chunk of
    4 GiB or more.
    """
    if nbytes.max() > _LARGEST_NBYTES:
        raise FormatError(
            f"a chunk that takes {nbytes.max()} bytes has no place in HDF5; choose smaller --chunks"
        )
    node = node_dtype(len(grid))
    keys: Array = np.zeros(len(nbytes) + 1, node["end"])
    keys["nbytes"][:-1] = nbytes
    for axis, places in enumerate(np.unravel_index(np.arange(math.prod(grid)), grid)):
        keys["corner"][:-1, axis] = places * unit[axis]
    keys["corner"][-1] = keys["corner"][-2] + np.array([*unit, itemsize], np.uint64)
    children = offsets
    levels = [b""]
    while len(children) > _ENTRIES:
        nodes = _nodes(node, len(levels) - 1, keys, children)
        children = at + np.arange(len(nodes)) * node.itemsize
        nodes["left"][1:] = children[:-1]
        nodes["right"][:-1] = children[1:]
        levels.append(nodes.tobytes())
        at += nodes.nbytes
        keys = np.append(keys[:-1:_ENTRIES], keys[-1:])
    return _nodes(node, len(levels) - 1, keys, children).tobytes(), b"".join(levels)


def _nodes(node: np.dtype[Any], level: int, keys: Array, children: Array) -> Array:
    """Nodes of a level, all but the last full, without their neighbours."""
    count = math.ceil(len(children) / _ENTRIES)
    nodes: Array = np.zeros(count, node)
    nodes["signature"] = b"TREE"
    nodes["kind"] = _CHUNKS
    nodes["level"] = level
    nodes["used"] = _ENTRIES
    nodes["left"] = _NOWHERE
    nodes["right"] = _NOWHERE
    nodes["used"][-1] = len(children) - (count - 1) * _ENTRIES
    padded: Array = np.zeros(count * _ENTRIES + 1, keys.dtype)
    padded[: len(keys)] = keys
    nodes["entries"]["key"] = padded[:-1].reshape(count, _ENTRIES)
    nodes["end"] = padded[_ENTRIES::_ENTRIES]
    padded_children = np.zeros(count * _ENTRIES, np.uint64)
    padded_children[: len(children)] = children
    nodes["entries"]["child"] = padded_children.reshape(count, _ENTRIES)
    return nodes
