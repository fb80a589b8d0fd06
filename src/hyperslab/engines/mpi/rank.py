"""Rank: what runs in every process of a world that does tasks.

Rank 0 hears the driver's orders, passes them on and answers when all have obeyed: `survey`, what
each rank has; `hold`, a connection to the driver; `round`, all tasks of a round; `end`. In a world
of the driver's own the orders come as lines on standard input and the answers go out on standard
output, which every mpiexec carries between its caller and rank 0. What functions print goes to
standard error.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal, Protocol, TextIO

from hyperslab.engines import lifeline
from hyperslab.engines.batches import batch, survey
from hyperslab.engines.batches.orders import load_orders
from hyperslab.engines.batches.tally import Tally, keep, merge
from hyperslab.engines.environment import forget_memory_variables, volunteer
from hyperslab.engines.lifeline import Lifeline, end_with
from hyperslab.engines.mpi import held, messages
from hyperslab.engines.mpi.counter import Counter
from hyperslab.engines.mpi.held import Invitation
from hyperslab.engines.mpi.near import is_near
from hyperslab.engines.mpi.portions import Portions, place_of
from hyperslab.engines.scratched import why_none
from hyperslab.errors import HyperslabError
from hyperslab.plan.task import Task

MARK = "\x1ehyperslab "
"Begin of a line on rank 0's standard output that is an answer."
BEYOND = 2**62
"Number after that of every portion."
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """What the driver wants of all ranks."""

    kind: Literal["survey", "hold", "round", "end"]
    place: str = ""
    "Folder of the submission, or path of the round's orders."
    threads: int = 1
    "Tasks at a time in each rank."
    status: int = 0
    "Exit status of the ranks at the end."
    lifeline: Sequence[Any] = ()
    "Fields of the driver's lifeline, by which ranks say whether it knows them by their numbers."
    invitation: Sequence[Any] = ()
    "Fields of the invitation to hold a connection to the driver."

    def line(self) -> str:
        """Write it as one line of text."""
        return json.dumps(asdict(self)) + "\n"


def surveying(folder: str | os.PathLike[str]) -> Order:
    """An order to say what each rank has for a submission of this process."""
    return Order("survey", os.fspath(folder), lifeline=astuple(lifeline.own()))


@dataclass(frozen=True, slots=True)
class Brought:
    """What a rank, or several, came to in a round."""

    tally: Tally
    trouble: str = ""
    "Why the run cannot go on."


class Driver(Protocol):
    """The driver, as rank 0 knows it."""

    def order(self) -> Order:
        """Wait for the next order."""
        ...

    def answer(self, answer: Answer) -> None: ...


class Lines:
    """A driver at the other end of mpiexec. Raises EOFError when it has gone."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers

    def order(self) -> Order:
        line = sys.stdin.readline()
        if not line:
            raise EOFError("the driver has gone")
        return Order(**json.loads(line))

    def answer(self, answer: Answer) -> None:
        self._answers.write(f"{MARK}{json.dumps(answer)}\n")
        self._answers.flush()


