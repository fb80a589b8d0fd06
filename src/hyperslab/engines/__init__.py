"""Engines by name; each is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from hyperslab.engines.facts import (
    ENGINES,
    connecting,
    engine_of_links,
    facts_of,
    started_together,
    unloadable,
)
from hyperslab.engines.jobs import JOBS_AT_A_TIME, JobsLeft, Queued, engine_of
from hyperslab.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from hyperslab.engines.nodes import NodeCluster, Nodes
    from hyperslab.machine.host import Host
    from hyperslab.machine.links import Effort, Network
    from hyperslab.plan.shipment import Shipment
    from hyperslab.plan.task import Merge, Outcome, StepFunction, Task
    from hyperslab.trace import OwnTime, Slot
    from hyperslab.traffic import Traffic

SCRATCH_LOGS = "scratch.*.log"
"""Files of a submission: what became of the scratch of its workers, a line each time. Each host has
one, as lines that several of them add to one file of a shared file system may be cut.
"""
Dismissal = Callable[[int], None]
"What ends the processes that were started together with this one, with its exit status."
Running: TypeAlias = "Generator[Outcome | None, None, None]"
"What an engine yields while it runs tasks; closing it early ends them."


class Managed:
    """An engine as a context manager."""

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise UsageError for options that the engine cannot honour, ImportError for libraries
        that are not installed; nothing is made yet.
        """

    @staticmethod
    def capacity(connect: str) -> tuple[int, int] | None:
        """(workers, threads) of the cluster at an address that --connect was given; None where it
        cannot be asked. Raises UsageError when nobody answers there.
        """
        return None

    @staticmethod
    def programs() -> Mapping[str, str]:
        """Programs that the engine starts, and their versions, for the provenance of its runs."""
        return {}

    @staticmethod
    def join(connect: str) -> Dismissal | None:
        """Where an address means processes that the user has started together, all of which run
        the same command: be a worker in all of them but one, and end there. That one is the driver,
        and is given how to let the others end, with its exit status.
        """
        return None

    @staticmethod
    def is_first() -> bool:
        """Whether this process is the one that speaks, of those that were started together."""
        return True

    @staticmethod
    def cluster_on(nodes: Nodes) -> NodeCluster | None:
        """How its cluster is started by commands on hosts; None for an engine without such."""
        return None

    @staticmethod
    def links(connect: str, effort: Effort, tell: Callable[[int, int], None]) -> Network:
        """Links of the cluster at an address, measured between its processes, by an engine whose
        facts say `probes_links`. `tell` is called with how many of how many measurements are done.
        Raises UsageError where nobody answers, RunStopped where nothing could be measured.
        """
        raise NotImplementedError

    @staticmethod
    def memory_of_jobs(options: EngineOptions) -> int | None:
        """Bytes that the jobs of a batch system leave for all tasks that run at a time; None where
        there are no jobs.
        """
        return None

    @staticmethod
    def jobs_left(folder: Path) -> JobsLeft | None:
        """Jobs of a submission that a batch system may still have; None for none."""
        return None

    @staticmethod
    def end_jobs(folder: Path) -> None:
        """Give back jobs that a submission has left, where the batch system can be asked."""

    def queued(self) -> Queued | None:
        """What the run has waited for in the queue of a batch system; None where there is none."""
        return None

    def traffic(self) -> Traffic | None:
        """Messages of the engine's processes, once it has stopped; None where they were not
        kept.
        """
        return None

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
    contract, and hyperslab.engines.facts for what is known of it before it is loaded.
    """

    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def cancel(self) -> None: ...
    def slots(self) -> Sequence[Slot]: ...
    def own_times(self) -> Sequence[OwnTime]:
        """What the engine itself has recorded of what it ran, for a comparison with the trace."""
        ...

    def queued(self) -> Queued | None: ...
    def traffic(self) -> Traffic | None: ...
    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        """Apply the steps to every task, in any order and place.

        Results come home through the journal; the iterator yields an Outcome only for an attempt
        that could not record one itself, and None at least five times a second, so that the driver
        can look at the journal.
        """
        ...


def _nothing_shipped() -> Shipment:
    from hyperslab.plan.shipment import Shipment

    return Shipment()


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options that every engine gets."""

    folder: Path
    "Folder of the submission, where slots keep their journals."
    workers: int
    threads: int = 1
    "Tasks at a time per worker."
    task_timeout_s: float | None = None
    host: str = "localhost"
    slot_cpus: int = 1
    "Processors a slot may use: the limit for BLAS and OpenMP."
    memory_bytes: int = 0
    "Memory for all slots together, as the user said; 0: not said."
    connect: str = ""
    "A cluster that runs already, instead of one of our own."
    most_tasks: int | None = None
    "Tasks of the largest stage, beyond which no slot will have work; None: not known."
    shipment: Shipment = field(default_factory=_nothing_shipped)
    "The user's code, for workers that do not see it."
    process_per_slot: bool = False
    "The engine's own fact of this name, as `create` fills it in."
    job_options: tuple[str, ...] = ()
    "Options of the batch system that jobs are submitted with, as NAME=VALUE."
    heartbeat: Path | None = None
    "A file that the driver writes again and again while it lives."
    last_job: tuple[str, ...] = ()
    "Command that goes on with the run once its jobs have ended; (): the driver waits for them."
    record_messages: bool = False
    "Whether messages are kept."
    scratch: str = ""
    """Where each worker makes scratch of its own, in words of --scratch that mean the same in every
    folder; '': nowhere.
    """


