"""Facts: what an engine says of itself before it is loaded.

The table of engines is here. Whoever needs to know how an engine differs (help, doctor, admission,
provenance, the verdict) asks its facts; no module outside this folder compares an engine's name.
The engine of another package is an entry point of the group `hyperslab.engines`, whose name is the
engine's and whose object is its Facts.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from hyperslab.errors import UsageError, suggest
from hyperslab.machine.plugins import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "hyperslab.engines"
DEFAULT = "processes"
"Name of the engine that runs where the user names none."
Spread = Literal["none", "workers", "threads"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of itself. Raises ValueError for a place or a spread that is none."""

    place: str
    "Where its class is, as module:Class."
    spread: Spread = "workers"
    "What the processors of a machine become by default; none: there is one slot, always."
    in_caller: bool = False
    "Whether tasks run in the caller's process, whose peak of memory may be older than the run."
    process_per_slot: bool = False
    "Whether the slots of a worker are processes, each with an interpreter's lock of its own."
    is_light: bool = False
    "Whether handing out a task costs as little as anywhere."
    no_time_limit: str = ""
    "Why it cannot stop a task that takes too long, as a clause; empty: it can."
    requirement: str = ""
    "Argument of pip that installs what it needs; empty: the base install does."
    libraries: tuple[str, ...] = ()
    "Distributions whose versions belong to the provenance of its runs."
    optional: tuple[str, ...] = ()
    "Distributions that doctor looks for."
    is_soon_asked: bool = False
    "Whether it is loaded fast enough for doctor to ask it what it lacks, beside libraries."
    clusters: str = ""
    "Software whose clusters it connects to; empty: it connects to none."
    connects_to: str = ""
    "Address of a cluster that runs already, in words."
    starts_at_once_there: bool = False
    "Whether the workers of such a cluster wait for runs, which then need not start any."
    queue: str = ""
    "Batch system that starts workers for it, as --connect takes it, in words."
    world: str = ""
    """What --connect takes for processes that the user has started together, each with the same
    command; empty: nothing.
    """
    batch_system: str = ""
    "Batch system whose jobs run its tasks, on other machines; empty: none does."
    also_logs: str = ""
    "Who else writes to the log of what functions print, in words; '' for nobody."
    own_lines: str = ""
    "Regular expression of the beginning of what they write there when nothing is wrong."
    own_record: str = ""
    "Name of its own record of what it ran; empty: it keeps none."
    records_messages: bool = False
    "Whether it can keep the messages of its processes, or what its own record says of them."
    probes_links: bool = False
    "Whether the processes of a cluster can measure the links between them."
    gives_scratch: bool = False
    "Whether it gives each worker that it starts scratch of its own, on whatever host."
    spans_hosts: bool = False
    "Whether the workers that it starts without a batch system may be on several hosts."
    ahead: str = ""
    "Where a block is that has its first worker wait for a run, as module:name; empty: nowhere."
    deployment: str = ""
    "What runs where it connects to no cluster, as a noun phrase for reports; '': nothing to say."
    start_s: float = 2.0
    "Seconds that a run takes to start and end beside its tasks, on one host, for estimates."

    def __post_init__(self) -> None:
        module, _, word = self.place.partition(":")
        if not module or not word:
            raise ValueError(f"Facts.place is {self.place!r}: give module:Class")
        if self.spread not in get_args(Spread):
            raise ValueError(f"Facts.spread is {self.spread!r}: give one of {get_args(Spread)}")

    def recorded(self) -> dict[str, bool]:
        """What a reader of the run's trace needs to know."""
        return {
            "in_caller": self.in_caller,
            "process_per_slot": self.process_per_slot,
            "is_light": self.is_light,
            "has_one_slot": self.spread == "none",
            "starts_at_once_there": self.starts_at_once_there,
        }

    def takes_slots(self, connect: str) -> bool:
        """Whether --workers says how many slots there are, where --connect is given so; a cluster
        that runs already has its own.
        """
        return not connect or self._is_queue(connect)

    def _is_queue(self, connect: str) -> bool:
        """Whether --connect names the batch system that starts workers for it."""
        return bool(self.queue) and connect == self.queue.partition(",")[0]

    def has_scratch(self, connect: str) -> bool:
        """Whether each of its workers is given scratch of its own, with --connect given so."""
        return self.gives_scratch or self._is_queue(connect)


