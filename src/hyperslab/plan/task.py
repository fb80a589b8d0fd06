"""Task, Job and the steps that a slot runs: read -> map ... -> write or lift -> Outcome.

Contract, held by hyperslab.testing.EngineTests: a task is idempotent; its steps never raise (a
failure is data); every phase is timed by the code that spends the time; a step's result is what the
next step takes, so an engine may run the steps as one operator or each as its own.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Piece, Whole
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling, Values
from hyperslab.blocks import reading, writing
from hyperslab.blocks.whole import assemble
from hyperslab.blocks.writing import Written
from hyperslab.errors import BlockError, HyperslabError, Unavailable
from hyperslab.plan.function import FunctionRef
from hyperslab.plan.pipeline import PRIMARY, Boundary, Fold, Step
from hyperslab.redaction import redact
from hyperslab.trace import Phase, recording, span

Status = Literal["done", "failed", "lost", "timeout"]
PAD_MODES = {"reflect": "symmetric", "nearest": "edge", "constant": "constant"}


@dataclass(frozen=True, slots=True)
class Task:
    """One block's worth of work. Small: everything that tasks share is in the Job."""

    id: int
    whole: int
    "Index of the array it belongs to."
    core: Hyperslab
    "The block, in the whole, without halo."
    pad: tuple[tuple[int, int], ...]
    "Halo voxels per axis that lie beyond the array's edge and are made up by the boundary rule."
    reads: tuple[tuple[Piece, ...], ...]
    "Per input, the parts of the block with its halo, and which source holds them."
    output: str
    "Name of the file it writes, '' for none or for a region of a volume."
    bytes_read: int
    bytes_written: int
    bytes_peak: int
    "Upper bound of the memory it needs."
    attempt: int = 0


class Volume(NamedTuple):
    """A file that several tasks write to."""

    sink: ArraySink
    partial: str
    "Path of it while it is unfinished."


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """Where blocks go."""

    folder: str
    format: str
    encoding: Encoding = DEFAULT_ENCODING
    volumes: tuple[Volume, ...] = ()
    "Empty when every block is a file."
    wholes: tuple[Whole, ...] = ()
    "Per whole, the volumes that tile its result."


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What all tasks of a stage share. Sent to every worker once."""

    inputs: Mapping[str, tuple[ArraySource, ...]]
    headers: tuple[Header, ...]
    "Of every whole."
    scalings: tuple[Scaling | None, ...]
    "Of every whole: what a file of stored values must say to keep their meaning."
    values: Values
    boundary: Boundary
    halo: tuple[int, ...]
    scale: tuple[int, ...]
    steps: tuple[Step, ...]
    fold: FunctionRef | None = None
    fold_depth: int = 0
    "0: the fold itself; 1: its prior; 2: the prior's prior ..."
    prior: Any = None
    "Result of the stage before, handed to the fold as `prior`."
    output: Output | None = None

    def load_fold(self) -> Fold | None:
        """The fold of this stage."""
        fold: Fold | None = self.fold.load() if self.fold else None
        for _ in range(self.fold_depth):
            fold = fold.prior if fold else None
        return fold

    def label(self, task: Task) -> str:
        """Where a task's first input lies: path[region]."""
        pieces = task.reads[0]
        source = self.inputs[PRIMARY][pieces[0].source]
        name = f"{source.url}::{source.name}" if source.name else source.url
        if len(pieces) > 1:
            return f"{name} and {len(pieces) - 1} more, block {task.core}"
        return name if source.broken else f"{name}{pieces[0].slab}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed, in words, and where."""

    error: str
    "Name of the exception, or of what ended the worker."
    message: str
    where: str
    permanent: bool = False
    "True when another attempt cannot succeed."
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt at one task."""

    task: int
    attempt: int
    status: Status
    failure: Failure | None = None
    value: Any = None
    "What the fold's lift made of the block."
    outputs: tuple[Written, ...] = ()
    phases: tuple[Phase, ...] = ()
    slot: str = ""
    max_rss: int = 0
    "Peak resident memory of the worker so far, bytes."


@dataclass(slots=True)
class State:
    """What one step hands to the next."""

    task: Task
    blocks: list[Array] = field(default_factory=list)
    "One per input, the first being worked on."
    phases: list[Phase] = field(default_factory=list)
    failure: Failure | None = None
    value: Any = None
    outputs: tuple[Written, ...] = ()


StepFunction = Callable[[Any], Any]


def steps_of(job: Job, stepwise: bool) -> tuple[StepFunction, ...]:
    """The functions an engine applies in turn: Task -> ... -> Outcome; one of them all together
    unless stepwise.
    """
    last = _write if job.output else _lift
    maps = (functools.partial(_map, number=i) for i in range(len(job.steps)))
    chain: list[Callable[..., None]] = [_read, *maps, last]
    guarded: list[StepFunction] = [functools.partial(_guarded, job, step) for step in chain]
    if stepwise:
        return (_Chain((State, guarded[0])), *guarded[1:-1], _Chain((guarded[-1], _outcome)))
    return (_Chain((State, *guarded, _outcome)),)


@dataclass(frozen=True, slots=True)
class _Chain:
    steps: tuple[StepFunction, ...]

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


def _guarded(job: Job, step: Callable[[Job, State], None], state: State) -> State:
    """Run one step; what it raises becomes the state's failure. Only Ctrl-C passes through."""
    if state.failure is None:
        with recording() as phases:
            try:
                step(job, state)
            except BaseException as error:  # a failure is data, also sys.exit()
                if (
                    isinstance(error, KeyboardInterrupt)
                    and threading.current_thread() is threading.main_thread()
                ):
                    raise  # Ctrl-C; in any other thread it is the function's own
                state.failure = describe_failure(error, job.label(state.task))
        state.phases += phases
    return state


