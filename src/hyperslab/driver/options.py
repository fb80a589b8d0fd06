"""Options: how to run a pipeline, as flags and keywords say it."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, get_args

from hyperslab.arrays.axes import Axis
from hyperslab.arrays.partition import Rule
from hyperslab.engines.facts import DEFAULT, facts_of, require_jobs, require_messages
from hyperslab.errors import UsageError, suggest, told_in_python
from hyperslab.plan.command import OWN_SCRATCH
from hyperslab.plan.keywords import taken_by
from hyperslab.plan.settings import Granularity, Settings
from hyperslab.plan.written import parse_rule, parse_size, written, written_axes
from hyperslab.storage.location import local_folder
from hyperslab.storage.staging import area

P = ParamSpec("P")
R = TypeVar("R")

GRANULARITIES: tuple[str, ...] = get_args(Granularity)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a pipeline: where, with what, and what to do about failures.

    Named as the flags of `hyperslab run`, and written as there or as numbers: `blocks="3x3x3"` or
    `blocks=(3, 3, 3)`, `memory="1GB"` or `memory=10**9`. Raises UsageError for what no run can do.
    """

    engine: str = DEFAULT
    workers: int | None = None
    "Worker processes; None: every processor that this process may use."
    threads: int | None = None
    "Tasks at a time per worker."
    memory_bytes: int | None = None
    "Bytes for all slots together; None: a share of what is available."
    rule: Rule = field(default_factory=Rule)
    granularity: Granularity = "fused"
    retries: int = 1
    task_timeout_s: float | None = None
    fail_fast: bool | None = None
    "Whether the first failure ends the run; None: the first tasks do, when all fail alike."
    resume: bool = False
    overwrite: bool = False
    """Whether what earlier runs left in the output is replaced at the end; it stays until all that
    takes its place is there, too.
    """
    accept_changed_function: bool = False
    "True: what the function did before it was edited still counts for a resumed run."
    verb: Literal["run", "convert", "bids"] = "run"
    "The command, whose options the remedies name."
    connect: str = ""
    """A running cluster: tcp://HOST:PORT, tls://..., a scheduler file, spark://HOST:PORT,
    ssh:HOST,HOST, world; or slurm.
    """
    throttle: int | None = None
    "Jobs of a batch system that may run at a time, the same as `workers`."
    slurm_option: str | Sequence[str] = ()
    "What jobs of Slurm are submitted with: an option such as 'partition=short', or several."
    report: bool = True
    "Whether the page is written at the end; `hyperslab report` writes it at any time."
    live: bool = False
    "Whether a page on this machine shows the run while it goes on; standard error has its address."
    record_messages: bool = False
    "Whether messages of the engine's processes are kept: time, ends, operations and bytes."
    stage_in: str | os.PathLike[str] = ""
    "Directory on a fast tier to which inputs are copied ahead of the tasks; '': they are not."
    stage_out: str | os.PathLike[str] = ""
    """Directory on a fast tier to which blocks are written, and from where they go to their files
    behind the tasks; '': they do not.
    """
    work_tier: str | os.PathLike[str] = ""
    """Directory on a fast tier for the scratch directories of commands; '': they are on that of
    `stage_out` or `stage_in`, or beside the outputs.
    """
    scratch: str = ""
    """Where each worker, on whatever host, has scratch of its own for temporary files, on engines
    that may be on several hosts: auto, tmpfs, image:DIR or a directory, which may begin with a
    variable of each host; '': nowhere.
    """
    keep_failed: str | os.PathLike[str] = ""
    """Directory, the same on all hosts, that gets what commands leave which fail: what they have
    written, and their scratch directories; '': that is removed.
    """
    readers_per_device: int | None = None
    "Tasks of a host that may read from one device at a time; None: any number."
    stagger: float = 0.0
    "Seconds between the first reads of two slots."
    trial: bool = True
    "Whether functions are tried on made-up numbers, to learn what they return."
    debug: bool = False
    "Whether tracebacks of failures keep hyperslab's own frames."
    memory: InitVar[int | str | None] = None
    "Bytes for all slots together, or a size such as '8GB'."
    block_shape: InitVar[str | Sequence[int] | None] = None
    blocks: InitVar[str | int | Sequence[int] | None] = None
    "Number of blocks, or one per axis."
    partition: InitVar[str | None] = None
    "auto, chunks, slabs or bytes=SIZE."
    axes_whole: InitVar[Axis | Sequence[Axis] | None] = None
    "Axes that are never cut, by their numbers or names."
    task_timeout: InitVar[float | None] = None
    "Seconds after which a task's worker is stopped."

    @told_in_python
    def __post_init__(
        self,
        memory: int | str | None,
        block_shape: str | Sequence[int] | None,
        blocks: str | int | Sequence[int] | None,
        partition: str | None,
        axes_whole: Axis | Sequence[Axis] | None,
        task_timeout: float | None,
    ) -> None:
        facts_of(self.engine)
        if self.granularity not in GRANULARITIES:
            raise UsageError(
                f"--granularity {self.granularity}: choose one of {', '.join(GRANULARITIES)}"
            )
        if memory is not None:
            nbytes = parse_size("--memory", str(memory))
            object.__setattr__(self, "memory_bytes", nbytes)
        if task_timeout is not None:
            object.__setattr__(self, "task_timeout_s", task_timeout)
        asked = (
            written("--block-shape", block_shape),
            written("--blocks", blocks),
            partition,
            written_axes("--axes-whole", axes_whole),
        )
        if any(text is not None for text in asked):
            object.__setattr__(self, "rule", parse_rule(*asked))
        if self.accept_changed_function and not self.resume:
            raise UsageError("--accept-changed-function needs --resume")
        _require_numbers(self)
        _require_tiers(self)
        _require_kept(self)
        _require_scratch(self)
        require_jobs(
            self.engine, {"--throttle": self.throttle, "--slurm-option": self.slurm_option}
        )
        if self.record_messages:
            require_messages(self.engine)

    @property
    def is_elsewhere(self) -> bool:
        """Whether workers are not, or not all, on this host."""
        return bool(self.connect or facts_of(self.engine).batch_system)

    @property
    def work_of_nodes(self) -> str:
        """Where commands have their scratch directories on nodes that this host does not look
        after, in words of a shell; '': beside the outputs.
        """
        if self.scratch and not self.work_tier:
            return OWN_SCRATCH
        if not self.is_elsewhere:
            return ""
        return os.fspath(self.work_tier)


