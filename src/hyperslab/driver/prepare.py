"""Prepared: a plan with what it will run on, and everything that can be known without starting."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from hyperslab import engines
from hyperslab.arrays.partition import Rule
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.blocks.reading.gzipindex import is_one_gzip_stream
from hyperslab.driver import detached, resume, vacancy
from hyperslab.driver.admission import Machine, Needs, examine
from hyperslab.driver.committed import committed, discard_replaced, noted
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.lesson import Lesson, cut_axes, is_open
from hyperslab.driver.options import Options, chosen, spelled_out
from hyperslab.driver.products import Products
from hyperslab.driver.replaced import made, may_go
from hyperslab.driver.resume import Inherited
from hyperslab.driver.series import numbered_rule, with_whole_series
from hyperslab.driver.shared_pages import require_whole_pages
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import facts_of, recorded
from hyperslab.errors import OutputBusy, UsageError, in_callers_words, told_in_python
from hyperslab.machine.host import MEMORY_SHARE, WORKER_BASE_BYTES, Host
from hyperslab.plan.asked import surrounded
from hyperslab.plan.command import Execute
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Write
from hyperslab.plan.settings import Settings
from hyperslab.plan.written import texts
from hyperslab.storage.location import local_folder
from hyperslab.storage.zarr_names import require_replaceable
from hyperslab.units import show_bytes, show_count

LEAST_TASKS_SHARE = 0.1
"Share of the memory that tasks are given however many workers there are; it may then not fit."


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A plan with what it will run on: everything that can be known without starting."""

    plan: Plan
    needs: Needs
    host: Host
    workers: int
    threads: int
    directory: RunDirectory | None
    "Where the outputs and records go."
    done: frozenset[int]
    "Tasks that earlier submissions finished."
    inherited: tuple[Inherited, ...] = ()
    "The submissions that it continues."
    submissions: int = 0
    "How many there were in the directory."
    replaces: bool = False
    "Whether it starts over where others were, and replaces their outputs at its end."
    damaged: int = 0
    """Tasks that earlier submissions finished, but of which the machine has lost what they wrote:
    they are done again.
    """
    dependence: str = ""
    "Sentence that results depend on where blocks are cut; '' where nothing is known."
    untried: str = ""
    "Sentence that a function could not be tried, and why; '' where all could."
    failing: str = ""
    "Name of the function that failed on all made-up numbers; '' where none did."
    obstacle: str = ""
    "Why a run could not begin in the directory; '' where it can. Only dry runs get that far."
    notes: tuple[str, ...] = ()
    """What is to be said before it runs, a sentence each: which functions are too slow to be tried,
    what lies around the sources and does not go into the new files, and why tasks are repeated.
    """
    made_of: tuple[Pipeline, Options] | None = None
    "What was prepared, and with which options."
    hands_over: bool = False
    """Whether what it makes is handed over once all of it is there, to a store or into memory, and
    is no output before.
    """

    @property
    def warning(self) -> str:
        """What the functions may make wrong of their blocks; '' where nothing is known."""
        return self.dependence or self.untried

    def is_of(self, made_of: tuple[Pipeline, Options], out: object) -> bool:
        """Whether just this was prepared, for this directory."""
        return self.directory is not None and (made_of, out) == (self.made_of, self.directory.out)

    def __repr__(self) -> str:
        slots = f"{show_count(self.workers, 'worker')} x {show_count(self.threads, 'thread')}"
        tasks = show_count(self.needs.tasks, "task")
        return f"<hyperslab.Prepared: {self.plan.title}, {tasks} to do on {slots}>"

    def _repr_html_(self) -> str:
        slots = f"{show_count(self.workers, 'worker')} x {show_count(self.threads, 'thread')}"
        memory = f"{slots}, {show_bytes(self.needs.budget.memory_bytes)} for all tasks"
        done = ""
        if self.done:
            done = f"{show_count(len(self.done), 'task')} already"
        return self.plan.html({"done": done, "slots": memory})


def _require_able(pipeline: Pipeline, options: Options, slots: EngineOptions) -> None:
    """Raise UsageError for what the engine, or the end of a pipeline, cannot do, and for options
    that exclude each other.
    """
    engines.require(options.engine, slots)
    if isinstance(pipeline.end, Execute):
        _require_of_commands(options)
        return
    if options.work_tier:
        raise UsageError("--work-tier is for commands, and this is a function: leave it out")
    if options.keep_failed:
        raise UsageError("--keep-failed is for commands, and this is a function: leave it out")
    if options.overwrite and options.resume and options.verb == "run":
        raise UsageError(
            "--overwrite starts over, --resume does not: give one of them; --resume alone goes on"
            " with a run that was begun with --overwrite, and replaces what was there at its end"
        )
    if options.stage_out and not isinstance(pipeline.end, Write):
        raise UsageError(
            "--stage-out is for functions whose blocks are written, and this one reduces them to"
            " one value: leave it out"
        )