def _outcome(state: State) -> Outcome:
    status: Status = "failed" if state.failure else "done"
    return Outcome(
        state.task.id,
        state.task.attempt,
        status,
        state.failure,
        state.value,
        state.outputs,
        tuple(state.phases),
    )


def describe_failure(error: BaseException, where: str) -> Failure:
    """An exception as data, with the sentence that a user reads. Never raises."""
    name, said = type(error).__name__, _message(error)
    if isinstance(error, SystemExit):
        message = (
            f"the function called sys.exit({error.code!r}); let it return a block or raise an"
            " exception"
        )
    elif isinstance(error, MemoryError):
        message = (
            f"out of memory ({said}); use smaller blocks or fewer workers"
            if said
            else "out of memory"
        )
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    elif isinstance(error, HyperslabError):
        message = said
    else:
        message = f"{name}: {said}" if said else name
    text = "".join(traceback.format_exception(error))
    permanent = isinstance(error, HyperslabError) and not isinstance(error, Unavailable)
    return Failure(name, redact(message), where, permanent, redact(text))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    # a user's exception class that cannot even say what it is
    except Exception as another:  # noqa: BLE001
        return f"its message cannot be shown ({type(another).__name__})"


def _read(job: Job, state: State) -> None:
    task = state.task
    shape = tuple(
        n + 2 * h - low - high
        for n, h, (low, high) in zip(task.core.count, job.halo, task.pad, strict=True)
    )
    for sources, pieces in zip(job.inputs.values(), task.reads, strict=True):
        block = _assemble(sources, pieces, shape, job.values)
        if any(low or high for low, high in task.pad):
            block = np.pad(block, task.pad, mode=PAD_MODES[job.boundary])  # type: ignore[call-overload]
        state.blocks.append(block)


def _assemble(
    sources: Sequence[ArraySource], pieces: Sequence[Piece], shape: tuple[int, ...], values: Values
) -> Array:
    """The block that the pieces make; one piece is the block itself and is not copied."""

    def read(piece: Piece, out: Array | None) -> Array:
        return reading.read(sources[piece.source], piece.slab, out, values)

    return assemble(pieces, shape, sources[pieces[0].source], values, read)


def _map(job: Job, state: State, number: int) -> None:
    step, block = job.steps[number], state.blocks[0]
    function = step.ref.load()
    with span("compute"):
        returned = _call(function, step.ref.params, job, state)
    if isinstance(returned, np.ma.MaskedArray):
        raise BlockError(
            f"{step.ref.name} returned a masked array, whose mask no file can keep: return"
            " .filled(value)"
        )
    result = np.asarray(returned)
    state.blocks[0] = _checked(result, block, job, number, state.task)


