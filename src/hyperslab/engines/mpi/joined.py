"""Joined: a world that the user has started, `mpiexec -n 9 hyperslab run ... --connect world`.

Rank 0 is the driver and does no tasks; the others work for it, print nothing, and end with its exit
status. They serve as many runs as the driver makes. When a rank dies, mpiexec ends all of them, the
driver among them: what it has done so far stays done. Where it does not, as srun, the driver stops
when it sees that a rank has died, and MPI ends the others; they end when they see that it has.
"""

from __future__ import annotations

import atexit
import faulthandler
import signal
import socket
import sys
import time
from dataclasses import astuple
from typing import Any

from threadpoolctl import threadpool_limits

from hyperslab.engines.environment import volunteer
from hyperslab.engines.mpi import messages, mpiexec
from hyperslab.engines.mpi.held import Watch
from hyperslab.engines.mpi.near import Ranks, death, gone
from hyperslab.engines.mpi.rank import Answer, Order, serve, surveying
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.host import Host

FIRST = 1
"Rank of the world that is the first of the workers."
POLL_S = 0.1
START_LIMIT_S = 120.0
"How long workers may be at a task of a run that was cancelled, before the next one gives up ..."
FAREWELL_S = 5.0
"... and when the driver ends."
_world: list[Any] = []
"The communicator of the world that this process drives."
_lost: list[int] = []
"Ranks of it that have died, without which the others hear nothing any more."
_watches: list[Watch] = []
"What watches the connections of its ranks, once these have been asked for them."


class FromWorld:
    """The driver, as the first of the workers knows it."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def order(self) -> Order:
        order: Order = messages.receive(self._world, 0, messages.ORDER)
        return order

    def answer(self, answer: Answer) -> None:
        messages.send(self._world, answer, 0, messages.ANSWER)


class Joined:
    """The world, seen from its driver."""

    def __init__(self, folder: str) -> None:
        join()
        self._folder = folder
        self._ranks: Ranks = ()

    def survey(self) -> Ranks:
        """What each rank has. Raises RunStopped while they are at a task of an earlier run, and
        after the death of one.
        """
        _require_whole()
        self._ranks = self._answer_to(surveying(self._folder))["ranks"]
        if not _watches:
            self._watch()
        return self._ranks

    def _watch(self) -> None:
        """Have every rank hold a connection to this process."""
        hosts = {rank["host"] for rank in self._ranks} - {socket.gethostname()}
        try:
            watch = Watch(min(hosts, default="localhost"))
        except OSError:  # nobody knows a way there
            return
        order = Order("hold", self._folder, invitation=astuple(watch.invitation))
        try:
            watch.await_ranks(sum(self._answer_to(order)["held"]))
        finally:
            watch.close()
        _watches.append(watch)

    def _answer_to(self, order: Order) -> Answer:
        """What all ranks say to an order. Raises RunStopped while they are at a task, and where one
        of them has died.
        """
        self.order(order)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            answer = self.answer(POLL_S)
            if answer is not None and answer["place"] == order.place:
                return answer
            _require_whole()
        raise RunStopped("the ranks of MPI are still at tasks of an earlier run")

    def order(self, order: Order) -> None:
        """Give all ranks an order."""
        messages.send(_world[0], order, FIRST, messages.ORDER)

    def answer(self, limit_s: float) -> Answer | None:
        """The next answer; None where none comes in time."""
        answer: Answer | None = messages.receive_within(_world[0], FIRST, messages.ANSWER, limit_s)
        return answer

    def require_alive(self) -> None:
        """Raise RankDied when a rank has died, and nobody has ended this process with it."""
        lost = gone(self._ranks)
        how = "has died"
        if not lost:
            lost = _cut_off()
            how = "has died, or is not reached any more"
        if lost:
            _lost.extend(lost)
            rank = self._ranks[lost[0]]
            rest = "and MPI cannot go on without it"
            raise death(f"rank {FIRST + lost[0]}", rank, f"{how}, {rest}")

    def end(self) -> None:
        """Leave the ranks to later runs of this process."""

    def kill(self) -> None:
        """Leave the ranks to themselves: they end the round at their next task."""


def _cut_off() -> list[int]:
    """Ranks whose connection has ended."""
    return [rank for watch in _watches for rank in watch.gone()]


def _require_whole() -> None:
    """Raise RunStopped where a rank has died before a run."""
    _lost.extend(_cut_off())
    if _lost:
        raise RunStopped("a rank of MPI has died in an earlier run: start the program again")


def join() -> None:
    """Drive the world that this process was started in, or work in it and end with it. Raises
    UsageError where there is none.
    """
    if _world:
        return
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size == 1:
        raise UsageError(_alone())
    comm = world.Split(min(world.rank, FIRST), world.rank)
    if world.rank:
        _work(world, comm)
    _world.append(world)
    atexit.register(_leave)


def workers() -> int:
    """How many ranks do tasks."""
    join()
    return int(_world[0].size) - FIRST


def dismiss(status: int) -> None:
    """Let the workers end with this exit status. Call it as the last thing: where one of them is
    still at a task, or has died, MPI ends all processes, this one too.
    """
    if not _world:
        return
    world = _world.pop()
    if _lost or not _have_left(world, status):
        sys.stdout.flush()
        world.Abort(status or 1)


def _have_left(world: Any, status: int) -> bool:
    """Tell the workers to end with this status; whether all of them do so in time."""
    messages.send(world, Order("end", status=status), FIRST, messages.ORDER)
    deadline = time.monotonic() + FAREWELL_S
    for rank in range(FIRST, world.size):
        left_s = max(0.0, deadline - time.monotonic())
        if messages.receive_within(world, rank, messages.FAREWELL, left_s) is None:
            return False
    return True


def _leave() -> None:
    """Let the workers end with a program that has not said how it ends."""
    dismiss(int(hasattr(sys, "last_value")))


def _alone() -> str:
    started = mpiexec.world_size()
    if started > 1:
        return (
            f"--connect world: mpiexec has started {started} ranks, but the library that mpi4py"
            " finds is of another MPI, and knows of one: use the mpiexec of that library, or name"
            " the library of this mpiexec in MPI4PY_LIBMPI"
        )
    started = mpiexec.step_size()
    if started > 1:
        return (
            f"--connect world: srun has started {started} ranks, but the library that mpi4py finds"
            " knows of one: give srun the --mpi=... of that library, such as --mpi=pmi2; 'srun"
            " --mpi=list' names those that there are"
        )
    return (
        "--connect world: this process is alone: start the command by mpiexec -n 9, where rank 0"
        " drives and eight others do the tasks"
    )


def _work(world: Any, comm: Any) -> None:
    """Serve until the driver ends, and end with its status."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    volunteer()
    here = comm.allgather(socket.gethostname()).count(socket.gethostname())
    threadpool_limits(max(1, Host.here().cpus // here))
    status = serve(comm, FromWorld(world))
    messages.send(world, world.rank, 0, messages.FAREWELL)
    sys.exit(status)