def require(name: str, options: EngineOptions) -> None:
    """Make sure that an engine can do what is asked, without making one. Raises UsageError for
    options that it cannot honour, MissingExtra for libraries that are not installed.
    """
    facts = facts_of(name)
    if options.task_timeout_s is not None and facts.no_time_limit:
        raise UsageError(f"--task-timeout needs --engine processes: {facts.no_time_limit}")
    with _loading(name):
        _class_of(name).require(options)


def create(name: str, options: EngineOptions) -> Engine:
    """The engine of this name, not yet started. Raises UsageError for options that it cannot
    honour.
    """
    require(name, options)
    told = replace(options, process_per_slot=facts_of(name).process_per_slot)
    with _loading(name):
        engine: Engine = _class_of(name)(told)
    return engine


def capacity(name: str, connect: str) -> tuple[int, int] | None:
    """(workers, threads) of a cluster that runs already; None when it is to be made, or cannot be
    asked before. Raises UsageError for an engine that connects to none.
    """
    facts = facts_of(name)
    if facts.batch_system and not facts.connects_to:
        raise UsageError(
            f"--connect {connect}: --engine {name} submits its jobs to {facts.batch_system} by"
            " itself: leave out --connect"
        )
    if not facts.connects_to:
        raise UsageError(f"--connect {connect} is for {connecting()}, not for --engine {name}")
    with _loading(name):
        found: tuple[int, int] | None = _class_of(name).capacity(connect)
    return found


def programs(name: str) -> Mapping[str, str]:
    """Programs that an engine starts, and their versions."""
    with _loading(name):
        found: Mapping[str, str] = _class_of(name).programs()
    return found


def join(name: str, connect: str) -> Dismissal | None:
    """Work for the driver if this process was started beside it, and end with it; returns in the
    driver alone, where there are others with how to let them end.
    """
    if not connect:
        return None
    with _loading(name):
        dismissal: Dismissal | None = _class_of(name).join(connect)
    return dismissal


def is_told_by_another(words: Collection[str]) -> bool:
    """Whether another process says what is wrong with a command line of these words: the first of
    several that the user has started together with this one.
    """
    for name in started_together(words):
        with suppress(ImportError, UsageError):  # one that cannot be loaded has started nothing
            if not _class_of(name).is_first():
                return True
    return False


