"""The steps that a slot runs: read -> map ... -> write or lift -> Outcome.

Contract, held by hyperslab.testing.EngineTests: a task is idempotent; its steps never raise (a
failure is data); every phase is timed by the code that spends the time; a step's result is what the
next step takes, so an engine may run the steps as one operator or each as its own.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import for_each
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.whole import assemble
from hyperslab.errors import BlockError, FormatError, RunStopped, of_code
from hyperslab.plan import delivery
from hyperslab.plan.becoming import Made
from hyperslab.plan.failing import CommandFailed
from hyperslab.plan.failure import Failure, describe_failure, is_of_shapes, locate, own_frame
from hyperslab.plan.function import FunctionRef
from hyperslab.plan.journal import Partial, merge_partials
from hyperslab.plan.odd import odd_values, stands_for
from hyperslab.plan.pipeline import Fold
from hyperslab.plan.returned import checked
from hyperslab.plan.task import Job, Outcome, State, Status, StepFunction, Task
from hyperslab.trace import recording, span

if TYPE_CHECKING:
    from hyperslab.storage.turns import Turns

PAD_MODES = {"reflect": "symmetric", "nearest": "edge", "constant": "constant"}


def steps_of(job: Job, stepwise: bool) -> tuple[StepFunction, ...]:
    """The functions an engine applies in turn: Task -> ... -> Outcome; one of them all together
    unless stepwise, or where it is a command.
    """
    if job.commands is not None:
        from hyperslab.plan.executing import execute

        run: StepFunction = functools.partial(_guarded, job, execute)
        return (_Chain((State, run, _outcome)),)
    chain: list[Callable[..., None]] = [_read]
    chain += [functools.partial(_map, number=number) for number in range(len(job.steps))]
    chain.append(_write if job.output else _lift)
    guarded: list[StepFunction] = [functools.partial(_guarded, job, step) for step in chain]
    if not stepwise:
        return (_Chain((State, *guarded, _outcome)),)
    first = _Chain((State, guarded[0]))
    last = _Chain((guarded[-1], _outcome))
    return (first, *guarded[1:-1], last)


def outcome_of(task: Task, steps: Sequence[StepFunction]) -> Outcome:
    """Apply the steps of a job to a task, one after the other."""
    x: Any = task
    for step in steps:
        x = step(x)
    outcome: Outcome = x
    return outcome


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps that are applied one after the other, as one."""

    steps: tuple[StepFunction, ...]

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


def _guarded(job: Job, step: Callable[[Job, State], None], state: State) -> State:
    """Run one step; what it raises becomes the state's failure. Only Ctrl-C passes through."""
    if state.failure is not None:
        return state
    with recording() as phases:
        try:
            step(job, state)
        except BaseException as error:  # a failure is data, also sys.exit()
            if _is_ctrl_c(error):
                raise
            state.failure = _described(error, job, state)
    state.phases += phases
    return state


def _described(error: BaseException, job: Job, state: State) -> Failure:
    if isinstance(error, CommandFailed):
        return error.failure(job.label(state.task))
    refs = [step.ref for step in job.steps]
    if job.fold is not None:
        refs.append(job.fold)
    entries = (_call.__code__, _loaded.__code__)
    failure = describe_failure(error, job.label(state.task), refs, entries, whole=job.debug)
    if not failure.certain or not is_of_shapes(error):
        return failure
    names = list(job.inputs)[1:]
    hints = [_hint(*pair) for pair in zip(names, state.blocks[1:], strict=False)]
    return replace(failure, message="; ".join([failure.message, *filter(None, hints)]))


def _hint(name: str, block: Array) -> str:
    """What a function has to know of an input that lacks an axis; '' of one that has all."""
    lacked = [axis for axis, n in enumerate(block.shape) if n == 1]
    if not lacked:
        return ""
    axes = ",".join(map(str, lacked))
    index = ", ".join("0" if axis in lacked else ":" for axis in range(block.ndim))
    if lacked == [block.ndim - 1]:
        index = "..., 0"
    return (
        f"{name} comes in the block's shape, repeated along axis {axes} (time, in a series):"
        f" {name}[{index}] is the {name} without it"
    )


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether a user has pressed it; in another thread, the exception is the function's own."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    return threading.current_thread() is threading.main_thread()


def _outcome(state: State) -> Outcome:
    status: Status = "done"
    if state.is_staged:
        status = "staged"
    if state.failure:
        status = "failed"
    return Outcome(
        task=state.task.id,
        attempt=state.task.attempt,
        status=status,
        failure=state.failure,
        value=state.value,
        outputs=state.outputs,
        phases=tuple(state.phases),
        ran=state.ran,
        odd=state.odd,
    )


