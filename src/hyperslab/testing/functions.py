"""Functions and folds for the suites: what users write, well and badly. Workers import them, so
NumPy is all they need.

Those that take `at` do their deed in the block that starts there, and return all other blocks as
they are.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.plan.pipeline import Fold
from hyperslab.testing.holding import await_leave


def add(block: Array, k: int = 1, seconds: float = 0.0) -> Array:
    """block + k, after a while."""
    time.sleep(seconds)
    result: Array = block + block.dtype.type(k)
    return result


def masked(block: Array, mask: Array) -> Array:
    """The block where the mask is not zero, zero elsewhere."""
    result: Array = np.where(mask, block, block.dtype.type(0))
    return result


def extremes(block: Array) -> dict[str, Array]:
    """Lowest and highest values along the last axis, in two dtypes."""
    return {"low": block.min(axis=-1), "high": block.max(axis=-1).astype(np.float64)}


def positions(block: Array, slab: Hyperslab, shape: Sequence[int]) -> Array:
    """Every voxel's own number in an array of `shape`, as int64: right only if `slab` is."""
    indices = np.ogrid[slab.slices()]
    numbers = sum(i * np.prod(shape[axis + 1 :], dtype=np.int64) for axis, i in enumerate(indices))
    return np.broadcast_to(np.asarray(numbers, np.int64), block.shape)


def neighbourhood(block: Array) -> Array:
    """int64: the sum over every voxel and those around it, wrong at the block's own edges. Needs a
    halo of 1.
    """
    total = block.astype(np.int64)
    for axis in range(block.ndim):
        total = total + np.roll(total, 1, axis) + np.roll(total, -1, axis)
    return total


def window_weights(halo: Sequence[int]) -> Array:
    """(2 h + 1, ...) int64: another weight for every place around a voxel."""
    shape = [2 * h + 1 for h in halo]
    return np.arange(1, np.prod(shape, dtype=np.int64) + 1, dtype=np.int64).reshape(shape)


def window_sums(block: Array, halo: Sequence[int]) -> Array:
    """int64, without the halo: the weighted sum of all voxels within the halo of each."""
    windows = np.lib.stride_tricks.sliding_window_view(
        block.astype(np.int64), [2 * h + 1 for h in halo]
    )
    sums: Array = np.einsum("abcxyz,xyz->abc", windows, window_weights(halo))
    return sums


def misbehave(block: Array, slab: Hyperslab, deed: str, at: Sequence[int], once: str = "") -> Array:
    """Do a deed of DEEDS; only the first time, if `once` names a file to remember it by."""
    if slab.start != tuple(at) or (once and os.path.exists(once)):
        return block
    if once:
        Path(once).touch()
    return DEEDS[deed](block)


def _raise(_block: Array) -> Array:
    raise ValueError("this block is not to my liking")


def _exit(_block: Array) -> Array:
    sys.exit(3)


def _leave(_block: Array) -> Array:
    os._exit(7)


def _die(_block: Array) -> Array:
    os.kill(os.getpid(), signal.SIGKILL)
    return _hang(_block)


def _crash(block: Array) -> Array:
    ctypes.memset(0, 1, 1)
    return block


def _hang(block: Array) -> Array:
    while True:
        time.sleep(1)
    return block


def _fork(block: Array) -> Array:
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    return _leave(block)


DEEDS: Mapping[str, Callable[[Array], Array]] = {
    "raise": _raise,
    "exit": _exit,
    "leave": _leave,
    "fork": _fork,
    "die": _die,
    "crash": _crash,
    "hang": _hang,
    "shape": lambda block: block[:1],
    "dtype": lambda block: block.astype(np.complex64),
}
"""What functions do wrong: raise, sys.exit, os._exit (leaving a child or not), die, segfault, hang,
return nonsense.
"""


def counted(
    block: Array, slab: Hyperslab, folder: str, seconds: float = 0.0, at: Sequence[int] = ()
) -> Array:
    """block + 1, and a file in `folder` for each execution, which waits while it is held
    there; raises at `at` while the folder holds a file 'broken'.
    """
    corner = "_".join(map(str, slab.start))
    Path(folder, f"{corner}.{uuid.uuid4().hex}").touch()
    await_leave(Path(folder))
    time.sleep(seconds)
    if slab.start == tuple(at) and Path(folder, "broken").exists():
        raise ValueError("this block is not to my liking")
    return add(block)


def executions(folder: Path) -> dict[str, int]:
    """How often `counted` ran each block: its first voxel, joined by '_' -> times."""
    times: dict[str, int] = {}
    for path in folder.glob("*.*"):
        times[path.stem] = times.get(path.stem, 0) + 1
    return times


def _sum(block: Array, **_: Any) -> int:
    return int(block.sum(dtype=np.int64))


def _counted_sum(block: Array, slab: Hyperslab, **options: Any) -> int:
    return _sum(counted(block, slab, **options)) - block.size


def _add(a: Any, b: Any) -> Any:
    return a + b


def _refuse(*_: Any) -> Any:
    raise ValueError("this value is not to my liking")


def _place(block: Array, slab: Hyperslab, **_: Any) -> list[tuple[Hyperslab, Array]]:
    return [(slab, block.copy())]


def _float_sum(block: Array) -> float:
    return float(block.sum(dtype=np.float64))


TOTAL = Fold(_sum, _add)
"Sum of integers, exact."
COUNTED_TOTAL = Fold(_counted_sum, _add)
"The same, leaving a file in `folder` for each execution, as `counted` does."
FLOAT_TOTAL = Fold(_float_sum, _add)
"Sum of floats, rounded at every addition."
BLOCKS = Fold(_place, _add)
"All blocks with their places."
UNMERGEABLE = Fold(_sum, _refuse)
UNFINISHABLE = Fold(_sum, _add, _refuse)
