"""Indexing: before the tasks of a run, each gzip file that several of them read is indexed once,
beside the records.

An index that an earlier submission has left is taken over if the file is still the same. A file
that turns out to be corrupt becomes a broken source: the tasks that read it fail with the reason,
the others go on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import FormatError, SourceChanged
from hyperslab.machine.host import Host
from hyperslab.plan.compile import Plan, Stage
from hyperslab.plan.costs import ReadingCosts
from hyperslab.plan.task import Task
from hyperslab.units import show_bytes, show_count

FOLDER = "gzip"
"Folder of the indexes, beside the submissions in OUT/.hyperslab."
TOLD_NBYTES = 100_000_000
"Files of fewer bytes together are indexed without a word: in less than a second."
_LEAST_TASKS = 2

Key = tuple[str, int, int]
"One state of one file: path, size, time."


def index_sources(
    plan: Plan,
    done: Collection[int],
    folder: Path,
    limit_nbytes: int,
    tell: Callable[[str], None],
    check: Callable[[], None],
) -> Plan:
    """The plan with indexes of the gzip files that two or more tasks not done yet read; their costs
    are then exact.

    A file that could be entered only with more memory than was planned, and than `limit_nbytes` per
    task, is left as it is. `tell` is given a line where indexing takes long, `check` is called now
    and then and may raise to stop it. Raises OSError where the indexes cannot be written.
    """
    wanted = {_key(source): source for source in _wanted(plan, done)}
    if not wanted:
        return plan
    known = {key: gzipindex.load_from(folder, source) for key, source in wanted.items()}
    missing = [wanted[key] for key, source in known.items() if source is None]
    nbytes = sum(source.file_size for source in missing)
    if nbytes > TOLD_NBYTES:
        tell(
            f"indexing {show_count(len(missing), 'gzip file')} of {show_bytes(nbytes)}, once for"
            " all tasks"
        )
    found = {key: source for key, source in known.items() if source is not None}
    found.update((_key(source), source) for source in _index_all(missing, folder, check))
    stages = [_over(stage, found) for stage in plan.stages]
    outgrown = {
        key
        for pair in zip(plan.stages, stages, strict=True)
        for key in _outgrown(*pair, limit_nbytes)
    }
    if outgrown:
        found = {key: source for key, source in found.items() if key not in outgrown}
        stages = [_over(stage, found) for stage in plan.stages]
    return replace(plan, stages=tuple(stages))


def _wanted(plan: Plan, done: Collection[int]) -> Iterator[ArraySource]:
    """The sources to index: those that enough tasks read."""
    readers: Counter[Key] = Counter()
    sources = {}
    for stage in plan.stages:
        inputs = list(stage.job.inputs.values())
        able = {
            (i, n)
            for i, found in enumerate(inputs)
            for n, s in enumerate(found)
            if gzipindex.can_be_indexed(s)
        }
        for task in stage.tasks if able else ():
            if task.id not in done:
                read = {
                    (i, piece.source) for i, pieces in enumerate(task.reads) for piece in pieces
                } & able
                keys = {_key(inputs[i][n]): inputs[i][n] for i, n in read}
                readers.update(keys.keys())
                sources.update(keys)
    return (source for key, source in sources.items() if readers[key] >= _LEAST_TASKS)


def _key(source: ArraySource) -> Key:
    return source.url, source.file_size, source.mtime_ns


def _index_all(
    sources: list[ArraySource], folder: Path, check: Callable[[], None]
) -> Iterator[ArraySource]:
    """Index files, as many at a time as there are processors; whatever goes wrong ends them all."""
    if not sources:
        return
    ended = threading.Event()

    def watch(_: int) -> None:
        check()
        if ended.is_set():
            raise InterruptedError("another file's index failed")

    with ThreadPoolExecutor(min(Host.here().cpus, len(sources))) as pool:
        waiting = [pool.submit(_index, source, folder, watch) for source in sources]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BaseException:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _index(source: ArraySource, folder: Path, watch: gzipindex.Watch) -> ArraySource:
    try:
        return gzipindex.index_in(folder, source, watch)
    except FormatError as error:
        return replace(source, broken=str(error))
    except SourceChanged:
        return source  # the tasks that read it say so, each for itself


def _over(stage: Stage, found: Mapping[Key, ArraySource]) -> Stage:
    """A stage whose tasks read the indexed sources, with what that costs."""
    inputs = {
        name: tuple(found.get(_key(source), source) for source in sources)
        for name, sources in stage.job.inputs.items()
    }
    job = replace(stage.job, inputs=inputs)
    changed = {
        (i, n)
        for i, sources in enumerate(inputs.values())
        for n, s in enumerate(sources)
        if s.gzip is not None
    }
    affected = [task for task in stage.tasks if _reads_any(task, changed)]
    reads = [task.reads for task in affected]
    before = ReadingCosts(stage.job.inputs, job.values).of(reads)
    after = ReadingCosts(inputs, job.values).of(reads)
    costs = zip(affected, before.held, after.held, after.nbytes, strict=True)
    costed = {
        task.id: replace(task, bytes_read=nbytes, bytes_peak=task.bytes_peak - held + now)
        for task, held, now, nbytes in costs
    }
    tasks = tuple(costed.get(task.id, task) for task in stage.tasks)
    return replace(stage, job=job, tasks=tasks)


def _reads_any(task: Task, changed: Collection[tuple[int, int]]) -> bool:
    """Whether a task reads any of these sources, by the numbers of an input and of its source."""
    return any(
        (i, piece.source) in changed for i, pieces in enumerate(task.reads) for piece in pieces
    )


def _outgrown(before: Stage, after: Stage, limit_nbytes: int) -> Iterator[Key]:
    """The sources of tasks that would need more memory than they were admitted with."""
    inputs = list(after.job.inputs.values())
    for planned, task in zip(before.tasks, after.tasks, strict=True):
        if task.bytes_peak > max(planned.bytes_peak, limit_nbytes):
            yield from (
                _key(inputs[i][piece.source])
                for i, pieces in enumerate(task.reads)
                for piece in pieces
            )