def _read(job: Job, state: State) -> None:
    if job.turns is None:
        _read_inputs(job, state)
        return
    with _in_turn(job, job.turns, state.task):
        _read_inputs(job, state)


@contextmanager
def _in_turn(job: Job, turns: Turns, task: Task) -> Iterator[None]:
    """A block that reads the files of a task once it is its turn; copies of files need none."""
    from hyperslab.storage.staging import copies

    inputs = zip(job.inputs.values(), task.reads, strict=True)
    read = [sources[piece.source] for sources, pieces in inputs for piece in pieces]
    slow = [source.url for source in read if not (source.copy and copies.is_there(source.copy))]
    with ExitStack() as stack:
        with span("wait"):
            turns.await_start()
            devices = {job.devices[url] for url in slow if url in job.devices}
            stack.enter_context(turns.taken(devices))
        yield


def _read_inputs(job: Job, state: State) -> None:
    task = state.task
    read = _read_region(job, task)
    row = job.alignment(task.whole)
    for sources, pieces, alignment in zip(job.inputs.values(), task.reads, row, strict=True):
        pad = task.pad
        if alignment is None:
            block = _assemble(sources, pieces, read.count, job.values)
        else:
            block = _assemble(sources, pieces, alignment.region(read).count, job.values)
            with span("compute"):
                block = alignment.placed(block, read)
            pad = alignment.pad(pad)
        if any(map(any, pad)):
            block = np.pad(block, pad, mode=PAD_MODES[job.boundary])  # type: ignore[call-overload]
        state.blocks.append(block)


def _read_region(job: Job, task: Task) -> Hyperslab:
    """The block with that of its halo which lies within the array."""
    if not any(job.halo):
        return task.core
    start = []
    count = []
    for first, n, h, (low, high) in zip(
        task.core.start, task.core.count, job.halo, task.pad, strict=True
    ):
        start.append(first - h + low)
        count.append(n + 2 * h - low - high)
    return Hyperslab(tuple(start), tuple(count))


def _assemble(
    sources: Sequence[ArraySource], pieces: Sequence[Piece], shape: tuple[int, ...], values: Values
) -> Array:
    """The block that the pieces make; one piece is the block itself and is not copied."""

    if not pieces:  # a region that lies beyond an image that is resampled
        return np.zeros(shape, sources[0].dtype(values))

    def read(piece: Piece, out: Array | None) -> Array:
        return _read_piece(sources[piece.source], piece.slab, out, values)

    return assemble(pieces, shape, sources[pieces[0].source], values, read)


def _read_piece(source: ArraySource, slab: Hyperslab, out: Array | None, values: Values) -> Array:
    """A region of a file; of the file itself where a copy of it fails, as its tier may be gone."""
    try:
        return reading.read(source, slab, out, values)
    except (FormatError, OSError):
        if not source.copy:
            raise
    return reading.read(replace(source, copy=""), slab, out, values)


def _map(job: Job, state: State, number: int) -> None:
    step, block = job.steps[number], state.blocks[0]
    function = _loaded(step.ref)
    if number == 0:  # before the function may change it
        state.stands_for = stands_for(state.task.id, block.nbytes)
        if state.stands_for and odd_values(block):
            state.stands_for = 0
    with span("compute"):
        returned = _call(function, step.ref.params, job, state)
    try:
        state.made = checked(returned, block, job, number, state.task)
    except BlockError as error:
        locate(error, function, returned, block)
        raise
    state.blocks[0] = state.made[0]


def made_of(job: Job, task: Task) -> State:
    """A task up to what it would write: its failure, or all arrays of the last step without their
    halo, in `made`.
    """
    chain: list[Callable[[Job, State], None]] = [_read]
    chain += [functools.partial(_map, number=number) for number in range(len(job.steps))]
    state = State(task)
    for step in (*chain, _trim):
        state = _guarded(job, step, state)
    return state


def _loaded(ref: FunctionRef) -> Any:
    return ref.load()


def _call(
    function: Callable[..., Any], params: Mapping[str, Any], job: Job, state: State, **more: Any
) -> Any:
    others = {}
    if len(state.blocks) > 1:
        others = dict(zip(list(job.inputs)[1:], _beside(job, state), strict=True))
    return call(function, state.blocks[0], others, params, state.task.core, **more)


