"""Plan: a pipeline compiled into stages of tasks, with what each reads, writes and needs at its
peak.

Flow: pipeline + options -> partition of every whole -> tasks -> checks -> Plan. Nothing is written
and no array data is read here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab.arrays import DType
from hyperslab.arrays.partition import Partition, Rule
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import UsageError
from hyperslab.plan import description
from hyperslab.plan.alignment import align
from hyperslab.plan.becoming import become, output_dtype, taken_of
from hyperslab.plan.blocktasks import BlockTasks
from hyperslab.plan.command import nothing
from hyperslab.plan.cutting import Cutting
from hyperslab.plan.function import CAST, FunctionRef, called
from hyperslab.plan.pipeline import Fold, Pipeline, Reduce, Write
from hyperslab.plan.sinks import (
    block_sink,
    cut_for,
    output,
    require_short,
)
from hyperslab.plan.task import Job, Output, Task
from hyperslab.units import show_bytes, show_count

LEAST_SHRINKAGE = 0.95
"Half as large automatic blocks that still take this share of the memory would not help."

_MODERATE_NBYTES = 2**30
"""Memory of a task up to which fewer blocks are worth it: what the kernel clears beyond costs more
than inflating a stream again.
"""
_WORTH = 1.25
"Smaller blocks are taken for reading up to this many times the least."


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan may use."""

    memory_bytes: int
    "Bytes for all slots together."
    slots: int

    @property
    def per_slot(self) -> int:
        return self.memory_bytes // self.slots


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Tasks that may run in any order; a stage begins when the one before has ended."""

    name: str
    job: Job
    tasks: tuple[Task, ...]
    is_vital: bool = True
    "Whether no further stage begins where tasks of this one have failed."
    conclude: Callable[[], None] = nothing
    "What the driver does between this stage and the next one."


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything a run will do."""

    stages: tuple[Stage, ...]
    partitions: tuple[Partition, ...]
    "Partition of every whole."
    limit_nbytes: int
    "Bound of the automatic partition; a resumed run takes it over."
    fingerprint: str
    """Digest of all that decides the results but the sources and the code: parameters, partition,
    output; not of the engine.
    """
    code: str
    "SHA-256 of the functions' code, which a resumed run may be told to accept another of."
    earlier_fingerprint: str
    earlier_code: str
    "Digests that an earlier version of the package knew the same job and code by."
    summary: Mapping[str, Any]
    "What was asked for, in words, for people and for --resume."
    inputs: Mapping[str, SourceSet]
    most_blocks: int
    "How many blocks the arrays could be cut into."
    note: str = ""
    "Why the blocks are not as many, or as large, as was asked for; '' where they are."
    name: str = ""
    "What it is called; '': after its functions and sources."

    def __repr__(self) -> str:
        tasks = sum(len(stage.tasks) for stage in self.stages)
        return f"<hyperslab.Plan: {self.title}, {show_count(tasks, 'task')}>"

    @property
    def title(self) -> str:
        """What is done to what, in a few words."""
        if self.name:
            return self.name
        named = [
            step["function"]
            for step in (*self.summary["steps"], self.summary["end"])
            if step.get("function", CAST) != CAST
        ]
        done = [called(name) for name in dict.fromkeys(named)]
        source = self.summary["sources"]["source"]
        what = "converting"
        if done:
            what = f"{' + '.join(done)} over"
        first = os.path.basename(source["first"])
        if source["files"] == 1:
            return f"{what} {first}"
        return f"{what} {first} and {source['files'] - 1} more"

    def record(self) -> dict[str, Any]:
        """The plan as plain JSON values: what a run directory keeps."""
        values = {
            "version": 1,
            "fingerprint": self.fingerprint,
            "code": self.code,
            "limit_nbytes": self.limit_nbytes,
            "summary": self.summary,
        }
        plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return plain

    @property
    def refs(self) -> list[FunctionRef]:
        """The functions that its tasks call, the fold last."""
        job = self.stages[0].job
        return [*(step.ref for step in job.steps), *filter(None, [job.fold])]

    @property
    def tasks(self) -> Iterator[Task]:
        return (task for stage in self.stages for task in stage.tasks)

    @property
    def bytes_read(self) -> int:
        return sum(task.bytes_read for task in self.tasks)

    @property
    def times_inflated(self) -> float:
        """How often tasks inflate the gzip streams among their inputs, about; 1 without any."""
        inputs = self.stages[0].job.inputs.values()
        sources = [source for sources in inputs for source in sources]
        if not any(map(gzipindex.is_one_gzip_stream, sources)):
            return 1.0
        read = sum(task.bytes_read for task in self.stages[0].tasks)
        return max(1.0, read / max(1, sum(source.nbytes_stored for source in sources)))

    @property
    def bytes_written(self) -> int:
        return sum(task.bytes_written for task in self.tasks)

    @property
    def bytes_peak(self) -> int:
        """Largest peak of any task."""
        return _peak(self.tasks)

    def html(self, more: Mapping[str, str] | None = None) -> str:
        """The plan as a fragment of HTML without scripts, with further rows in its table."""
        tasks = sum(1 for _ in self.tasks)
        stages = show_count(len(self.stages), "stage")
        writes = ""
        if self.bytes_written:
            writes = show_bytes(self.bytes_written)
        rows = {
            "tasks": f"{tasks:,} in {stages}",
            "reads": show_bytes(self.bytes_read),
            "writes": writes,
            "memory": f"{show_bytes(self.bytes_peak)} at most per task",
            "fingerprint": self.fingerprint[:12],
        }
        rows |= more or {}
        return description.to_html(self.title, self.summary, self.partitions, self.inputs, rows)

    def _repr_html_(self) -> str:
        return self.html()