SERIAL = Facts(
    "hyperslab.engines.serial:Serial",
    spread="none",
    in_caller=True,
    is_light=True,
    no_time_limit="this process cannot stop its own function",
    deployment="one process, one task after the other",
)
THREADS = Facts(
    "hyperslab.engines.threads:Threads",
    spread="threads",
    in_caller=True,
    is_light=True,
    no_time_limit="a thread cannot be stopped from outside",
    deployment="threads of one process",
)
PROCESSES = Facts(
    "hyperslab.engines.pool.processes:Processes",
    is_light=True,
    deployment="a pool of worker processes on one host, which stay for the whole run",
    ahead="hyperslab.engines.pool.ahead:waiting",
)
DASK_BAG = Facts(
    "hyperslab.engines.dask.bag:DaskBag",
    no_time_limit="Dask cannot stop a function in a worker's thread",
    requirement="hyperslab[dask]",
    libraries=("dask", "distributed"),
    optional=("distributed", "dask-jobqueue"),
    clusters="Dask",
    connects_to="tcp://HOST:PORT, tls://HOST:PORT or a scheduler file of Dask",
    starts_at_once_there=True,
    queue="slurm, for Dask workers as Slurm jobs",
    own_record="Dask's task stream",
    records_messages=True,
    probes_links=True,
    deployment=(
        "a cluster of its own on one host (LocalCluster): a scheduler, and workers with their"
        " nannies, processes that stay for the whole run"
    ),
    start_s=4.0,
)
SPARK = Facts(
    "hyperslab.engines.spark.engine:Spark",
    process_per_slot=True,
    no_time_limit="Spark cannot stop one function of a worker",
    requirement="hyperslab[spark]",
    libraries=("pyspark",),
    optional=("pyspark",),
    clusters="Spark",
    connects_to="a Spark master",
    starts_at_once_there=True,
    also_logs="Spark",
    own_lines=(
        r"WARNING: |Using Spark's |Setting default log level |To adjust logging level "
        r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|WARN) "
    ),
    own_record="Spark's event log",
    records_messages=True,
    deployment=(
        "local[N] on one host, N its slots: driver and executor are one Java process with the"
        " memory of spark.driver.memory (1 GiB, unless spark-defaults.conf says otherwise), and"
        " each core has a Python process that is used again (spark.python.worker.reuse)"
    ),
    start_s=12.0,
)
SLURM = Facts(
    "hyperslab.engines.slurm.engine:Slurm",
    no_time_limit="a job of Slurm has one for all its tasks (--slurm-option time=...)",
    batch_system="Slurm",
    also_logs="Slurm",
    own_record="Slurm's times of its jobs",
    deployment="jobs of Slurm, each an interpreter of its own",
    gives_scratch=True,
    start_s=6.0,
)

GNU_PARALLEL = Facts(
    "hyperslab.engines.gnu_parallel.engine:GnuParallel",
    process_per_slot=True,
    no_time_limit="GNU Parallel cannot stop one task of a job",
    clusters="GNU Parallel",
    connects_to="ssh:HOST[,HOST...] for GNU Parallel",
    also_logs="GNU Parallel",
    own_record="GNU Parallel's joblog",
    gives_scratch=True,
    deployment="jobs on one host, each a process of its own",
    start_s=2.5,
)
MPI = Facts(
    "hyperslab.engines.mpi.engine:Mpi",
    no_time_limit="MPI ends all ranks with the one that is stopped",
    requirement="hyperslab[mpi]",
    libraries=("mpi4py",),
    optional=("mpi4py",),
    is_soon_asked=True,
    clusters="MPI",
    connects_to="world, where mpiexec has started this command",
    world="world",
    also_logs="mpiexec",
    own_lines=r"srun: (?:forcing job termination|Job step aborted: )",
    gives_scratch=True,
    spans_hosts=True,
    deployment="ranks on one host, which stay for the whole run",
)

ENGINES: dict[str, Facts] = {
    "serial": SERIAL,
    "threads": THREADS,
    "processes": PROCESSES,
    "dask-bag": DASK_BAG,
    "dask-delayed": replace(DASK_BAG, place="hyperslab.engines.dask.delayed:DaskDelayed"),
    "dask-futures": replace(DASK_BAG, place="hyperslab.engines.dask.futures:DaskFutures"),
    "spark": SPARK,
    "gnu-parallel": GNU_PARALLEL,
    "mpi": MPI,
    "slurm": SLURM,
}
"The engines of this package, in the order in which they are listed."


