"""Plan: a pipeline compiled into stages of tasks, with what each reads, writes and needs at its
peak.

Flow: pipeline + options -> partition of every whole -> tasks -> checks -> Plan. Nothing is written
and no array data is read here.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyperslab import formats
from hyperslab.arrays import DType
from hyperslab.arrays.partition import Layout, Partition, Rule, cut
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.arrays.transfer import Transfer, best_limit, cut_transfer
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import FormatError, UsageError
from hyperslab.plan import description
from hyperslab.plan.costs import (
    input_dtype,
    output_dtype,
    output_shape,
    reading_cost,
    working_bytes,
)
from hyperslab.plan.pipeline import Fold, Pipeline, Reduce, Write
from hyperslab.plan.sinks import (
    block_name,
    header_kept,
    output,
    require_short,
    scaling_kept,
    transfer,
    units,
    written_nbytes,
)
from hyperslab.plan.task import Job, Output, Task, block_sink
from hyperslab.units import show_bytes, show_count

AUTO_LIMIT_NBYTES = 32 * 2**20
"""Largest block of the automatic partition: glibc serves larger arrays by mmap, whose pages are
cleared at each use.
"""
AUTO_FLOOR_NBYTES = 2**20
"Smallest block that is cut only to give every slot something to do."
LEAST_SHRINKAGE = 0.95
"Half as large automatic blocks that still take this share of the memory would not help."


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan may use."""

    memory_bytes: int
    "For all slots together."
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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything a run will do."""

    stages: tuple[Stage, ...]
    partitions: tuple[Partition, ...]
    "Of every whole."
    limit_nbytes: int
    "Bound of the automatic partition; a resumed run takes it over."
    fingerprint: str
    """Of all that decides the results but the sources and the code: parameters, partition, output;
    not of the engine.
    """
    code: str
    "SHA-256 of the functions' code, which a resumed run may be told to accept another of."
    summary: Mapping[str, Any]
    "What was asked for, in words, for people and for --resume."
    inputs: Mapping[str, SourceSet]

    @property
    def title(self) -> str:
        """What is done to what, in a few words."""
        named = [
            step["function"]
            for step in (*self.summary["steps"], self.summary["end"])
            if "function" in step
        ]
        done = [_called(name) for name in dict.fromkeys(named)]
        source = self.summary["sources"]["source"]
        more = f" and {source['files'] - 1} more" if source["files"] > 1 else ""
        return f"{' + '.join(done) or 'copy'} over {os.path.basename(source['first'])}{more}"

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
    def tasks(self) -> Iterator[Task]:
        return (task for stage in self.stages for task in stage.tasks)

    @property
    def bytes_read(self) -> int:
        return sum(task.bytes_read for task in self.tasks)

    @property
    def bytes_written(self) -> int:
        return sum(task.bytes_written for task in self.tasks)

    @property
    def bytes_peak(self) -> int:
        """Largest peak of any task."""
        return _peak(self.tasks)

    def html(self, more: Mapping[str, str] | None = None) -> str:
        """The plan as a fragment of HTML without scripts, with further rows in its table."""
        numbers = {
            "tasks": f"{sum(1 for _ in self.tasks):,} in {show_count(len(self.stages), 'stage')}",
            "reads": show_bytes(self.bytes_read),
            "writes": show_bytes(self.bytes_written) if self.bytes_written else "",
            "memory": f"{show_bytes(self.bytes_peak)} at most per task",
            "fingerprint": self.fingerprint[:12],
        }
        return description.to_html(
            self.title, self.summary, self.partitions, self.inputs, {**numbers, **(more or {})}
        )

    def _repr_html_(self) -> str:
        return self.html()


def _called(target: str) -> str:
    """A function's own name; a built-in goes by that of its module."""
    place, _, name = target.rpartition(":")
    built_in = place.removeprefix("hyperslab.workloads.")
    return name if built_in == place else built_in.replace("_", "-")


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
    _require_fixed_size(pipeline)
    _require_same_shapes(pipeline)
    job = _job(pipeline)
    limit = limit_nbytes or _auto_limit(pipeline, job, rule, budget)
    partitions, tasks = _cut(pipeline, job, rule, limit)
    while rule.kind == "auto" and limit_nbytes is None and (peak := _peak(tasks)) > budget.per_slot:
        smaller = _cut(pipeline, job, rule, limit // 2)
        if _peak(smaller[1]) > peak * LEAST_SHRINKAGE:
            break
        limit, (partitions, tasks) = limit // 2, smaller
    _require_elements(pipeline, tasks)
    _require_usable_names(job, tasks)
    _require_storable(pipeline, job, tasks)
    stages = tuple(_stages(pipeline, job, tasks))
    summary = description.summarise(pipeline, rule, partitions)
    fingerprint, code = (
        description.fingerprint(pipeline, summary),
        description.code_digest(pipeline),
    )
    return Plan(stages, partitions, limit, fingerprint, code, summary, pipeline.inputs)


def _cut(
    pipeline: Pipeline, job: Job, rule: Rule, limit: int
) -> tuple[tuple[Partition, ...], tuple[Task, ...]]:
    partitions = tuple(
        _partition(pipeline, job, i, rule, limit) for i in range(len(pipeline.source.wholes))
    )
    return partitions, tuple(_tasks(pipeline, job, partitions))


def preview(pipeline: Pipeline, rule: Rule, budget: Budget) -> tuple[Partition, ...]:
    """How every whole of a pipeline would be cut; the pipeline need not have an end."""
    limit = _auto_limit(pipeline, None, rule, budget)
    return tuple(
        _partition(pipeline, None, i, rule, limit) for i in range(len(pipeline.source.wholes))
    )


def _require_same_shapes(pipeline: Pipeline) -> None:
    primary = [whole.shape for whole in pipeline.source.wholes]
    for name, other in pipeline.inputs.items():
        shapes = [whole.shape for whole in other.wholes]
        if shapes != primary:
            _require_sound([*pipeline.source.sources, *other.sources])
            raise UsageError(
                f"the input '{name}' has shape {shapes[0]}, the source {primary[0]}: they must be"
                " the same"
            )


def _require_fixed_size(pipeline: Pipeline) -> None:
    for source in [source for inputs in pipeline.inputs.values() for source in inputs.sources]:
        if source.stored.hasobject:
            where = f"{source.url}::{source.name}"
            raise UsageError(
                f"{where}: its elements have no fixed size, so that the memory of a task cannot be"
                " planned; read it with hyperslab.open and make numbers of it"
            )


def _require_sound(sources: Sequence[ArraySource]) -> None:
    for source in sources:
        if source.broken:
            raise FormatError(source.broken)


def _auto_limit(pipeline: Pipeline, job: Job | None, rule: Rule, budget: Budget) -> int:
    """Bytes of a block that fit a slot's memory and leave every slot some work."""
    itemsize = sum(
        max(s.stored.itemsize for s in inputs.sources) for inputs in pipeline.inputs.values()
    )
    share = math.ceil(pipeline.source.size * itemsize / (2 * budget.slots))
    fits = int(budget.per_slot / _multiples(pipeline))
    most = max(1, min(fits, max(share, AUTO_FLOOR_NBYTES)))
    if _is_transfer(job, rule) and len(pipeline.source.wholes) == 1:
        assert job is not None
        assert job.output is not None
        return best_limit(_transfer(pipeline, job.output, 0, rule), AUTO_LIMIT_NBYTES, most)
    return min(AUTO_LIMIT_NBYTES, most)


def _multiples(pipeline: Pipeline) -> float:
    """Estimated memory of a task in multiples of its blocks; the task's own bytes_peak is exact
    about what we hold.
    """
    pads = 1 if any(pipeline.halo) else 0
    return 3 + pads + max([step.temporaries for step in pipeline.steps], default=1)


def _layout(pipeline: Pipeline, index: int) -> Layout:
    whole = pipeline.source.wholes[index]
    source = pipeline.source.first(whole)
    chunk, stored = None, source.chunk_shape if source.chunks is None else source.chunks.chunk_shape
    if stored and len(whole.members) == 1 and stored != source.stored_shape:
        by_axis = dict(zip(source.axes, stored, strict=True))
        chunk = tuple(min(by_axis[axis], extent) for axis, extent in enumerate(source.shape))
    itemsize = sum(dtype.itemsize for dtype in _dtypes(pipeline, index))
    return Layout(whole.shape, source.axes, itemsize, chunk, pipeline.halo)


def _dtypes(pipeline: Pipeline, index: int) -> list[DType]:
    return [input_dtype(pipeline, name, index) for name in pipeline.inputs]


def _partition(
    pipeline: Pipeline, job: Job | None, index: int, rule: Rule, limit: int
) -> Partition:
    out = job.output if job else None
    if _is_transfer(job, rule):
        assert out is not None
        return cut_transfer(_transfer(pipeline, out, index, rule), limit)
    return cut(_layout(pipeline, index), rule, limit, units(pipeline, out, index))


def _is_transfer(job: Job | None, rule: Rule) -> bool:
    """Whether blocks are cut for long runs of what is written, too: files that all tasks write
    to.
    """
    return (
        rule.kind == "auto"
        and job is not None
        and job.output is not None
        and bool(job.output.volumes)
    )


def _transfer(pipeline: Pipeline, out: Output, index: int, rule: Rule) -> Transfer:
    ndim = pipeline.source.ndim
    return transfer(pipeline, out, index, frozenset(axis % ndim for axis in rule.axes_whole))


def _job(pipeline: Pipeline) -> Job:
    sources = pipeline.source
    for name, inputs in pipeline.inputs.items():
        _require_one_scaling(name, inputs, pipeline)
    end = pipeline.end
    if isinstance(end, Reduce):
        output_dtype(pipeline)  # one for all that is merged, or a sentence
    return Job(
        inputs={name: inputs.sources for name, inputs in pipeline.inputs.items()},
        headers=tuple(header_kept(pipeline, index) for index in range(len(sources.wholes))),
        scalings=tuple(scaling_kept(pipeline, index) for index in range(len(sources.wholes))),
        values=pipeline.values,
        boundary=pipeline.boundary,
        halo=pipeline.halo,
        scale=pipeline.scale,
        steps=pipeline.steps,
        fold=end.ref if isinstance(end, Reduce) else None,
        output=output(pipeline, end) if isinstance(end, Write) else None,
    )


def _require_one_scaling(name: str, inputs: SourceSet, pipeline: Pipeline) -> None:
    for whole in inputs.wholes:
        sources = (inputs.sources[member.source] for member in whole.members)
        scalings = {
            (source.scaling, source.real if source.scaling else None, source.unscalable)
            for source in sources
        }
        if pipeline.values == "stored" and len(scalings) > 1:
            raise UsageError(
                f"the files of {name or 'the source'} have different slopes and intercepts, so the"
                " stored values mean different things: use --values real"
            )


def _tasks(pipeline: Pipeline, job: Job, partitions: Sequence[Partition]) -> Iterator[Task]:
    number, end = 0, pipeline.end
    suffix = ""
    if isinstance(end, Write) and end.keep == "blocks":
        suffix = formats.written()[end.format]
    for index, (whole, partition) in enumerate(
        zip(pipeline.source.wholes, partitions, strict=True)
    ):
        needs = functools.cache(
            functools.partial(_needs, pipeline, index, _dtypes(pipeline, index))
        )
        for core in partition:
            if core.size:
                name = (
                    block_name(whole.name, core, whole.shape, len(partition)) + suffix
                    if suffix
                    else ""
                )
                yield _task(pipeline, job, number, index, core, name, needs(core.count))
                number += 1


def _needs(
    pipeline: Pipeline, index: int, dtypes: Sequence[DType], count: tuple[int, ...]
) -> tuple[int, int]:
    """(bytes written, working memory) of a task whose block has this shape."""
    written = math.prod(output_shape(pipeline, count)) * output_dtype(pipeline, index).itemsize
    return written if isinstance(pipeline.end, Write) else 0, working_bytes(pipeline, count, dtypes)


def _task(
    pipeline: Pipeline,
    job: Job,
    number: int,
    index: int,
    core: Hyperslab,
    name: str,
    needs: tuple[int, int],
) -> Task:
    shape = pipeline.source.wholes[index].shape
    low = [min(h, first) for h, first in zip(job.halo, core.start, strict=True)]
    high = [
        min(h, e - a - n)
        for h, e, a, n in zip(job.halo, shape, core.start, core.count, strict=True)
    ]
    read = Hyperslab(
        tuple(a - b for a, b in zip(core.start, low, strict=True)),
        tuple(n + b + t for n, b, t in zip(core.count, low, high, strict=True)),
    )
    pad = tuple((h - b, h - t) for h, b, t in zip(job.halo, low, high, strict=True))
    reads = tuple(tuple(inputs.wholes[index].pieces(read)) for inputs in pipeline.inputs.values())
    nbytes, peak = reading_cost(job.inputs, reads, job.values)
    written, working = needs
    task = Task(number, index, core, pad, reads, name, nbytes, written, peak + working)
    if job.output is None or not any(sink.unit for sink, _ in job.output.volumes):
        return task
    padded = written_nbytes(job, task)
    windows = max(form_of(sink).window_nbytes for sink, _ in job.output.volumes)
    return replace(
        task, bytes_written=padded, bytes_peak=task.bytes_peak + padded - written + windows
    )


def _require_storable(pipeline: Pipeline, job: Job, tasks: Sequence[Task]) -> None:
    """Raise UsageError, before anything runs, for a dtype or a number of axes that the output
    format cannot hold.
    """
    seen: set[DType] = set()
    blocks = {
        task.whole: task for task in tasks if task.output
    }  # volumes have been checked already
    for task in blocks.values():
        dtype = output_dtype(pipeline, task.whole)
        if dtype not in seen:
            seen.add(dtype)
            block_sink(job, task, output_shape(pipeline, task.core.count), dtype)


def _require_elements(pipeline: Pipeline, tasks: Sequence[Task]) -> None:
    """Raise UsageError where nothing would be written, or not all that is expected."""
    if not tasks:
        raise UsageError("the sources hold no elements: there is nothing to run over")
    empty = next((whole for whole in pipeline.source.wholes if 0 in whole.shape), None)
    if empty is not None and isinstance(pipeline.end, Write):
        url = pipeline.source.first(empty).url
        raise UsageError(
            f"{url}: an array of shape {empty.shape} holds no elements, so nothing would be written"
            " of it: leave it out"
        )


def _require_usable_names(job: Job, tasks: Sequence[Task]) -> None:
    volumes = job.output.volumes if job.output else ()
    names = [task.output for task in tasks if task.output] + [
        os.path.basename(sink.path) for sink, _ in volumes
    ]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"two arrays or blocks would be written to {twice}: give the sources different names"
        )
    require_short(names)


def _stages(pipeline: Pipeline, job: Job, tasks: tuple[Task, ...]) -> Iterator[Stage]:
    """One stage, or one per fold where a fold wants another's result first."""
    fold: Fold | None = job.load_fold()
    depth = 0
    while fold is not None and fold.prior is not None:
        fold, depth = fold.prior, depth + 1
    for level in range(depth, -1, -1):
        first = (depth - level) * len(tasks)
        own = tuple(replace(task, id=task.id + first) for task in tasks) if first else tasks
        yield Stage("run" if level == 0 else f"prior {level}", replace(job, fold_depth=level), own)
