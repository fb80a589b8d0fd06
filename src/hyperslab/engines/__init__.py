"""Engines by name; each is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.machine import Host
from hyperslab.pipeline import Fold
from hyperslab.span import Slot
from hyperslab.task import Outcome, StepFunction, Task

Running = Generator[Outcome | None, None, None]
"What an engine yields while it runs tasks; closing it early ends them."


class Engine(Protocol):
    """Something that runs tasks. A context manager; see hyperslab.testing.EngineTests for its contract."""

    name: str

    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def cancel(self) -> None: ...
    def slots(self) -> Sequence[Slot]: ...
    def run(self, tasks: Sequence[Task], steps: Sequence[StepFunction], fold: Fold | None) -> Running:
        """Apply the steps to every task, in any order and place.

        Results come home through the journal; the iterator yields an Outcome only for an attempt that could not record
        one itself, and None at least five times a second, so that the driver can look at the journal.
        """
        ...


ENGINES: dict[str, tuple[str, str, str]] = {
    "serial": ("serial", "Serial", ""),
    "threads": ("threads", "Threads", ""),
    "processes": ("processes", "Processes", ""),
}
"Name -> module, class, extra that installs what it needs ('': the base install does)."


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What every engine is told."""

    folder: Path
    "Of the submission: where slots keep their journals."
    workers: int
    threads: int = 1
    "Tasks at a time in one worker."
    task_timeout_s: float | None = None
    host: str = "localhost"
    slot_cpus: int = 1
    "Processors a slot may use: what BLAS and OpenMP are told."


def create(name: str, options: EngineOptions) -> Engine:
    """The engine of this name, not yet started. Raises UsageError for options that it cannot honour."""
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: choose one of {', '.join(ENGINES)}")
    module, cls, extra = ENGINES[name]
    try:
        found = getattr(importlib.import_module(f"hyperslab.engines.{module}"), cls)
    except ImportError as error:
        raise MissingExtra(f"--engine {name} needs {error.name}: pip install 'hyperslab[{extra}]'") from error
    engine: Engine = found(options)
    return engine


def default_workers(name: str, host: Host) -> tuple[int, int]:
    """(workers, threads) when the user names neither: every processor one slot."""
    return {"serial": (1, 1), "threads": (1, host.cpus)}.get(name, (host.cpus, 1))
