"""Whole files: Spark's `binaryFiles` hands every image as a string of bytes to the first of three
maps, which load, change and save it.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hyperslab.arrays import Array
from hyperslab.formats.nifti.content import Content, decode, encode
from hyperslab.machine import clock
from hyperslab.machine.host import peak_rss_bytes
from hyperslab.plan.task import Outcome
from hyperslab.storage import renaming
from hyperslab.trace import Phase, Slot, recording, span

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(slots=True)
class Loaded:
    """An image on its way through the maps."""

    path: Path
    image: Content
    phases: list[Phase]


def garbage_s(context: SparkContext) -> float:
    """Time in which tasks have waited for Java to collect garbage, over all executors, as far as
    Spark has told it: of tasks that have ended.
    """
    java: Any = context._jsc  # noqa: SLF001  # as Spark's own Python code reaches it
    java.sc().listenerBus().waitUntilEmpty()
    executors = java.sc().statusStore().executorList(False)
    times = [int(executors.apply(number).totalGCTime()) for number in range(executors.size())]
    return sum(times) / 1000


Change = Callable[[Array], Array]
"What a map makes of the values of an image: their shape and dtype stay."


def map_images(
    context: SparkContext, images: Sequence[Path], out: Path, changes: Sequence[Change]
) -> list[Outcome]:
    """Save every image, changed by one after the other, under its name in `out`; task i is image
    i.
    """
    with _told_time(context) as driver:
        listed = ",".join(map(str, images))
        files = context.binaryFiles(listed, minPartitions=len(images))
        loaded = files.map(_load)
        changed = loaded.map(functools.partial(_change, changes=changes))
        saved = changed.map(functools.partial(_save, out=out, driver=driver)).collect()
    numbers = {path: number for number, path in enumerate(images)}
    return [replace(outcome, task=numbers[path]) for path, outcome in saved]


@contextmanager
def _told_time(context: SparkContext) -> Iterator[clock.Reference]:
    """The driver's clock, which workers of other hosts may ask for the time."""
    master = context.master or ""
    if master.startswith("local"):
        yield clock.reference(None)
        return
    host = urlsplit(master).hostname
    server = clock.serve_towards(host and str(host))
    if server is None:
        yield clock.reference(None)
        return
    with closing(server):
        yield clock.reference(server.address)


def _load(named: tuple[str, bytes]) -> Loaded:
    url, content = named
    path = Path(url2pathname(urlsplit(url).path))
    with recording() as phases, span("read") as meter:
        meter.nbytes = len(content)
        image = decode(path.name, content)
    return Loaded(path, image, phases)


def _change(loaded: Loaded, changes: Sequence[Change]) -> Loaded:
    values = loaded.image.values
    with recording() as phases:
        for change in changes:
            with span("compute"):
                values = change(values)
    image = loaded.image._replace(values=values)
    return Loaded(loaded.path, image, [*loaded.phases, *phases])


def _save(loaded: Loaded, out: Path, driver: clock.Reference) -> tuple[Path, Outcome]:
    with recording() as phases, span("write") as meter:
        content = encode(loaded.path.name, loaded.image)
        _write(out / loaded.path.name, content)
        meter.nbytes = len(content)
    here = _compared(driver)
    slot = Slot(here.host, os.getpid(), threading.get_native_id())
    outcome = Outcome(
        task=-1,
        attempt=_attempt(),
        status="done",
        phases=tuple(phase.shifted(here.offset_ns) for phase in (*loaded.phases, *phases)),
        slot=str(slot),
        max_rss=peak_rss_bytes(),
    )
    return loaded.path, outcome


def _write(final: Path, content: bytes) -> None:
    """Write all of a file or none; another attempt that has written it wrote the same."""
    begun = final.with_name(f".{final.name}.{os.getpid()}.part")
    begun.write_bytes(content)
    renaming.rename(begun, final, overwrite=True)


@functools.lru_cache(maxsize=1)
def _compared(driver: clock.Reference) -> clock.Clock:
    return clock.compare(driver)


def _attempt() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return task.attemptNumber()
