"""Tasks on ranks of MPI.

All tasks of a round lie in a file beside its orders. Ranks draw portions of them from a counter,
one after the other, and merge their tallies in a tree over messages; rank 0 keeps what comes of it.
The world outlives a round, and is started once for each run, unless the user has started it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from hyperslab.engines import Dismissal, EngineOptions, Running
from hyperslab.engines.batches import inflight
from hyperslab.engines.batches.engine import BatchEngine, Work
from hyperslab.engines.batches.tally import Tally
from hyperslab.engines.batches.workers import require_able
from hyperslab.engines.facts import MPI
from hyperslab.engines.mpi import joined, mpiexec, portions
from hyperslab.engines.mpi.near import RankDied
from hyperslab.engines.mpi.on_nodes import cluster_on
from hyperslab.engines.mpi.rank import Answer, Order
from hyperslab.engines.mpi.ranks import Ranks
from hyperslab.engines.nodes import NodeCluster, Nodes
from hyperslab.engines.scratched import why_none
from hyperslab.errors import RunStopped, UsageError
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import Slot

WORLD = MPI.world
"What --connect takes for a world that the user has started."
LIMIT_NBYTES = 2**28
"Size of the largest value that travels as a message, which is in memory three times then."


class World(Protocol):
    """The ranks, as the driver knows them."""

    def survey(self) -> Sequence[Mapping[str, Any]]:
        """What each rank has, once all of them are there. Raises RunStopped."""
        ...

    def order(self, order: Order) -> None: ...

    def answer(self, limit_s: float) -> Answer | None:
        """The next answer; None where none comes in time."""
        ...

    def require_alive(self) -> None:
        """Raise RunStopped when a rank has died."""
        ...

    def end(self) -> None:
        """Let all ranks go."""
        ...

    def kill(self) -> None:
        """End what still goes on."""
        ...


class Round:
    """A round that all ranks are at."""

    def __init__(self, world: World, place: str) -> None:
        self._world = world
        self._place = place
        self._answer: Answer | None = None

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds; True when all ranks have done."""
        answer = self._world.answer(limit_s)
        if answer is not None and answer["place"] == self._place:
            self._answer = answer
        return self._answer is not None

    def tallies(self) -> Iterator[Tally]:
        """None: rank 0 has kept what they came to. Raises RunStopped when ranks could not go on."""
        if self._answer is not None and self._answer["trouble"]:
            raise RunStopped(self._answer["trouble"])
        return iter(())

    def cancel(self) -> None:
        if self._answer is None:
            self._world.kill()


class Mpi(BatchEngine):
    """Runs tasks on ranks of MPI."""

    limit_nbytes = LIMIT_NBYTES

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise ImportError where mpi4py, UsageError where an MPI that fits it is missing."""
        import mpi4py  # noqa: F401

        if options.connect and options.scratch:
            raise UsageError(
                f"--scratch: the ranks of --connect {options.connect} run already, and each has to"
                " have it before MPI begins: give it to 'hyperslab run' in the command of mpiexec"
            )
        if options.connect == WORLD:
            joined.join()
        elif options.connect:
            raise UsageError(f"--connect {options.connect}: --engine mpi takes {WORLD} alone")
        else:
            mpiexec.require_usable()

    @staticmethod
    def join(connect: str) -> Dismissal | None:
        """Work in the world that the user has started, unless this process is its driver."""
        if connect != WORLD:
            return None
        joined.join()
        return joined.dismiss

    @staticmethod
    def is_first() -> bool:
        """Whether this is rank 0, or no rank of any world."""
        return mpiexec.own_rank() == 0

    @staticmethod
    def cluster_on(nodes: Nodes) -> NodeCluster:
        """Ranks on nodes, which the driver starts itself."""
        return cluster_on(nodes)

    @staticmethod
    def capacity(connect: str) -> tuple[int, int] | None:
        """(workers, 1) of the user's world."""
        if connect != WORLD:
            return None  # which `require` refuses
        return joined.workers(), 1

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._world: World | None = None

    def start(self) -> None:
        """Start a world, or find the user's, and make sure that its ranks can do the job. Raises
        RunStopped.
        """
        options = self.options
        if options.connect:
            self._world = joined.Joined(str(options.folder))
        else:
            self._world = Ranks(options)
        ranks = self._world.survey()
        _require_scratch(ranks)
        require_able(ranks, options.folder)
        elsewhere = [rank["host"] for rank in ranks if rank["host"] != options.host]
        if elsewhere or options.threads > 1:
            _require_threads(ranks)
        if elsewhere:
            self.serve_clock(elsewhere[0])
        self._slots = slots_of(ranks, options.threads)

    def leave(self) -> None:
        if self._world is not None:
            self._world.end()
        self._world = None

    def cut(self, tasks: Sequence[Task], name: str, steps: int) -> list[bytes]:
        """The tasks as portions."""
        return portions.cut(tasks, len(self._slots))

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        assert self._world is not None
        portions.write(portions.place_of(place), batches)
        self._world.order(Order("round", place, self.options.threads))
        return Round(self._world, place)

    def look(self) -> None:
        """Raise RunStopped when a rank has died."""
        assert self._world is not None
        self._world.require_alive()

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        """Run a round; where a rank dies, its task is reported before the run stops."""
        try:
            yield from super().run(tasks, steps, merge)
        except RankDied as death:
            pid = death.pid
            marks = self.options.folder / inflight.FOLDER
            for round_marks in sorted(marks.glob("*")):
                lives = functools.partial(_is_other, pid)
                yield from inflight.leftovers(round_marks, lives)
            raise


def _require_scratch(ranks: Sequence[Mapping[str, Any]]) -> None:
    """Raise RunStopped where a rank, or this process, was to have scratch and has none: all of them
    have begun, so that none waits for it.
    """
    for why in (why_none(), *(rank["no_scratch"] for rank in ranks)):
        if why:
            raise RunStopped(why)


def _require_threads(ranks: Sequence[Mapping[str, Any]]) -> None:
    """Raise RunStopped where an MPI lets one thread of a rank call it alone."""
    if not all(rank["takes_threads"] for rank in ranks):
        raise RunStopped(
            "this MPI was started without MPI_THREAD_MULTIPLE, which ranks of several threads or on"
            " several hosts need: leave MPI4PY_RC_THREAD_LEVEL unset, or take an MPI that has it"
        )


def _is_other(pid: int | None, slot: Slot) -> bool:
    """Whether a slot is known not to be of this process."""
    return pid is not None and slot.worker != pid


def slots_of(ranks: Sequence[Mapping[str, Any]], threads: int) -> list[Slot]:
    """The slots of ranks, which are numbered on each host."""
    met: Counter[str] = Counter()
    slots = []
    for rank in ranks:
        host = rank["host"]
        slots += [Slot(host, met[host], thread) for thread in range(threads)]
        met[host] += 1
    return slots