def cluster_on(name: str, nodes: Nodes) -> NodeCluster:
    """How the cluster of an engine is started by commands on hosts. Raises UsageError for an engine
    that has none such.
    """
    with _loading(name):
        found: NodeCluster | None = _class_of(name).cluster_on(nodes)
    if found is None:
        raise UsageError(
            f"--netlab is for engines whose workers are started by a command, such as dask-futures,"
            f" not for --engine {name}"
        )
    return found


def links(name: str, connect: str, effort: Effort, tell: Callable[[int, int], None]) -> Network:
    """Links of the cluster at an address, measured between its processes. Raises UsageError where
    nobody answers there, and for an engine that cannot; RunStopped where none could be measured.
    """
    able = engine_of_links(name)
    with _loading(able):
        found: Network = _class_of(able).links(connect, effort, tell)
    return found


def default_workers(name: str, host: Host) -> tuple[int, int]:
    """(workers, threads) when the user names neither: every processor one slot, and JOBS_AT_A_TIME
    of a batch system.
    """
    spread = facts_of(name).spread
    if facts_of(name).batch_system:
        return JOBS_AT_A_TIME, 1
    if spread == "none":
        return 1, 1
    if spread == "threads":
        return 1, host.cpus
    return host.cpus, 1


def slots(name: str, host: Host, workers: int | None, threads: int | None) -> tuple[int, int]:
    """(workers, threads) as the user says, and by default where that is nothing."""
    usual, each = default_workers(name, host)
    if workers:
        return workers, threads or 1
    return usual, threads or each


def slot_cpus(host: Host, workers: int, threads: int) -> int:
    """Processors that each of so many slots may use."""
    return max(1, host.cpus // (workers * threads))


def ahead(name: str, cpus: int, example: str) -> AbstractContextManager[None]:
    """A block in which the first worker of an engine waits for its run, where the engine can start
    one before the tasks are known; `cpus` are those that each of its slots may use, `example` is
    a file of the kind that the run may read, '' where none is known.
    """
    place = facts_of(name).ahead
    if not place:
        return nullcontext()
    module, _, word = place.partition(":")
    waiting = getattr(importlib.import_module(module), word)
    found: AbstractContextManager[None] = waiting(cpus, example)
    return found


def memory_of_jobs(name: str, options: EngineOptions) -> int | None:
    """Bytes that the jobs of a batch system leave for all tasks that run at a time; None for an
    engine without jobs. Raises UsageError.
    """
    if not facts_of(name).batch_system:
        return None
    found: int | None = _class_of(name).memory_of_jobs(options)
    return found


def jobs_left(folder: Path) -> JobsLeft | None:
    """Jobs of a submission that a batch system may still have; None for none."""
    name = engine_of(folder)
    if name is None:
        return None
    found: JobsLeft | None = _class_of(name).jobs_left(folder)
    return found


def end_jobs(folder: Path) -> None:
    """Give back jobs that a submission has left, where their batch system can be asked."""
    name = engine_of(folder)
    if name is not None:
        _class_of(name).end_jobs(folder)


def _class_of(name: str) -> Any:
    place = facts_of(name).place
    module, _, word = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), word)
    except ImportError:
        raise  # perhaps a library that is missing, as `_loading` will say
    except Exception as error:  # whatever a package raises when it is imported
        if name in ENGINES:
            raise
        raise unloadable(name, error) from error
    if not isinstance(found, type) or not issubclass(found, Managed):
        raise unloadable(name, TypeError(f"{place} is not a hyperslab.engines.Managed"))
    return found


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Raise MissingExtra for an engine whose libraries are not installed, UsageError for one of
    another package that cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        requirement = facts_of(name).requirement
        missing = (error.name or "hyperslab").partition(".")[0]
        is_own_fault = missing == "hyperslab" or not requirement
        if is_own_fault and name in ENGINES:
            raise
        if is_own_fault:
            raise unloadable(name, error) from error
        raise MissingExtra(
            f"--engine {name} needs {error.name}: pip install '{requirement}'"
        ) from error
