"""Task, Job and Outcome: what slots are given, and what they say of it. Records; `steps` acts on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.naming import IN_MEMORY
from hyperslab.arrays.sets import Piece, Whole
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.writing import Written
from hyperslab.pickling import pickled_by_position
from hyperslab.plan.alignment import Row
from hyperslab.plan.becoming import Becoming
from hyperslab.plan.command import Commands, CommandTask, Ran
from hyperslab.plan.failure import Failure
from hyperslab.plan.function import FunctionRef
from hyperslab.plan.pipeline import PRIMARY, Boundary, Fold, Step
from hyperslab.trace import Phase

if TYPE_CHECKING:
    from hyperslab.storage.staging.room import Room
    from hyperslab.storage.turns import Turns

Status = Literal["done", "failed", "lost", "timeout", "staged"]
"""What became of an attempt. staged: what it made is on a fast tier, or in a private folder, on the
way to its files, so that the task is not done.
"""
StepFunction = Callable[[Any], Any]
"Step of a task as slots apply it; see `hyperslab.plan.steps`."
Merge = Callable[[Any, Any], Any]
"Merge of a fold: two values become one."


def label_of(source: ArraySource) -> str:
    """What a source is called in messages: path::dataset."""
    if source.data is not None:
        return IN_MEMORY
    if not source.name:
        return source.url
    return f"{source.url}::{source.name}"


@pickled_by_position
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
    "Parts of the block with its halo for each input, and which source holds them."
    outputs: tuple[str, ...]
    "Names of the files it writes, one for each array; (): none, or regions of volumes."
    bytes_read: int
    bytes_written: int
    bytes_peak: int
    "Upper bound of the memory it needs."
    attempt: int = 0
    command: CommandTask | None = None
    "The command that it runs; None: the job's steps over its block."
    is_alone: bool = False
    "Whether no other command of the run that is tried again runs beside it on its host."

    @property
    def is_kept(self) -> bool:
        """Whether nobody has asked for it, and what its command has made stays."""
        return self.command is not None and self.command.is_kept


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
    encodings: tuple[Encoding, ...] = ()
    "Encodings of the blocks of each whole, where they differ; (): as `encoding` says."
    volumes: tuple[Volume, ...] = ()
    "Empty when every block is a file."
    wholes: tuple[tuple[Whole, ...], ...] = ()
    "Volumes that tile each array that a whole becomes, per whole."

    def encoding_of(self, whole: int) -> Encoding:
        """How the blocks of a whole are stored."""
        if not self.encodings:
            return self.encoding
        return self.encodings[whole]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What all tasks of a stage share. Sent to every worker once."""

    inputs: Mapping[str, tuple[ArraySource, ...]]
    becoming: tuple[Becoming, ...]
    "What every whole becomes."
    values: Values
    boundary: Boundary
    halo: tuple[int, ...]
    steps: tuple[Step, ...]
    fold: FunctionRef | None = None
    fold_depth: int = 0
    "0: the fold itself; 1: its prior; 2: the prior's prior ..."
    prior: Any = None
    "Result of the stage before, handed to the fold as `prior`."
    output: Output | None = None
    alignments: tuple[Row, ...] = ()
    "How further inputs lie beside each whole; () where all lie as it does."

    def alignment(self, whole: int) -> Row:
        """How each input lies beside a whole of the source, which lies as itself."""
        if not self.alignments:
            return (None,) * len(self.inputs)
        return (None, *self.alignments[whole])

    debug: bool = False
    "Whether tracebacks keep hyperslab's own frames."
    room: Room | None = None
    "Where on a fast tier blocks go that are flushed behind the tasks; None: to their files."
    turns: Turns | None = None
    "How reads take turns; None: they do not."
    devices: Mapping[str, str] = field(default_factory=dict)
    "Device of each file that is read in turns, by its path."
    commands: Commands | None = None
    "What all commands share, where the tasks are commands; None: they are blocks."

    def load_fold(self) -> Fold | None:
        """The fold of this stage."""
        if self.fold is None:
            return None
        return self.stage_of(self.fold.load())

    def stage_of(self, fold: Fold) -> Fold:
        """The fold of this stage, within the user's."""
        for _ in range(self.fold_depth):
            assert fold.prior is not None
            fold = fold.prior
        return fold

    def label(self, task: Task) -> str:
        """Where a task's first input lies: path[region]; of a command, its own label."""
        if task.command is not None:
            return task.command.label
        pieces = task.reads[0]
        source = self.inputs[PRIMARY][pieces[0].source]
        name = label_of(source)
        if len(pieces) > 1:
            return f"{name} and {len(pieces) - 1} more, block {task.core}"
        if source.broken:
            return name
        return f"{name}{pieces[0].slab}"


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
    "What it has written; of a staged one, its arrays on the fast tier."
    phases: tuple[Phase, ...] = ()
    slot: str = ""
    max_rss: int = 0
    "Peak resident memory of the worker so far, bytes."
    ran: Ran | None = None
    "How its command has ended; None where it is none, or could not be started."
    odd: int = 0
    """About how many of the values that its functions have made are NaN or infinite, where none of
    those that they were given seemed to be.
    """


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
    made: tuple[Array, ...] = ()
    "All arrays that the last step returned; (): none has, and the first block is what there is."
    is_staged: bool = False
    "Whether what it wrote is on the way to its files: on the fast tier, or in a private folder."
    ran: Ran | None = None
    stands_for: int = 0
    "Number of blocks for which this one is looked at, for NaN and infinite values; 0: it is not."
    odd: int = 0
    "About how many of the values that the functions of these blocks have made are."


def output_pieces(job: Job, task: Task) -> list[tuple[int, Piece]]:
    """The parts of what a task makes: the number of the array, and the volume and region that each
    goes to.
    """
    return pieces_of_block(job, task.whole, task.core)


def pieces_of_block(job: Job, index: int, core: Hyperslab) -> list[tuple[int, Piece]]:
    """The same of a block of a whole."""
    assert job.output is not None
    made = job.becoming[index].outputs
    tiles = job.output.wholes[index]
    return [
        (number, piece)
        for number, (array, whole) in enumerate(zip(made, tiles, strict=True))
        for piece in whole.pieces(array.region_of(core))
    ]


def retried(task: Task) -> Task:
    """The same task, one attempt later."""
    return replace(task, attempt=task.attempt + 1)


def with_prior(job: Job, prior: Any) -> Job:
    """The same job, knowing the result of the stage before."""
    return replace(job, prior=prior)