def _call(
    function: Callable[..., Any], params: Mapping[str, Any], job: Job, state: State, **more: Any
) -> Any:
    others = dict(zip(list(job.inputs)[1:], state.blocks[1:], strict=True))
    if _wants_slab(function):
        more["slab"] = state.task.core
    return function(state.blocks[0], **others, **params, **more)


def _wants_slab(function: Callable[..., Any]) -> bool:
    try:
        return "slab" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature has no such parameter
        return False


def _checked(result: Array, block: Array, job: Job, number: int, task: Task) -> Array:
    """The result in native byte order, if it is the block that the step promised. Raises
    BlockError.
    """
    step = job.steps[number]
    expected = np.dtype(step.dtype) if step.dtype else block.dtype
    if result.dtype.newbyteorder("=") != expected:
        raise BlockError(
            f"{step.ref.name} returned {result.dtype}, not {expected}: say --dtype {result.dtype}"
            " if that is meant, or convert the block before returning it"
        )
    shape = step.shape(block.shape)
    keeps_halo = step.scale or any(any(later.halo) for later in job.steps[number + 1 :])
    if result.shape not in (shape, shape if keeps_halo else task.core.count):
        raise BlockError(
            f"{step.ref.name} returned a block of shape {result.shape}, not {shape}: a mapped"
            " function keeps its block's shape; use a fold (hyperslab.Fold) for values of another"
            " shape"
        )
    return result.astype(expected, copy=False)


def _trimmed(job: Job, task: Task, block: Array) -> Array:
    """The block without its halo, unless the function has cut it off already."""
    if not any(job.halo) or block.shape == task.core.count:
        return block
    return block[tuple(slice(h, h + n) for h, n in zip(job.halo, task.core.count, strict=True))]


def _write(job: Job, state: State) -> None:
    output, task = job.output, state.task
    assert output is not None
    block = _trimmed(job, task, state.blocks[0])
    if output.volumes:
        written = [
            writing.write_region(
                *output.volumes[piece.source], piece.slab, block[piece.place.slices()]
            )
            for piece in output_pieces(job, task)
        ]
    else:
        written = [writing.write(block_sink(job, task, block.shape, block.dtype), block)]
    state.outputs = tuple(_within(output.folder, each) for each in written)
    state.blocks.clear()


def _within(folder: str, written: Written) -> Written:
    """The same write, named from the output directory on: that one may be copied or moved before a
    run goes on.
    """
    return replace(written, path=os.path.relpath(written.path, folder))


def output_pieces(job: Job, task: Task) -> list[Piece]:
    """The parts of a task's result, and the volume and region that each goes to."""
    assert job.output is not None
    start = tuple(a // s for a, s in zip(task.core.start, job.scale, strict=True))
    region = Hyperslab(
        start, tuple(math.ceil(n / s) for n, s in zip(task.core.count, job.scale, strict=True))
    )
    return list(job.output.wholes[task.whole].pieces(region))


def block_sink(job: Job, task: Task, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ArraySink:
    """The file of one block, with the header that keeps its voxels where they are in the whole."""
    output = job.output
    assert output is not None
    header = scaled_header(job.headers[task.whole].for_slab(task.core), job.scale)
    path = os.path.join(output.folder, task.output)
    describe = formats.module(formats.format_of_name(path)).sink
    return describe(path, shape, dtype, header, job.scalings[task.whole], output.encoding)


def scaled_header(header: Header, scale: Sequence[int]) -> Header:
    """The header after every `scale` voxels became one: its centre is the middle of theirs."""
    if all(s == 1 for s in scale):
        return header
    return header.moved([(s - 1) / 2 for s in scale], scale)


def _lift(job: Job, state: State) -> None:
    fold = job.load_fold()
    assert fold is not None
    assert job.fold is not None
    state.blocks[0] = _trimmed(job, state.task, state.blocks[0])
    more = {"prior": job.prior} if fold.prior is not None else {}
    with span("compute"):
        state.value = _call(
            fold.lift, job.fold.params if job.fold_depth == 0 else {}, job, state, **more
        )
    state.blocks.clear()


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
    return StageMerge(job) if job.fold else None


def retried(task: Task) -> Task:
    """The same task, one attempt later."""
    return replace(task, attempt=task.attempt + 1)


def with_prior(job: Job, prior: Any) -> Job:
    """The same job, knowing the result of the stage before."""
    return replace(job, prior=prior)