def _require_of_commands(options: Options) -> None:
    """Raise UsageError for what is asked of blocks, which commands have none of."""
    asked = {
        "--granularity stepwise": options.granularity == "stepwise",
        "--readers-per-device": options.readers_per_device is not None,
        "--stagger": bool(options.stagger),
        "--blocks, --block-shape, --partition and --axes-whole": options.rule != Rule(),
        "--overwrite": options.overwrite,
    }
    for flag, is_asked in asked.items():
        if is_asked:
            raise UsageError(f"{flag}: is for functions over blocks, and these are commands")


def _compiled(pipeline: Pipeline, rule: Rule, budget: Budget, limit_nbytes: int | None) -> Plan:
    if isinstance(pipeline.end, Execute):
        from hyperslab.plan.commanded import compile_commands

        return compile_commands(pipeline, pipeline.end)
    return compile_plan(pipeline, rule, budget, limit_nbytes)


@spelled_out
@told_in_python
def prepare(
    pipeline: Pipeline,
    options: Options | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    dry: bool = False,
    tell: Tell = unheard,
    call: RunDirectory | None = None,
    **settings: Unpack[Settings],
) -> Prepared:
    """Compile a plan and add up what it needs, without writing anything. `call` is the directory of
    a call, which is there already (`driver.calls`); `settings` are those of Options, as `run` takes
    them. A trial that takes long is told.

    Raises UsageError for what is asked for, then OutputBusy for a directory that a run cannot begin
    in; of a `dry` run that is said in `obstacle` instead.
    """
    options = chosen("prepare", options, settings)
    made_of = (pipeline, options)
    host = Host.here()
    workers, threads = slots_of(options, host)
    slots = _engine_options(options, workers, threads)
    _require_able(pipeline, options, slots)
    lesson = Lesson(pipeline)
    if options.trial:
        lesson = _learned(pipeline, options.rule, tell)
    pipeline = lesson.pipeline
    budget = Budget(_memory_bytes(options, host, slots), workers * threads)
    folder = None if out is None else Path(local_folder(out))
    left: tuple[str, ...] = ()
    if isinstance(pipeline.end, Write):
        folder = Path(pipeline.end.dest).absolute()
        pipeline, left = surrounded(pipeline, pipeline.end)
    directory = call or _directory(pipeline, folder)
    replaces = _starts_over(pipeline, options, directory, tell)
    if directory is not None and (replaces or directory.file):
        _require_elsewhere(pipeline, directory)
    earlier: list[dict[str, Any]] = []
    if directory is not None and not replaces:
        earlier = [plan for _, plan in directory.plans()]
    limit_nbytes = None
    if earlier and options.resume:
        limit_nbytes = earlier[-1]["limit_nbytes"]
    rule = with_whole_series(pipeline, options.rule)
    plan = _compiled(pipeline, rule, budget, limit_nbytes)
    obstacle = ""
    if directory is not None:
        obstacle = _obstacle(
            functools.partial(_require_usable, pipeline, directory, options, replaces, earlier), dry
        )
    if obstacle:
        earlier = []
    inherited: list[Inherited] = []
    done, damaged = set[int](), set[int]()
    if directory is not None and earlier:
        made(directory)  # or it refuses, before anything is done
        if not dry:
            discard_replaced(directory)
        inherited = resume.inherit(directory, plan, options.accept_changed_function, tell)
        done, damaged = done_earlier(directory, plan, inherited)
    if directory is not None and not obstacle:
        obstacle = _obstacle(functools.partial(_require_free_names, plan, directory, options), dry)
    require_whole_pages(plan, workers * threads)
    place = folder or Path(tempfile.gettempdir())
    needs = examine(plan, budget, workers, place, done, options.verb)
    needs = replace(needs, machine=_machine(options, host, workers))
    before = (frozenset(done), tuple(inherited), len(earlier), replaces, len(damaged))
    told = (_dependence(lesson, plan, rule.axes_whole), lesson.untried, lesson.failing, obstacle)
    notes = (*lesson.slow, *left, *resume.repeated(inherited, plan))
    return Prepared(plan, needs, host, workers, threads, directory, *before, *told, notes, made_of)


def _learned(pipeline: Pipeline, rule: Rule, tell: Tell) -> Lesson:
    """What a trial of its functions tells of a pipeline, where they do not say it themselves."""
    if not any(map(is_open, pipeline.steps)):
        return Lesson(pipeline)
    from hyperslab.driver.learning import learn

    rule = numbered_rule(pipeline, rule)
    uncut = with_whole_series(pipeline, rule).axes_whole
    return learn(pipeline, rule.axes_whole, uncut, tell)