def call(
    function: Callable[..., Any],
    block: Array,
    others: Mapping[str, Array],
    params: Mapping[str, Any],
    slab: Hyperslab,
    **more: Any,
) -> Any:
    """What a function returns for a block, the blocks of further inputs and parameters."""
    if _wants_slab(function):
        more["slab"] = slab
    return function(block, **others, **params, **more)


def _beside(job: Job, state: State) -> Iterator[Array]:
    """The blocks of the further inputs in the shape of the first one as it was read: broadcast
    where they lack an axis; without its halo once a function has cut that off.
    """
    count = state.task.core.count
    halo = for_each(job.halo, len(count), 0)
    shape = tuple(n + 2 * h for n, h in zip(count, halo, strict=True))
    for block in state.blocks[1:]:
        whole = block
        if block.shape != shape:
            whole = np.broadcast_to(block, shape)
        if state.blocks[0].shape == count:
            whole = whole[tuple(slice(h, h + n) for h, n in zip(halo, count, strict=True))]
        yield whole


def _wants_slab(function: Callable[..., Any]) -> bool:
    if isinstance(function, FunctionType):
        return _function_wants_slab(function)
    return _signature_has_slab(function)


@functools.lru_cache(maxsize=64)
def _function_wants_slab(function: FunctionType) -> bool:
    """The same, looked up once: asking for a signature costs more than a small task."""
    return _signature_has_slab(function)


def _signature_has_slab(function: Callable[..., Any]) -> bool:
    try:
        return "slab" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature has no such parameter
        return False


def _trimmed(job: Job, task: Task, made: Made, block: Array) -> Array:
    """The block without its halo, unless the function has cut it off already."""
    if not any(job.halo):
        return block
    shape = made.shape_of(task.core.count)
    if block.shape == shape:
        return block
    first = made.of_whole.pick(job.halo, (0,) * made.of_whole.ndim)
    inner = [slice(h, h + n) for h, n in zip(first, shape, strict=True)]
    return block[tuple(inner)]


def _trim(job: Job, state: State) -> None:
    """Cut the halo off all arrays that the last step has returned."""
    made = job.becoming[state.task.whole].outputs
    arrays = state.made or (state.blocks[0],)
    pairs = zip(made, arrays, strict=True)
    state.made = tuple(_trimmed(job, state.task, *pair) for pair in pairs)


def _write(job: Job, state: State) -> None:
    _trim(job, state)
    if state.stands_for:
        state.odd = state.stands_for * sum(map(odd_values, state.made))
    state.outputs = delivery.stage(job, state.task, state.made)
    state.is_staged = bool(state.outputs)
    if not state.is_staged:
        state.outputs = delivery.deliver(job, state.task, state.made)
    state.blocks.clear()
    state.made = ()


def _lift(job: Job, state: State) -> None:
    assert job.fold is not None
    fold = job.stage_of(_loaded(job.fold))
    made = job.becoming[state.task.whole].main
    state.blocks[0] = _trimmed(job, state.task, made, state.blocks[0])
    params = job.fold.params
    if job.fold_depth > 0:
        params = {name: value for name, value in params.items() if name in fold.takes}
    more = {}
    if fold.prior is not None:
        more["prior"] = job.prior
    with span("compute"):
        state.value = _call(fold.lift, params, job, state, **more)
    state.blocks.clear()
    state.made = ()


@dataclass(frozen=True, slots=True, eq=False)
class StageMerge:
    """The merge of a stage's fold, loaded where it is called: a function of a user's file has no
    importable name.
    """

    job: Job

    def __call__(self, a: Any, b: Any) -> Any:
        fold = self.job.load_fold()
        assert fold is not None
        return fold.merge(a, b)


def merge_of(job: Job) -> StageMerge | None:
    """How values of this stage's tasks become one; None for a stage that reduces nothing."""
    if job.fold is None:
        return None
    return StageMerge(job)


def conclude(fold: Fold, partials: Iterable[Partial]) -> Any:
    """The result of a fold, by the user's own functions. Raises RunStopped when one of them
    fails.
    """
    try:
        value = merge_partials(partials, fold.merge).value
        if fold.finish is None:
            return value
        return fold.finish(value)
    except Exception as error:
        place = ""
        if frame := own_frame(error):
            place = f" at {frame.place}"
        stopped = RunStopped(
            f"all blocks are reduced, but the fold's merge or finish failed{place}:"
            f" {type(error).__name__}: {error}",
            "correct it, then run the same command with --resume and --accept-changed-function,"
            " which reduce no block again",
        )
        raise of_code(stopped) from error
