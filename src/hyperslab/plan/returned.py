"""Returned: what a function has returned for a block, held against what was promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.errors import BlockError
from hyperslab.plan.pipeline import Step, axes_after
from hyperslab.plan.promise import Promise
from hyperslab.plan.task import Job, Task


def arrays_of(returned: Any, step: Step) -> list[Any]:
    """The arrays that a step returned, in the order of its promises. Raises BlockError for others
    than were promised.
    """
    names = [promise.name for promise in step.returns]
    if names == [""]:
        _require_one(returned, step)
        return [returned]
    if isinstance(returned, Mapping):
        if set(returned) != set(names):
            raise BlockError(
                f"{step.ref.name} returned {_listed(list(returned))}, not {_listed(names)}: return"
                " the same arrays for every block"
            )
        return [returned[name] for name in names]
    if isinstance(returned, tuple):
        if len(returned) != len(names):
            raise BlockError(
                f"{step.ref.name} returned {len(returned)} arrays, not {len(names)}"
                f" ({_listed(names)}): return the same arrays for every block"
            )
        return list(returned)
    if len(names) == 1:
        return [returned]
    raise BlockError(
        f"{step.ref.name} returned {type(returned).__name__}, not {_listed(names)}: return a dict,"
        " or a tuple in this order"
    )


def _require_one(returned: Any, step: Step) -> None:
    is_dict = isinstance(returned, Mapping)
    is_tuple = isinstance(returned, tuple) and any(isinstance(a, np.ndarray) for a in returned)
    if not is_dict and not is_tuple:
        return
    names = "NAME,NAME"
    if is_dict:
        names = ",".join(map(str, returned))
    raise BlockError(
        f"{step.ref.name} returned several arrays ({type(returned).__name__}), not one: say"
        f" --outputs {names} if that is meant"
    )


def _listed(names: list[Any]) -> str:
    return ", ".join(map(str, names)) or "nothing"


def checked(returned: Any, block: Array, job: Job, number: int, task: Task) -> tuple[Array, ...]:
    """The arrays that a step has returned for a block, in native byte order, if they are those that
    it promised. Raises BlockError.
    """
    step = job.steps[number]
    whole_blocks = step.shapes(block.shape)
    without_halo = [axes.shape(task.core.count) for axes in _axes(job, number, task)]
    keeps_halo = step.scale or any(any(later.halo) for later in job.steps[number + 1 :])
    found = []
    arrays = arrays_of(returned, step)
    for place, (value, promise) in enumerate(zip(arrays, step.returns, strict=True)):
        array = _array(value, _called(step, promise))
        expected = np.dtype(promise.dtype or block.dtype)
        _require_dtype(array, expected, step, promise)
        allowed = [whole_blocks[place]]
        if not keeps_halo:
            allowed.append(without_halo[place])
        if array.shape not in allowed:
            raise BlockError(_other_shape(array, block, allowed[0], step, promise))
        found.append(array.astype(expected, copy=False))
    return tuple(found)


def _axes(job: Job, number: int, task: Task) -> list[Any]:
    return axes_after(job.steps[: number + 1], task.core.ndim)


def _called(step: Step, promise: Promise) -> str:
    """What a function is said to have returned."""
    if not promise.name:
        return f"{step.ref.name} returned"
    return f"{step.ref.name} returned as '{promise.name}'"


def _array(value: Any, said: str) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise BlockError(
            f"{said} a masked array, whose mask no file can keep: return .filled(value)"
        )
    return np.asarray(value)


def _require_dtype(array: Array, expected: Any, step: Step, promise: Promise) -> None:
    if array.dtype.newbyteorder("=") == expected:
        return
    remedy = f"say --dtype {array.dtype} if that is meant, or convert the block before returning it"
    if promise.name:
        remedy = "return the same dtype for every block"
    raise BlockError(f"{_called(step, promise)} {array.dtype}, not {expected}: {remedy}")


def _other_shape(
    array: Array, block: Array, expected: tuple[int, ...], step: Step, promise: Promise
) -> str:
    said = _called(step, promise)
    if expected == block.shape:
        return (
            f"{said} a block of shape {array.shape}, not {expected}: a mapped function keeps its"
            " block's shape, but for axes that --drop-axis and --new-axis name; use a fold"
            " (hyperslab.Fold) for values of another shape"
        )
    return (
        f"{said} an array of shape {array.shape} for a block of shape {block.shape}, not"
        f" {expected}: its axes are not those that --drop-axis and --new-axis say, or that it"
        " returned for a sample"
    )
