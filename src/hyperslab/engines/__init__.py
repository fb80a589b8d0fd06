"""Engines by name; each is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.machine.host import Host
from hyperslab.plan.shipment import Shipment
from hyperslab.plan.task import Merge, Outcome, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

Running = Generator[Outcome | None, None, None]
"What an engine yields while it runs tasks; closing it early ends them."


class Managed:
    """An engine as a context manager."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()


class Engine(Protocol):
    """Something that runs tasks. A context manager; see hyperslab.testing.EngineTests for its
    contract.
    """

    name: str
    own_record: str
    "What it calls its own record of what it ran; empty for none."

    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def cancel(self) -> None: ...
    def slots(self) -> Sequence[Slot]: ...
    def own_times(self) -> Sequence[OwnTime]:
        """What the engine itself has recorded of what it ran, for a comparison with the trace."""
        ...

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        """Apply the steps to every task, in any order and place.

        Results come home through the journal; the iterator yields an Outcome only for an attempt
        that could not record one itself, and None at least five times a second, so that the driver
        can look at the journal.
        """
        ...


ENGINES: dict[str, tuple[str, str, str]] = {
    "serial": ("serial", "Serial", ""),
    "threads": ("threads", "Threads", ""),
    "processes": ("pool.processes", "Processes", ""),
    "dask-bag": ("dask.bag", "DaskBag", "dask"),
    "dask-delayed": ("dask.delayed", "DaskDelayed", "dask"),
    "dask-futures": ("dask.futures", "DaskFutures", "dask"),
    "spark": ("spark.engine", "Spark", "spark"),
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
    memory_bytes: int = 0
    "For all slots together, as the user said; 0: not said."
    connect: str = ""
    "A cluster that runs already, instead of one of our own."
    shipment: Shipment = field(default_factory=Shipment)
    "The user's code, for workers that do not see it."


def create(name: str, options: EngineOptions) -> Engine:
    """The engine of this name, not yet started. Raises UsageError for options that it cannot
    honour.
    """
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: choose one of {', '.join(ENGINES)}")
    module, cls, extra = ENGINES[name]
    try:
        found = getattr(importlib.import_module(f"hyperslab.engines.{module}"), cls)
    except ImportError as error:
        if (error.name or "hyperslab").startswith("hyperslab"):
            raise  # our own fault, not a missing extra
        raise MissingExtra(
            f"--engine {name} needs {error.name}: pip install 'hyperslab[{extra}]'"
        ) from error
    engine: Engine = found(options)
    return engine


def capacity(name: str, connect: str) -> tuple[int, int] | None:
    """(workers, threads) of a cluster that runs already; None when it is to be made, or cannot be
    asked before.
    """
    if not name.startswith(("dask", "spark")):
        raise UsageError(f"--connect {connect}: is for Dask and Spark, not for --engine {name}")
    if connect.startswith("spark://"):
        importlib.import_module("hyperslab.engines.spark.session").require_master(connect)
    if name == "spark" or connect == "slurm":
        return None
    found: tuple[int, int] = importlib.import_module("hyperslab.engines.dask.client").capacity(
        connect
    )
    return found


def default_workers(name: str, host: Host) -> tuple[int, int]:
    """(workers, threads) when the user names neither: every processor one slot."""
    return {"serial": (1, 1), "threads": (1, host.cpus)}.get(name, (host.cpus, 1))