def with_blocks_in(plan: Plan, folder: Path) -> Plan:
    """The same plan, which writes files of blocks to another folder."""
    output = plan.stages[-1].job.output
    if output is None or output.volumes:
        return plan
    moved = replace(output, folder=str(folder.absolute()))
    stages = [replace(stage, job=replace(stage.job, output=moved)) for stage in plan.stages]
    return replace(plan, stages=tuple(stages))


def _peak(tasks: Iterable[Task]) -> int:
    return max((task.bytes_peak for task in tasks), default=0)


def compile_plan(
    pipeline: Pipeline, rule: Rule, budget: Budget, limit_nbytes: int | None = None
) -> Plan:
    """Cut the arrays of a pipeline into tasks. Raises UsageError for what cannot work, before
    anything is written.

    `limit_nbytes` fixes the bound of the automatic partition, so that a resumed run cuts as the
    first one did.
    """
    if pipeline.end is None:
        raise UsageError("the pipeline has no end: call .write(directory) or .reduce(fold)")
    pipeline = pipeline.settled()
    _require_fixed_size(pipeline)
    _require_uncut(pipeline, rule)
    _require_region_fits(pipeline)
    job = _job(pipeline)
    blocks = BlockTasks(pipeline, job)
    cutting = Cutting.of(pipeline, job.becoming, job.output, rule)
    if limit_nbytes is None:
        limit, partitions = _cut(cutting, blocks, budget)
    else:
        limit = limit_nbytes
        partitions = cutting.partitions(limit)
    tasks = tuple(blocks.of(partitions))
    _require_elements(pipeline, tasks)
    _require_usable_names(job, tasks)
    _require_storable(job, tasks)
    summary = description.summarise(pipeline, rule, partitions)
    return Plan(
        stages=tuple(_stages(job, tasks)),
        partitions=partitions,
        limit_nbytes=limit,
        fingerprint=description.fingerprint(pipeline, summary),
        code=description.code_digest(pipeline),
        earlier_fingerprint=description.earlier_fingerprint(pipeline, summary),
        earlier_code=description.earlier_code_digest(pipeline),
        summary=summary,
        inputs=pipeline.inputs,
        most_blocks=cutting.most(),
        note=cutting.note(partitions),
    )


