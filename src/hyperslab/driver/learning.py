"""Learning: what functions return, where nobody has said it, from samples of made-up numbers.

A function is called with two blocks whose extents differ along every axis, so that the axes of what
it returns are known by their extents. First no axis is whole; then, for functions that fit one
length alone, such as that of a series, some are. It is called in a process of its own, which is
forked for that: neither what it changes nor how it ends reaches the driver. A function of which
nothing is learned is taken to keep the axes and the dtype of its block, and its tasks are held to
that.

Held by tests/driver/test_learning.py.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn

import numpy as np

from hyperslab.arrays import Array, DType
from hyperslab.arrays.axes import Axes
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline, Step, axes_after
from hyperslab.plan.promise import Promise, require_names
from hyperslab.plan.steps import call

LIMIT_S = 10
"Functions that take longer for the samples are not learned from."
SAMPLE_NBYTES = 64 * 2**20
_FIRST = (5, 7, 6, 4, 9, 3, 8, 10)
"Extents of the first sample's axes that are not whole."
_MORE = 3
"What the second sample has more."
_NUMBERS = "biufc"

Pair = tuple[int, int]
"Extents of an axis in the two samples."


@dataclass(frozen=True, slots=True)
class Seen:
    """One array that a function has returned for both samples."""

    name: str
    extents: tuple[Pair, ...]
    dtype: str


def learned(pipeline: Pipeline, axes_whole: Sequence[int] = ()) -> Pipeline:
    """The pipeline with what its functions return. Raises UsageError where that contradicts what
    was said of it.
    """
    if not any(map(_is_open, pipeline.steps)):
        return pipeline
    dtypes = [inputs.sources[0].dtype(pipeline.values) for inputs in pipeline.inputs.values()]
    ndim = pipeline.source.ndim
    if not 0 < ndim <= len(_FIRST) or any(dtype.kind not in _NUMBERS for dtype in dtypes):
        return pipeline
    whole = {axis % ndim for axis in axes_whole}
    found = _in_a_fork(lambda: _best(pipeline, dtypes, whole)) or []
    steps = list(pipeline.steps)
    for number, promises in enumerate(found):
        steps[number] = _told(steps[number], promises)
    return pipeline.altered(steps=tuple(steps))


def _is_open(step: Step) -> bool:
    """Whether something is left to be learned of what a step returns."""
    if step.ref.is_ours or step.scale is not None:
        return False
    has_dtypes = all(promise.dtype for promise in step.returns)
    return not (step.changes_axes and has_dtypes)


def _told(step: Step, promises: Sequence[Promise]) -> Step:
    """A step with what was learned of it, where nothing was said."""
    if not _is_open(step):
        return step
    said = list(step.returns)
    names = [promise.name for promise in promises]
    if not said[0].name:
        said = [replace(said[0], name=name) for name in names]
        if names != [""]:
            require_names(names)
    elif len(said) != len(names):
        raise UsageError(
            f"--outputs {','.join(promise.name for promise in said)}: {step.ref.name} returned"
            f" {len(names)} for a sample ({', '.join(filter(None, names)) or 'an array'}): name"
            " each of them"
        )
    by_name = {promise.name: promise for promise in promises}
    returns = []
    for place, promise in enumerate(said):
        seen = by_name.get(promise.name, promises[place])
        more = replace(promise, dtype=promise.dtype or seen.dtype)
        if not step.changes_axes:
            more = replace(more, drop_axis=seen.drop_axis, new_axis=seen.new_axis)
        returns.append(more)
    return replace(step, returns=tuple(returns))


def _in_a_fork(
    ask: Callable[[], list[tuple[Promise, ...]]],
) -> list[tuple[Promise, ...]] | None:
    """What `ask` returns in a process of its own; None where that ends early or takes too long.

    The process is none of multiprocessing's, which daemons such as Dask's workers may not start.
    """
    ours, theirs = Pipe(duplex=False)
    try:
        with warnings.catch_warnings():
            # threads that hold locks at this moment can make it hang: then the limit ends it
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        _answer(theirs, ask)
    theirs.close()
    try:
        if not ours.poll(LIMIT_S):
            return None
        answer: list[tuple[Promise, ...]] = ours.recv()
        return answer
    except (EOFError, OSError):
        return None
    finally:
        ours.close()
        _end(pid)


def _end(pid: int) -> None:
    """End a process that was forked, and what functions have started in it."""
    with suppress(ProcessLookupError):  # it had no time to become a group
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # somebody has taken note of all that end
        os.waitpid(pid, 0)


def _answer(pipe: Connection, ask: Callable[[], Any]) -> NoReturn:
    try:
        os.setpgrp()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S + 1)  # should the driver be gone
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
        pipe.send(ask())
    finally:
        os._exit(0)


def _best(
    pipeline: Pipeline, dtypes: Sequence[DType], whole: set[int]
) -> list[tuple[Promise, ...]]:
    """What the steps return, of as many as anything was learned of."""
    best: list[tuple[Promise, ...]] = []
    for axes in _choices(pipeline.source.ndim, whole):
        found = _tried(pipeline, dtypes, axes)
        if len(found) > len(best):
            best = found
        if len(best) == len(pipeline.steps):
            break
    return best


def _choices(ndim: int, whole: set[int]) -> Iterator[set[int]]:
    """Axes of the samples that are whole: none, those after space, each one, all."""
    yield whole
    yield whole | set(range(3, ndim))
    for axis in range(ndim):
        yield whole | {axis}
    yield set(range(ndim))


def _tried(
    pipeline: Pipeline, dtypes: Sequence[DType], whole: set[int]
) -> list[tuple[Promise, ...]]:
    """What the steps return for samples with these axes whole, up to the first that fails."""
    extents = []
    for axis, extent in enumerate(pipeline.source.wholes[0].shape):
        first = extent if axis in whole else _FIRST[axis]
        extents.append((first, first if axis in whole else first + _MORE))
    samples = [_Sample.of(pipeline, dtypes, [pair[i] for pair in extents]) for i in range(2)]
    if any(sample is None for sample in samples):
        return []
    found: list[tuple[Promise, ...]] = []
    before = list(pipeline.steps)
    for number, step in enumerate(pipeline.steps):
        blocks = [sample.block for sample in samples if sample is not None]
        try:
            returned = [sample.returned(step) for sample in samples if sample is not None]
            axes = axes_after(before[:number], pipeline.source.ndim)[0]
            halo = axes.pick(pipeline.halo, (0,) * axes.ndim)
            promises = _promises(halo, blocks, returned)
        except Exception:  # noqa: BLE001  # whatever a function raises: its tasks will tell it
            return found
        if promises is None:
            return found
        found.append(promises)
        before[number] = replace(step, returns=promises)
    return found


@dataclass(slots=True)
class _Sample:
    """Made-up blocks of all inputs, the first of which goes from step to step."""

    block: Array
    others: Mapping[str, Array]
    slab: Hyperslab

    @classmethod
    def of(
        cls, pipeline: Pipeline, dtypes: Sequence[DType], extents: Sequence[int]
    ) -> _Sample | None:
        """Blocks of these extents, and the halo; None where they would be too large."""
        shape = [n + 2 * h for n, h in zip(extents, pipeline.halo, strict=True)]
        if np.prod(shape, dtype=float) * sum(dtype.itemsize for dtype in dtypes) > SAMPLE_NBYTES:
            return None
        first, *others = [_numbers(shape, dtype) for dtype in dtypes]
        names = list(pipeline.inputs)[1:]
        return cls(first, dict(zip(names, others, strict=True)), Hyperslab.full(tuple(extents)))

    def returned(self, step: Step) -> dict[str, Array]:
        """The arrays that a step returns, by their names; the first goes to the next step."""
        function = step.ref.load()
        # what a function changes in its block must not change the shape that is looked at
        value = call(function, self.block.copy(), self.others, step.ref.params, self.slab)
        arrays = {name: np.asarray(each) for name, each in _named(value).items()}
        self.block = next(iter(arrays.values()))
        return arrays


def _numbers(shape: Sequence[int], dtype: DType) -> Array:
    numbers = np.random.default_rng(0).uniform(1, 100, shape)
    if dtype.kind == "b":
        return np.asarray(numbers > 50)
    return numbers.astype(dtype)


def _named(value: Any) -> Mapping[str, Any]:
    """What a function has returned, by name: the keys of a dict, the fields or the places of a
    tuple.
    """
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    if isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
        names = getattr(value, "_fields", range(len(value)))
        return dict(zip(map(str, names), value, strict=True))
    return {"": value}


def _promises(
    halo: Sequence[int], blocks: Sequence[Array], returned: Sequence[dict[str, Array]]
) -> tuple[Promise, ...] | None:
    """What a step promises by what it has returned for both samples; None where that is unclear."""
    first, second = returned
    if list(first) != list(second):
        return None
    extents = list(zip(blocks[0].shape, blocks[1].shape, strict=True))
    inner = [(a - 2 * h, b - 2 * h) for (a, b), h in zip(extents, halo, strict=True)]
    promises = []
    for name, array in first.items():
        other = second[name]
        if array.dtype != other.dtype or array.dtype.kind not in _NUMBERS:
            return None
        if array.ndim != other.ndim:
            return None
        made = list(zip(array.shape, other.shape, strict=True))
        axes = matched(made, extents) or matched(made, inner)
        if axes is None or _resizes_space(axes, len(extents)):
            return None
        promises.append(_promise(name, array, blocks[0], axes))
    return tuple(promises) or None


def _resizes_space(axes: Axes, ndim: int) -> bool:
    """Whether an axis of space has got another length, by which its voxels would lose their place:
    that has to be said.
    """
    dropped = axes.dropped(ndim)
    places = range(min(3, axes.ndim))
    return any(place in dropped and axes.lengths[place] > 1 for place in places)


def _promise(name: str, array: Array, block: Array, axes: Axes) -> Promise:
    dtype = None
    if array.dtype != block.dtype:
        dtype = array.dtype.name
    new = [
        (position, length)
        for position, (axis, length) in enumerate(zip(axes.kept, axes.lengths, strict=True))
        if axis is None
    ]
    return Promise(name, dtype, axes.dropped(block.ndim), tuple(new))


def matched(made: Sequence[Pair], given: Sequence[Pair]) -> Axes | None:
    """The axes of a block that an array has, by their extents in two samples, in the order of the
    block's; None where that is unclear.

    An extent that is the same in both, and of no axis of the block, is that of a new axis.
    """
    kept: list[int | None] = []
    lengths = []
    next_axis = 0
    for pair in made:
        same = [axis for axis in range(next_axis, len(given)) if given[axis] == pair]
        if len(same) > len([other for other in made if other == pair]):
            return None
        if same:
            kept.append(same[0])
            lengths.append(0)
            next_axis = same[0] + 1
        elif pair[0] == pair[1] and pair[0] > 0:
            kept.append(None)
            lengths.append(pair[0])
        else:
            return None
    return Axes(tuple(kept), tuple(lengths))
