"""Plans whose tasks are commands: each stands for an array of one element that nobody reads, whose
state is that of the command and of its inputs, so that a resumed run repeats what has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.arrays.partition import Partition
from hyperslab.arrays.sets import Member, Piece, SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.errors import UsageError
from hyperslab.formats import memory
from hyperslab.plan import contents
from hyperslab.plan.command import Commands, CommandTask, Execute
from hyperslab.plan.compile import Plan, Stage
from hyperslab.plan.contents import FileState
from hyperslab.plan.pipeline import PRIMARY, Pipeline
from hyperslab.plan.placeholders import files_below_out, require_known
from hyperslab.plan.task import Job, Task
from hyperslab.storage.replacement import FOLDER
from hyperslab.units import show_count

RULE = "one command each"
"Rule of the partition, as records have it."
_ONE = Hyperslab((0,), (1,))


def pipeline_of(end: Execute) -> Pipeline:
    """The pipeline of some commands. Raises UsageError for what cannot work."""
    _require_usable((*end.tasks, *end.then))
    sources = tuple(map(_source_of, end.tasks))
    wholes = []
    for number, (task, source) in enumerate(zip(end.tasks, sources, strict=True)):
        wholes.append(Whole(task.label, (1,), (Member(number, _ONE),), source.header))
    return Pipeline(SourceSet("independent", sources, tuple(wholes))).altered(end=end)


def compile_commands(pipeline: Pipeline, end: Execute) -> Plan:
    """The plan of a pipeline of commands."""
    sources = pipeline.source.sources
    tasks = [_task(number, task, sources[number]) for number, task in enumerate(end.tasks)]
    job = Job(
        inputs={PRIMARY: sources},
        becoming=(),
        values=pipeline.values,
        boundary=pipeline.boundary,
        halo=(0,),
        steps=(),
        commands=Commands(end.cwd, end.limit_s),
    )
    stages = [Stage("commands", job, tuple(tasks))]
    if end.then:
        first, last = end.levels
        later = [_later(number, task) for number, task in enumerate(end.then, len(tasks))]
        stages = [
            Stage(first, job, tuple(tasks), not end.despite_failures, end.between),
            Stage(last, job, tuple(later)),
        ]
    summary = _summary(pipeline, end)
    asked = {"command": end.template, "kind": "commands"}
    without_origin = _digest(asked)
    return Plan(
        stages=tuple(stages),
        partitions=(Partition(((0, 1),), (0,)),) * len(tasks),
        limit_nbytes=0,
        fingerprint=_digest(asked | _of_origin(end)),
        code="",
        earlier_fingerprint=without_origin,
        earlier_code="",
        summary=summary | _of_origin(end) | {"is_all": end.is_all},
        inputs=pipeline.inputs,
        most_blocks=len(tasks),
        name=end.title,
    )


def _digest(asked: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _of_origin(end: Execute) -> dict[str, str]:
    """What records say of the origin of all files; nothing where they have none."""
    if not end.origin:
        return {}
    return {"origin": end.origin}


def _task(number: int, command: CommandTask, source: ArraySource) -> Task:
    return Task(
        id=number,
        whole=number,
        core=_ONE,
        pad=((0, 0),),
        reads=((Piece(number, _ONE, _ONE),),),
        outputs=(),
        bytes_read=source.nbytes_stored,
        bytes_written=0,
        bytes_peak=0,
        command=command,
    )


def _later(number: int, command: CommandTask) -> Task:
    """A task that reads what others have made, of which nothing is known before."""
    return Task(
        id=number,
        whole=0,
        core=_ONE,
        pad=((0, 0),),
        reads=((Piece(0, _ONE, _ONE),),),
        outputs=(),
        bytes_read=0,
        bytes_written=0,
        bytes_peak=0,
        command=command,
    )


def _summary(pipeline: Pipeline, end: Execute) -> dict[str, Any]:
    sources = pipeline.source.sources
    described = {"kind": "commands", "files": len(sources), "first": sources[0].url, "shape": (1,)}
    return {
        "sources": {"source": described},
        "values": pipeline.values,
        "boundary": pipeline.boundary,
        "command": end.template,
        "steps": [],
        "end": {},
        "partition": {"rule": RULE, "blocks": len(sources), "largest": (1,)},
    }


def _source_of(task: CommandTask) -> ArraySource:
    """The array that stands for a command. Raises UsageError for inputs that are not there."""
    found = list(_states_of_inputs(task))
    place = next(iter(task.inputs), os.curdir)
    source = memory.open(np.zeros(1, np.uint8))
    return replace(
        source,
        url=os.path.abspath(place),
        nbytes_stored=sum(state.nbytes for state in found),
        version=contents.version(digest_of(task), found),
    )


def digest_of(task: CommandTask) -> str:
    """What differs between two commands, of which a run that is resumed repeats one."""
    words = [word for word in task.argv if word not in task.limits]
    parts: list[object] = [words, task.inputs, task.outputs]
    if task.made_of:
        parts.append(task.made_of)
    said = json.dumps(parts)
    return hashlib.sha256(said.encode()).hexdigest()


def _states_of_inputs(task: CommandTask) -> Iterator[FileState]:
    """The states of all inputs, up to the first that is gone where the task is kept; of a link
    that leads nowhere its own. Raises UsageError.
    """
    for path in task.inputs:
        try:
            yield from contents.states(path)
        except OSError as error:
            if task.is_kept:
                return
            if os.path.islink(path):  # its command fails, and those of others do not
                yield FileState(path, 0, os.lstat(path).st_mtime_ns)
                continue
            raise UsageError(
                f"{task.label}: the input {path} cannot be read: {error.strerror}"
            ) from error


def _require_usable(tasks: Sequence[CommandTask]) -> None:
    """Raise UsageError for commands that no run could carry out."""
    if not tasks:
        raise UsageError("there is no command to run")
    labels: set[str] = set()
    owners: dict[str, str] = {}
    for number, task in enumerate(tasks):
        if task.label in labels or not task.label:
            raise UsageError(f"two tasks are called {task.label!r}: give each a label of its own")
        labels.add(task.label)
        if not task.argv or not task.argv[0]:
            raise UsageError(f"{task.label}: the command is empty")
        words = (*task.argv, *task.after, *task.folders)
        require_known(words, len(task.inputs), task.label)
        for name in dict.fromkeys((*_declared(task), *_expected(number, task))):
            if name in owners:
                raise UsageError(
                    f"{owners[name]} and {task.label} would both write {name}: let"
                    " {name} or {index} stand in its name"
                )
            owners[name] = task.label


def _declared(task: CommandTask) -> Iterator[str]:
    for name in (*task.outputs, *task.expected):
        parts = name.split("/")
        if {"", ".", ".."}.intersection(parts) or parts[0] == FOLDER:
            raise UsageError(
                f"{task.label}: the output {name!r} is no name below the output directory"
            )
        yield name


def _expected(number: int, task: CommandTask) -> list[str]:
    return files_below_out(task.argv, {"name": task.label, "index": str(number)})


def require_programs(tasks: Sequence[CommandTask], cwd: str) -> None:
    """Raise UsageError for programs that are not on this machine."""
    for name in dict.fromkeys(task.argv[0] for task in tasks):
        if "{" in name:
            continue  # it is an input, or lies beside one
        found = shutil.which(name)
        if os.sep in name:
            found = shutil.which(Path(cwd, name))
        if found is None:
            count = show_count(sum(task.argv[0] == name for task in tasks), "task")
            raise UsageError(
                f"--command: {name} is not found, which {count} would run: install it, or give its"
                " path"
            )