def chosen(verb: str, options: Options | None, settings: Settings) -> Options:
    """The options that a function was called with, as such or as settings. Raises TypeError for
    both, and for a setting that is none.
    """
    known = list(inspect.signature(Options).parameters)
    for name in settings:
        if name not in known:
            raise TypeError(f"{verb}() has no setting '{name}'{_meant(name, known)}")
    if options is None:
        return Options(**settings)
    if settings:
        listed = ", ".join(settings)
        raise TypeError(f"{verb}() has Options and also {listed}: say it in Options(...)")
    return options


def _meant(name: str, known: Sequence[str]) -> str:
    """Words that name the call that takes an option, or the setting that it is like."""
    if place := taken_by(name):
        return f": it belongs to {place}"
    return suggest(name, known)


def spelled_out(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose signature names every setting: for help() and notebooks, which do
    not look into a TypedDict.
    """
    signature = inspect.signature(function)
    options = inspect.signature(Options).parameters
    keywords = [
        options[name].replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name in Settings.__annotations__
    ]
    *own, _ = signature.parameters.values()
    told = signature.replace(parameters=[*own, *keywords])
    function.__signature__ = told  # type: ignore[attr-defined]
    return function


def _require_numbers(options: Options) -> None:
    """Raise UsageError for numbers that no run can do with."""
    slots = ("workers", "throttle", "threads")
    for flag, number in ((f"--{name}", getattr(options, name)) for name in slots):
        if number is not None and number < 1:
            raise UsageError(f"{flag} {number}: give 1 or more")
    if options.throttle is not None and options.workers is not None:
        raise UsageError("--throttle and --workers mean the same of jobs: give one of them")
    if options.memory_bytes is not None and options.memory_bytes < 1:
        raise UsageError("--memory: give a positive size such as 8GB")
    readers = options.readers_per_device
    if readers is not None and readers < 1:
        raise UsageError(f"--readers-per-device {readers}: give 1 or more")
    if options.stagger < 0 or not math.isfinite(options.stagger):
        raise UsageError(f"--stagger {options.stagger:g}: give a number of seconds, 0 or more")
    if options.retries < 0:
        raise UsageError(f"--retries {options.retries}: give 0 or more")
    if options.task_timeout_s is not None and options.task_timeout_s <= 0:
        raise UsageError(
            f"--task-timeout {options.task_timeout_s:g}: give a positive number of seconds"
        )


def _require_tiers(options: Options) -> None:
    """Raise UsageError for fast tiers that are none, or that not all workers would see; they become
    absolute paths. Scratch of workers elsewhere is what each of them finds under its path.
    """
    for name in ("stage_in", "stage_out", "work_tier"):
        tier = os.fspath(getattr(options, name))
        if not tier:
            continue
        flag = f"--{name.replace('_', '-')}"
        if name == "work_tier" and options.is_elsewhere:
            _require_path(flag, tier)
            continue
        folder = area.require_tier(flag, local_folder(tier), options.is_elsewhere)
        object.__setattr__(options, name, str(folder))


def _require_kept(options: Options) -> None:
    """Raise UsageError where nothing can be kept of what failed commands leave, as far as that is
    seen here; the path becomes absolute.
    """
    if not options.keep_failed:
        return
    folder = Path(options.keep_failed).absolute()
    object.__setattr__(options, "keep_failed", str(folder))
    there = next(place for place in (folder, *folder.parents) if place.exists())
    is_usable = there.is_dir() and os.access(there, os.W_OK)
    if not is_usable and not options.is_elsewhere:
        raise UsageError(f"--keep-failed {folder}: {there} is no folder that can be written to")


def _require_scratch(options: Options) -> None:
    """Raise UsageError where workers are not given scratch of their own; what it is to be becomes
    the same in every folder.
    """
    if not options.scratch:
        return
    if not facts_of(options.engine).has_scratch(options.connect):
        raise UsageError(_why_no_scratch(options))
    from hyperslab.storage.scratch.holding import wherever  # which few runs need

    object.__setattr__(options, "scratch", wherever(options.scratch))


def _why_no_scratch(options: Options) -> str:
    """Why workers have no scratch of their own, as a sentence with what to do."""
    if options.connect:
        return (
            "--scratch is for workers that the run starts, and somebody else has started those of"
            f" --connect {options.connect}: leave it out, and start them by 'hyperslab scratch exec"
            " --on DIR -- COMMAND'"
        )
    return (
        f"--scratch: --engine {options.engine} gives its workers none of their own: leave it out,"
        " or run in a block of hyperslab.scratch(), whose directory TMPDIR names"
    )


def _require_path(flag: str, tier: str) -> None:
    """Raise UsageError for what would be another folder on each node, or none."""
    if not tier.startswith(("/", "$")):
        raise UsageError(
            f"{flag} {tier}: give the path that scratch has on each node, such as /scratch or"
            " '$SLURM_TMPDIR'"
        )
