"""Returned: what a function has returned for a block, held against what was promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array, DType, is_masked_array
from hyperslab.arrays.axes import Axes
from hyperslab.arrays.casting import cast
from hyperslab.errors import BlockError, NoArray
from hyperslab.plan.function import LAMBDA
from hyperslab.plan.pipeline import Step, axes_after
from hyperslab.plan.promise import Promise
from hyperslab.plan.task import Job, Task
from hyperslab.units import show_count, show_list

_NUMBERS = "biufc"
"Kinds of dtype that are converted to the one that was asked for."
_SAY_IT = " say what it returns (--drop-axis, --new-axis, --dtype, --outputs)"


def arrays_of(returned: Any, step: Step) -> list[Any]:
    """The arrays that a step returned, in the order of its promises. Raises BlockError for others
    than were promised.
    """
    if returned is None:
        raise BlockError(_nothing(step))
    names = [promise.name for promise in step.returns]
    if names == [""]:
        _require_one(returned, step)
        return [returned]
    if isinstance(returned, Mapping):
        by_name = {str(name): value for name, value in returned.items()}
        if set(by_name) != set(names):
            raise BlockError(
                f"{step.ref.name} returned {_listed(list(by_name))}, not {_listed(names)}: return"
                " the same arrays for every block"
            )
        return [by_name[name] for name in names]
    if isinstance(returned, tuple):
        if len(returned) != len(names):
            raise BlockError(
                f"{step.ref.name} returned {show_count(len(returned), 'array')}, not {len(names)}"
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
    if isinstance(returned, list) and any(isinstance(a, np.ndarray) for a in returned):
        raise BlockError(
            f"{step.ref.name} returned a list of arrays: return a tuple of them, a dict by name, or"
            " one array (numpy.stack)"
        )
    is_dict = isinstance(returned, Mapping)
    is_tuple = isinstance(returned, tuple) and any(isinstance(a, np.ndarray) for a in returned)
    if not is_dict and not is_tuple:
        return
    if is_dict and not (returned and all(returned)):
        raise BlockError(
            f"{step.ref.name} returned a dict of {_listed([repr(name) for name in returned])}, not"
            " one array: give every array in it a name, or return one"
        )
    names = "NAME,NAME"
    arrays = returned
    if is_dict:
        names = ",".join(map(str, returned))
        arrays = returned.values()
    shapes = show_list([str(np.shape(each)) for each in arrays])
    raise BlockError(
        f"{step.ref.name} returned several arrays, a {type(returned).__name__} of shapes {shapes},"
        f" not one:{_assumed(step)} say --outputs {names} if that is meant"
    )


def _assumed(step: Step) -> str:
    """Why one array like the block was expected, where the function failed in its trial."""
    if not step.trial.error:
        return ""
    why = f"it failed on the made-up numbers that it was tried on ({step.trial.error})"
    if step.trial.is_late:
        why = f"its trial on made-up numbers took too long ({step.trial.error})"
    return (
        f" {why}, so that the run took it to return an array of the shape and dtype of its block;"
    )


def _say_it(step: Step) -> str:
    """What helps where a function returns something else than was assumed after its trial."""
    if step.trial.is_late:
        return _SAY_IT
    return f"{_SAY_IT}, or let it take such numbers"


def _listed(names: list[Any]) -> str:
    return ", ".join(map(str, names)) or "nothing"


def checked(returned: Any, block: Array, job: Job, number: int, task: Task) -> tuple[Array, ...]:
    """The arrays that a step has returned for a block, in native byte order, if they are those that
    it promised. Raises BlockError.
    """
    step = job.steps[number]
    whole_blocks = step.shapes(block.shape)
    axes = axes_after(job.steps[: number + 1], task.core.ndim, task.core.count)
    without_halo = [each.shape(task.core.count) for each in axes]
    keeps_halo = step.scale or any(any(later.halo) for later in job.steps[number + 1 :])
    found = []
    arrays = arrays_of(returned, step)
    for place, (value, promise) in enumerate(zip(arrays, step.returns, strict=True)):
        said = _called(step, promise)
        array = _array(value, said)
        expected = promise.made_of(block.dtype)
        allowed = [whole_blocks[place]]
        if not keeps_halo:
            allowed.append(without_halo[place])
        if array.shape not in allowed:
            _require_array(value, said, f"shape {allowed[0]}")
            raise BlockError(_other_shape(array, block, allowed[0], step, promise))
        is_cast = promise.is_asked and array.dtype.kind in _NUMBERS
        if not is_cast:
            _require_dtype(array, expected, step, promise)
        found.append(_as_promised(array, expected, axes[place], job, number, task))
    return tuple(found)


def _as_promised(
    array: Array, expected: DType, axes: Axes, job: Job, number: int, task: Task
) -> Array:
    """The array as the dtype that was asked for; of the last step without its halo, whose values
    nobody will see. Raises BlockError for a value that the dtype cannot hold.
    """
    if array.dtype.newbyteorder("=") == expected:
        return array.astype(expected, copy=False)
    none = (0,) * axes.ndim
    start = axes.pick(_start_of(job, number, task), none)
    count = axes.shape(task.core.count)
    if any(job.halo) and array.shape != count:
        halo = axes.pick(job.halo, none)
        if number < len(job.steps) - 1:
            start = tuple(first - h for first, h in zip(start, halo, strict=True))
        else:
            array = array[tuple(slice(h, h + n) for h, n in zip(halo, count, strict=True))]
    return cast(array, expected, start)


def _start_of(job: Job, number: int, task: Task) -> list[int]:
    """Where a block begins, in voxels as a step leaves them."""
    start = list(task.core.start)
    for step in job.steps[: number + 1]:
        for axis, merged in enumerate(step.scale or ()):
            start[axis] //= merged
    return start


def _called(step: Step, promise: Promise) -> str:
    """What a function is said to have returned."""
    if not promise.name:
        return f"{step.ref.name} returned"
    return f"{step.ref.name} returned as '{promise.name}'"


def _array(value: Any, said: str) -> Array:
    if is_masked_array(value):
        raise BlockError(
            f"{said} a masked array, whose mask no file can keep: return .filled(value)"
        )
    return np.asarray(value)


def require_arrays(named: Mapping[str, Any], step: Step, ndim: int) -> None:
    """Raise NoArray where a step has returned None for a block of `ndim` axes, or, by name, what
    is no array; a list of the block's axes, or of those that were said, is one.
    """
    if "" in named and named[""] is None:
        raise NoArray(_nothing(step))
    for name, value in named.items():
        is_listed = isinstance(value, list | tuple)
        if not is_listed or not (step.changes_axes or np.ndim(value) == ndim):
            _require_array(value, _called(step, Promise(name)), "the shape of its block")


def _nothing(step: Step) -> str:
    remedy = "end it with 'return' and the block"
    if step.ref.name.endswith(LAMBDA):
        remedy = "the expression of a lambda has to be the block"
    return f"{step.ref.name} returned None: {remedy}"


def _require_array(value: Any, said: str, shape: str) -> None:
    """Raise NoArray for a text, for a list or tuple, and for objects that are no numbers."""
    if isinstance(value, str | bytes):
        what = "a text"
    elif isinstance(value, list | tuple):
        what = f"a {type(value).__name__} of {len(value)}"
    elif np.asarray(value).dtype.kind == "O" and not isinstance(value, np.ndarray):
        what = f"an object ({type(value).__name__})"
    else:
        return
    fold = "where all blocks together become one value"
    if isinstance(value, list | tuple) and _are_numbers(value):
        fold = (
            "as that reduces the array: its lift makes them of a block, its merge one of two"
            " ('Reduce all blocks to one value' in the tutorial)"
        )
    raise NoArray(
        f"{said} {what}, not an array of {shape}: return one, or write a hyperslab.Fold {fold}"
    )


def _are_numbers(values: Sequence[Any]) -> bool:
    """Whether these are numbers, each a single one."""
    return bool(values) and all(
        np.ndim(value) == 0 and np.asarray(value).dtype.kind in _NUMBERS for value in values
    )


def _require_dtype(array: Array, expected: Any, step: Step, promise: Promise) -> None:
    if array.dtype.newbyteorder("=") == expected:
        return
    remedy = f" {_dtype_of_both(array.dtype, expected)}convert the block before returning it"
    if step.trial.error:
        remedy = _assumed(step) + _say_it(step)
    if promise.name:
        remedy = " return the same dtype for every block"
    raise BlockError(f"{_called(step, promise)} {array.dtype}, not {expected}:{remedy}")


def _dtype_of_both(returned: DType, expected: DType) -> str:
    """Advice to say a dtype that holds what a block has and what others may have; '' for what is no
    number.
    """
    if returned.kind not in _NUMBERS or expected.kind not in _NUMBERS:
        return ""
    both = np.result_type(returned, expected)
    if both == returned:
        return f"say --dtype {both} if that is meant, or "
    return f"say --dtype {both}, which holds both, or "


def _other_shape(
    array: Array, block: Array, expected: tuple[int, ...], step: Step, promise: Promise
) -> str:
    said = _called(step, promise)
    if step.trial.error:
        why = _assumed(step) + _say_it(step)
        return f"{said} a block of shape {array.shape}, not {expected}:{why}"
    if expected == block.shape:
        fold = ""
        if _lacks_axes(array, block):
            fold = "; use a fold (hyperslab.Fold) where all blocks together become one value"
        return (
            f"{said} a block of shape {array.shape}, not {expected}: a mapped function keeps its"
            f" block's shape, but for axes that --drop-axis and --new-axis name{fold}"
        )
    if array.ndim == len(expected):
        return (
            f"{said} an array of shape {array.shape} for a block of shape {block.shape}, not"
            f" {expected}: {_other_extents(array, expected)}"
        )
    return (
        f"{said} an array of shape {array.shape} for a block of shape {block.shape}, not"
        f" {expected}: its axes are not those that --drop-axis and --new-axis say, or that it"
        " returned for a sample"
    )


def _other_extents(array: Array, expected: tuple[int, ...]) -> str:
    """Along which axes an array is longer or shorter than it was to be."""
    pairs = enumerate(zip(array.shape, expected, strict=True))
    return ", and ".join(
        f"axis {axis} has {show_count(made, 'element')}, expected {wanted:,}"
        for axis, (made, wanted) in pairs
        if made != wanted
    )


def _lacks_axes(array: Array, block: Array) -> bool:
    """Whether an array has none of its block's axes, as a number or a histogram."""
    return array.ndim < block.ndim and not set(array.shape) & set(block.shape)