def _of_others() -> dict[str, EntryPoint]:
    """Engines of other packages that are installed, by name."""
    return _of_others_on(tuple(sys.path))


@functools.cache
def _of_others_on(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    found = {entry.name: entry for entry in entry_points(GROUP)}
    return {name: found[name] for name in sorted(found) if name not in ENGINES}


def engine_names() -> list[str]:
    """All engines, those of other packages last."""
    return [*ENGINES, *_of_others()]


def facts_of(name: str) -> Facts:
    """What the engine of this name says of itself. Raises UsageError when there is none."""
    if name in ENGINES:
        return ENGINES[name]
    others = _of_others()
    if name not in others:
        names = engine_names()
        raise UsageError(f"--engine {name}: choose one of {', '.join(names)}{suggest(name, names)}")
    return _loaded(others[name])


def _loaded(entry: EntryPoint) -> Facts:
    """The facts that a package brings. Raises UsageError for a package that has none."""
    try:
        found = entry.load()
    except Exception as error:  # whatever a package raises when it is imported
        raise unloadable(entry.name, error) from error
    if not isinstance(found, Facts):
        raise UsageError(
            f"--engine {entry.name}: {entry.value} is not a hyperslab.engines.facts.Facts; fix or"
            " remove its package"
        )
    return found


def unloadable(name: str, error: Exception) -> UsageError:
    """The error for an engine whose package fails to load."""
    why = str(error) or type(error).__name__
    return UsageError(f"--engine {name}: its package cannot be loaded: {why}")


def recorded(name: str) -> dict[str, bool]:
    """What a reader of a trace needs to know of an engine; empty for one that is not installed."""
    try:
        return facts_of(name).recorded()
    except UsageError:
        return {}


def connect_help() -> str:
    """What --connect takes, as a sentence."""
    known = _loadable().values()
    running = dict.fromkeys(facts.connects_to for facts in known if facts.connects_to)
    queues = dict.fromkeys(facts.queue for facts in known if facts.queue)
    return f"A running cluster: {', '.join(running)}; or {', '.join(queues)}."


def connecting() -> str:
    """The software whose clusters an engine connects to, as a list in words."""
    found = (facts.clusters for facts in _loadable().values() if facts.clusters)
    return " and ".join(dict.fromkeys(found))


def libraries() -> list[str]:
    """Distributions whose versions belong to the provenance of the runs of some engine."""
    found = (name for facts in _loadable().values() for name in facts.libraries)
    return list(dict.fromkeys(found))


def started_together(words: Collection[str]) -> list[str]:
    """The engines of which these words of a command line name a world, or themselves as one that
    has such: processes that the user has started together.
    """
    worlds = {name: facts.world for name, facts in _loadable().items() if facts.world}
    return [name for name, world in worlds.items() if name in words or world in words]


def require_jobs(engine: str, given: Mapping[str, object]) -> None:
    """Raise UsageError for flags about jobs of a batch system that were given a value, where an
    engine has no jobs.
    """
    flags = [flag for flag, value in given.items() if value]
    if flags and not facts_of(engine).batch_system:
        able = _flags(_able(lambda facts: facts.batch_system))
        raise UsageError(f"{flags[0]}: is for {able}, not for --engine {engine}")


def require_messages(engine: str) -> None:
    """Raise UsageError for an engine that cannot keep the messages of its processes."""
    if not facts_of(engine).records_messages:
        able = _flags(_able(lambda facts: facts.records_messages))
        raise UsageError(f"--record-messages: is for {able}, not for --engine {engine}")


def engine_of_links(named: str) -> str:
    """Name of the engine that probes links: the one that was named, the first that can where none
    was. Raises UsageError for one that cannot.
    """
    able = _able(lambda facts: facts.probes_links)
    if named == DEFAULT:
        return able[0]
    if not facts_of(named).probes_links:
        raise UsageError(f"--network: is for {_flags(able)}, not for --engine {named}")
    return named


def _able(asked: Callable[[Facts], object]) -> list[str]:
    """Names of the engines that can do what is asked of their facts."""
    return [name for name, facts in _loadable().items() if asked(facts)]


def _flags(names: Collection[str]) -> str:
    """Engines as words of the command line name them."""
    return " or ".join(f"--engine {name}" for name in names)


def _loadable() -> dict[str, Facts]:
    """The facts of all engines by name, but for those whose packages are broken."""
    found = {}
    for name in engine_names():
        with suppress(UsageError):
            found[name] = facts_of(name)
    return found