def _dependence(lesson: Lesson, plan: Plan, axes_whole: Sequence[int]) -> str:
    """Sentence that results depend on where the plan cuts its blocks; '' where no trial has shown
    that.
    """
    axes = sorted(cut_axes(plan).intersection(lesson.dependent))
    if not axes:
        return ""
    names = " and ".join(step.ref.name for step in lesson.pipeline.steps)
    listed = ",".join(map(str, axes))
    whole = ",".join(map(str, sorted({*axes, *axes_whole})))
    noun = "axis" if len(axes) == 1 else "axes"
    return (
        f"what {names} makes depends on where blocks are cut along {noun} {listed}, as a trial on"
        f" a sample shows: --check-locality tells which --halo helps, --axes-whole {whole}"
        " does not cut there"
    )


def _directory(pipeline: Pipeline, folder: Path | None) -> RunDirectory | None:
    if folder is None:
        return None
    return RunDirectory(folder, _own_file(pipeline))


def asked(prepared: Prepared, options: Options) -> dict[str, Any]:
    """What the run was given, for who reads its trace."""
    return {
        "engine": options.engine,
        "warning": in_callers_words(prepared.warning),
        "workers": prepared.workers,
        "threads": prepared.threads,
        "cpus": prepared.host.cpus,
        "memory_nbytes": prepared.needs.budget.memory_bytes,
        "granularity": options.granularity,
        "connect": options.connect,
        "takes_slots": facts_of(options.engine).takes_slots(options.connect),
        **_cut(prepared),
        **_recorded(prepared, options),
    }


def _recorded(prepared: Prepared, options: Options) -> dict[str, bool]:
    """What the engine says of itself; commands are processes on every engine."""
    of_engine = recorded(options.engine)
    if prepared.plan.stages[0].job.commands is not None:
        return {**of_engine, "process_per_slot": True, "runs_commands": True}
    return of_engine


def _cut(prepared: Prepared) -> dict[str, Any]:
    """What was done to what, and in which blocks."""
    plan = prepared.plan
    partition = plan.summary["partition"]
    return {
        "title": plan.title,
        "rule": partition["rule"],
        "blocks": partition["blocks"],
        "arrays": len(plan.partitions),
        "most_blocks": plan.most_blocks,
        "times_inflated": plan.times_inflated,
        "inflates": any(map(is_one_gzip_stream, plan.inputs[PRIMARY].sources)),
    }


def _engine_options(options: Options, workers: int, threads: int) -> EngineOptions:
    """What an engine is asked whether it can do, before there is a directory."""
    return EngineOptions(
        Path(),
        workers,
        threads,
        options.task_timeout_s,
        memory_bytes=options.memory_bytes or 0,
        connect=options.connect,
        job_options=texts(options.slurm_option),
        scratch=options.scratch,
    )


def _memory_bytes(options: Options, host: Host, told: EngineOptions) -> int:
    """Memory for all tasks: as requested, or a share of what the workers leave available."""
    if options.memory_bytes:
        return options.memory_bytes
    if of_jobs := engines.memory_of_jobs(options.engine, told):
        return of_jobs
    share = host.memory_bytes * MEMORY_SHARE
    if facts_of(options.engine).in_caller or options.connect:
        return int(share)
    beside = share - told.workers * WORKER_BASE_BYTES
    return max(int(beside), int(share * LEAST_TASKS_SHARE))


def _machine(options: Options, host: Host, workers: int) -> Machine | None:
    """The machine that tasks run on; None where they run elsewhere."""
    if options.connect or facts_of(options.engine).batch_system:
        return None
    if facts_of(options.engine).in_caller:
        workers = 0
    return Machine(host.memory_bytes, workers * WORKER_BASE_BYTES)


def _obstacle(require: Callable[[], None], dry: bool) -> str:
    """What a check refuses: raised as it is, or as a text for a dry run."""
    try:
        require()
    except OutputBusy as busy:
        if not dry:
            raise
        return str(busy)
    return ""


def _own_file(pipeline: Pipeline) -> str:
    """The name of the file that keeps the records beside it, as it is the only one."""
    if isinstance(pipeline.end, Write):
        return pipeline.end.name
    return ""


def _require_elsewhere(pipeline: Pipeline, directory: RunDirectory) -> None:
    """Raise UsageError for a run that would replace what it reads, or has its name for a new
    file.
    """
    urls = [source.url for inputs in pipeline.inputs.values() for source in inputs.sources]
    vacancy.require_elsewhere(urls, str(directory.place))