class Rank:
    """This process among those that do tasks. Making and closing it is collective."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._counter = Counter(comm)
        hosts = comm.allgather(socket.gethostname())
        self._serves_hosts = comm.rank == 0 and len(set(hosts)) > 1

    def serve(self, driver: Driver | None) -> int:
        """Obey until the end; returns the exit status. Rank 0 is given the driver."""
        while True:
            order = messages.spread(self._comm, self._heard(driver))
            if order.kind == "end":
                held.release()
                self._counter.close()
                return int(order.status)
            answer = self._obey(order)
            if driver:
                driver.answer(answer)

    def _heard(self, driver: Driver | None) -> Order | None:
        """The next order, on rank 0."""
        if driver is None:
            return None
        order = driver.order()
        self._counter.set(0)  # before anybody hears of a round
        return order

    def _obey(self, order: Order) -> Answer:
        if order.kind == "survey":
            return {"place": order.place, "ranks": self._comm.gather(_about(order))}
        if order.kind == "hold":
            return {"place": order.place, "held": self._comm.gather(self._holds(order))}
        return {"place": order.place, "trouble": self._round(order)}

    def _holds(self, order: Order) -> bool:
        """Hold a connection to the driver; whether there is one."""
        return held.hold(Invitation(*order.invitation), self._comm.rank)

    def _round(self, order: Order) -> str:
        """All tasks of a round; on rank 0, why the run cannot go on, or ''."""
        place = order.place
        with messages.progressing(self._comm, self._serves_hosts):
            own = self._own_part(order)
            total = messages.gathered(self._comm, own, lambda a, b: _both(place, a, b))
        if total is None:
            return ""
        if total.tally.tasks:
            orders = load_orders(place)
            keep(orders.folder, orders.name, total.tally)
        return total.trouble

    def _own_part(self, order: Order) -> Brought:
        """What this rank does."""
        try:
            return Brought(self._in_threads(order))
        # told to the driver, which stops the run
        except BaseException as error:  # noqa: BLE001
            return Brought(Tally(), _sentence(error))

    def _in_threads(self, order: Order) -> Tally:
        """Do tasks on every thread, this one among them."""
        others = order.threads - 1
        if not others:
            return self._share(order.place)
        with ThreadPoolExecutor(others) as pool:
            futures = [pool.submit(self._share, order.place) for _ in range(others)]
            own = self._share(order.place)
            return merge(order.place, [own, *(future.result() for future in futures)])

    def _share(self, place: str) -> Tally:
        """The tasks that this thread draws. When it cannot go on, nobody draws any more."""
        name = f"rank{self._comm.rank}.{threading.get_native_id()}"
        try:
            return batch.run_tasks(place, name, self._drawn(place))
        except BaseException:
            self._counter.set(BEYOND)
            raise

    def _drawn(self, place: str) -> Iterator[Task]:
        """Tasks, portion by portion, until all are drawn."""
        portions = Portions(place_of(place))
        while (number := self._counter.draw()) < len(portions):
            yield from portions.tasks(number)


def _both(place: str, a: Brought, b: Brought) -> Brought:
    return Brought(merge(place, (a.tally, b.tally)), a.trouble or b.trouble)


def _sentence(error: BaseException) -> str:
    if isinstance(error, HyperslabError):
        return str(error)
    traceback.print_exc()
    return f"the ranks of MPI cannot run the tasks: {type(error).__name__}: {error}"


def _about(order: Order) -> dict[str, Any]:
    """What this rank has, which process it is, and whether several of its threads may call MPI."""
    from mpi4py import MPI

    return {
        **survey.survey(order.place),
        "pid": os.getpid(),
        "is_near": is_near(Lifeline(*order.lifeline)),
        "leads": os.getpgrp() == os.getpid(),
        "takes_threads": MPI.Query_thread() == MPI.THREAD_MULTIPLE,
        "no_scratch": why_none(),
    }


def _own_output() -> TextIO:
    """Standard output for the answers alone: from now on what is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def main(ranks: int, *lifeline_fields: Any) -> None:
    """Run a rank of a world of the driver's own, and end with its status."""
    faulthandler.enable()
    end_with(Lifeline(*lifeline_fields))
    forget_memory_variables()
    volunteer()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    driver = Lines(_own_output())
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size != ranks:  # mpiexec and library are of two MPIs
        driver.answer({"size": world.size})
        sys.exit(1)
    sys.exit(serve(world, driver))  # MPICH takes one that leaves by os._exit for dead


def serve(comm: Any, driver: Driver) -> int:
    """Obey the driver, which rank 0 alone hears, until the end; returns the exit status."""
    heard = None
    if comm.rank == 0:
        heard = driver
    try:
        return Rank(comm).serve(heard)
    except BaseException:  # nobody goes on without this rank
        traceback.print_exc()
        comm.Abort(1)
        raise