def _cut(cutting: Cutting, blocks: BlockTasks, budget: Budget) -> tuple[int, tuple[Partition, ...]]:
    """The bound of the blocks, and the blocks: automatic ones are halved while their tasks need
    more than the memory of a slot. Where none fit, they are those that need hardly more than
    smaller ones.
    """
    limit, partitions = cutting.few(cutting.auto_limit(budget.slots, budget.per_slot))
    if cutting.rule.kind != "auto":
        return limit, partitions
    peak = blocks.largest_peak(partitions)
    unfit: tuple[int, tuple[Partition, ...]] | None = None
    while peak > budget.per_slot:
        half, smaller = cutting.few(limit // 2)
        needed = blocks.largest_peak(smaller)
        if unfit is None and needed > peak * LEAST_SHRINKAGE:
            unfit = (limit, partitions)
        if unfit is not None and (needed >= peak or half >= limit):
            return _with_streams(cutting, blocks, budget, *unfit)
        limit, partitions, peak = half, smaller, needed
    return _with_streams(cutting, blocks, budget, limit, partitions)


def _with_streams(
    cutting: Cutting,
    blocks: BlockTasks,
    budget: Budget,
    limit: int,
    partitions: tuple[Partition, ...],
) -> tuple[int, tuple[Partition, ...]]:
    """Larger blocks where smaller ones would have every slot inflate the same gzip streams again,
    as those of a series do that keep its time axis whole: up to one for each slot, or each array,
    and moderate in memory.
    """
    most = min(budget.per_slot / 2, _MODERATE_NBYTES)
    fewest = max(budget.slots, len(partitions))
    tried = [(limit, partitions)]
    while (
        blocks.reads_streams
        and sum(map(len, partitions)) > fewest
        and limit < cutting.nbytes  # beyond which no block becomes larger
    ):
        limit *= 2
        partitions = cutting.partitions(limit)
        is_few = sum(map(len, partitions)) < budget.slots
        if is_few or blocks.largest_peak(partitions) > most:
            break
        tried.append((limit, partitions))
    if len(tried) == 1:
        return tried[0]
    costs = [blocks.slot_reads(cut, budget.slots) for _, cut in tried]
    good = (one for one, cost in zip(tried, costs, strict=True) if cost <= min(costs) * _WORTH)
    return next(good)


def _require_uncut(pipeline: Pipeline, rule: Rule) -> None:
    """Raise UsageError for blocks that a user has cut along an axis which a function drops."""
    if rule.kind not in ("blocks", "block-shape") or len(rule.value) != pipeline.source.ndim:
        return
    for axis in pipeline.dropped:
        if rule.kind == "blocks":
            is_cut = rule.value[axis] > 1
        else:
            taken = [taken_of(pipeline, whole) for whole in pipeline.source.wholes]
            is_cut = any(shape[axis] > rule.value[axis] for shape in taken)
        if is_cut:
            name = pipeline.steps[-1].ref.name
            raise UsageError(
                f"--{rule.kind} {','.join(map(str, rule.value))}: cuts axis {axis}, but {name}"
                " drops it, and needs all of it in every block: cut other axes"
            )


def _require_region_fits(pipeline: Pipeline) -> None:
    """Raise UsageError for a region of a pipeline that needs all of its arrays."""
    if pipeline.region is not None and any(n > 1 for n in pipeline.scale):
        asked = f"--region {pipeline.region.text}"
        raise UsageError(f"{asked} works only for functions that do not merge voxels")


def _require_fixed_size(pipeline: Pipeline) -> None:
    for source in [source for inputs in pipeline.inputs.values() for source in inputs.sources]:
        if source.stored.hasobject:
            where = f"{source.url}::{source.name}"
            raise UsageError(
                f"{where}: its elements have no fixed size, so the memory of a task cannot be"
                " planned;"
                " read it with hyperslab.open and convert it to numbers"
            )


def _job(pipeline: Pipeline) -> Job:
    for name, inputs in pipeline.inputs.items():
        _require_one_scaling(name, inputs, pipeline)
    alignments = align(pipeline)
    end = pipeline.end
    fold: FunctionRef | None = None
    if isinstance(end, Reduce):
        _require_one_array(pipeline)
        output_dtype(pipeline)  # one for all that is merged, or a sentence
        fold = end.ref
    becoming = become(pipeline)
    files: Output | None = None
    if isinstance(end, Write):
        files = output(pipeline.source, becoming, end)
        becoming = cut_for(becoming, files)
    return Job(
        inputs={name: inputs.sources for name, inputs in pipeline.inputs.items()},
        becoming=becoming,
        values=pipeline.values,
        boundary=pipeline.boundary,
        halo=pipeline.halo,
        steps=pipeline.steps,
        fold=fold,
        output=files,
        alignments=alignments,
    )


def _require_one_array(pipeline: Pipeline) -> None:
    """Raise UsageError where a fold would get several arrays."""
    names = [promise.name for promise in pipeline.returns]
    if len(names) > 1:
        raise UsageError(
            f"{pipeline.steps[-1].ref.name} returns {len(names)} arrays ({', '.join(names)}), but a"
            " fold reduces one: write them, and reduce one of the files"
        )


def _require_one_scaling(name: str, inputs: SourceSet, pipeline: Pipeline) -> None:
    if pipeline.values != "stored":
        return
    for whole in inputs.wholes:
        scalings = {_meaning(inputs.sources[member.source]) for member in whole.members}
        if len(scalings) > 1:
            raise UsageError(
                f"the files of {name or 'the source'} have different slopes and intercepts, so the"
                " stored values mean different things: use --values real"
            )


def _meaning(source: ArraySource) -> Hashable:
    """What makes real values of the stored ones."""
    if source.scaling is None:
        return source.unscalable
    return source.scaling, source.real, source.unscalable


def _require_storable(job: Job, tasks: Sequence[Task]) -> None:
    """Raise UsageError, before anything runs, for a dtype or a number of axes that the output
    format cannot hold.
    """
    seen: set[tuple[DType, str]] = set()
    # volumes have been checked already
    blocks = {task.whole: task for task in tasks if task.outputs}
    for task in blocks.values():
        for number, made in enumerate(job.becoming[task.whole].outputs):
            if (made.dtype, made.name) not in seen:
                seen.add((made.dtype, made.name))
                block_sink(job, task, number)


def _require_elements(pipeline: Pipeline, tasks: Sequence[Task]) -> None:
    """Raise UsageError where nothing would be written, or not all that is expected."""
    if not tasks:
        raise UsageError("the sources hold no elements: there is nothing to run over")
    empty = next((whole for whole in pipeline.source.wholes if 0 in whole.shape), None)
    if empty is not None and isinstance(pipeline.end, Write):
        url = pipeline.source.first(empty).url
        raise UsageError(
            f"{url}: an array of shape {empty.shape} holds no elements, so it would have no output:"
            " leave it out"
        )


def _require_usable_names(job: Job, tasks: Sequence[Task]) -> None:
    names = [name for task in tasks for name in task.outputs]
    if job.output is not None:
        alone = [sink.path for sink, _ in job.output.volumes if not sink.members]
        shared = {sink.path for sink, _ in job.output.volumes if sink.members}
        names += [os.path.basename(path) for path in (*alone, *shared)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"two arrays or blocks would be written to {twice}: give the sources different names"
        )
    require_short(names)


def _stages(job: Job, tasks: tuple[Task, ...]) -> Iterator[Stage]:
    """One stage, or one per fold where a fold wants another's result first."""
    fold: Fold | None = job.load_fold()
    depth = 0
    while fold is not None and fold.prior is not None:
        fold = fold.prior
        depth += 1
    for level in range(depth, -1, -1):
        first = (depth - level) * len(tasks)
        own = tasks
        if first:
            own = tuple(replace(task, id=task.id + first) for task in tasks)
        name = "run"
        if level:
            name = f"prior {level}"
        yield Stage(name, replace(job, fold_depth=level), own)