def _require_free_names(plan: Plan, directory: RunDirectory, options: Options) -> None:
    """Raise OutputBusy for files that are there and no earlier submission of this run has made.

    If they may be overwritten, for directories that are more than a Zarr store.
    """
    output = plan.stages[-1].job.output
    if output is None:
        return
    if options.overwrite:
        for folder in (Path(sink.path) for sink, _ in output.volumes if os.path.isdir(sink.path)):
            require_replaceable(
                str(folder), [file.relative_to(folder).as_posix() for file in vacancy.files(folder)]
            )
        return
    own = set(committed(directory))
    if options.resume:
        own |= may_go(directory)
    before = noted(directory)
    has_begun = any(directory.submissions())
    for sink, _ in output.volumes:
        name = os.path.basename(sink.path)
        if os.path.lexists(sink.path) and name not in own:
            flag = "-o " if options.verb == "run" else ""
            is_ours = options.resume and options.verb == "run" and has_begun
            if name in before and not (directory.out / before[name].allocation).exists():
                is_ours = True
            raise OutputBusy(f"{flag}{sink.path} exists{_what_to_do(is_ours, options.verb)}")


def _what_to_do(was_made: bool, verb: str) -> str:
    """About a file in the place of one to be made, which no earlier submission has made as it
    is.
    """
    if not was_made:
        return ": give another name, or --overwrite to replace it at the end"
    remedy = "move it away, and --resume makes it again"
    if verb == "convert":
        remedy = f"{remedy}, or add --overwrite"
    return f" and is not the file that the run wrote: it was changed since; {remedy}"


def slots_of(options: Options, host: Host) -> tuple[int, int]:
    """(workers, threads) that options ask for, or that a cluster has. Raises UsageError."""
    if options.connect and (found := engines.capacity(options.engine, options.connect)):
        if options.workers or options.threads:
            raise UsageError(
                f"the cluster at {options.connect} sets --workers and --threads: leave them out"
            )
        return found
    workers = options.workers or options.throttle
    return engines.slots(options.engine, host, workers, options.threads)


def _starts_over(
    pipeline: Pipeline, options: Options, directory: RunDirectory | None, tell: Tell
) -> bool:
    """Whether a run takes the place of earlier ones: where that is asked for, and where what they
    have made is gone, which is told.
    """
    if options.resume:
        return False
    if options.overwrite:
        return True
    if not isinstance(pipeline.end, Write) or directory is None or not vacancy.is_gone(directory):
        return False
    tell(f"{directory.place} was made by an earlier run and is gone: it is made again")
    return True


def _require_usable(
    pipeline: Pipeline,
    directory: RunDirectory,
    options: Options,
    replaces: bool,
    earlier: Sequence[object],
) -> None:
    """Raise OutputBusy for a directory that another run is using, that holds earlier ones which are
    not meant to be resumed, or something else. A call has looked at all that when it began.
    """
    if directory.call:
        return
    if directory.is_owned():
        raise OutputBusy(
            f"{directory.place} is in use by another run: wait for it, or stop it with 'hyperslab"
            " cancel'"
        )
    detached.require_none(directory)
    if replaces:
        vacancy.require_replaceable(directory, options.verb)
        return
    if not earlier:
        if not _only_gathers(pipeline):
            vacancy.require_empty(directory, options.verb)
        return
    if options.resume:
        return
    raise vacancy.holds_earlier(directory, options.verb)


def _only_gathers(pipeline: Pipeline) -> bool:
    """Whether a run makes something of what is in its output directory, whoever has made that."""
    return isinstance(pipeline.end, Execute) and pipeline.end.only_gathers


def _resting(plan: Plan, done: set[int]) -> set[int]:
    """Tasks that are done, without those of later stages which are to rest on others now."""
    kept: set[int] = set()
    for stage in plan.stages:
        own = {task.id for task in stage.tasks}
        kept |= own & done
        if not own <= done:
            break
    return kept


def done_earlier(
    directory: RunDirectory, plan: Plan, inherited: Sequence[Inherited]
) -> tuple[set[int], set[int]]:
    """Tasks whose results are still there, and those whose results were, but are damaged.

    Results are in saved partials for folds, whose checksums are always compared; as files
    otherwise.
    """
    if plan.stages[0].job.fold is None:
        products = Products(directory, plan)
        done, damaged = products.done(resume.results(inherited), resume.doubtful(inherited))
        return _resting(plan, done), damaged
    partials = (
        p for stage in plan.stages for p in resume.partials(inherited, [t.id for t in stage.tasks])
    )
    return {i for p in partials for i in p.tasks}, set()
