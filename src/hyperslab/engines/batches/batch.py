"""Batch: a run of tasks as one unit of work of a distributed engine, and what its workers do with
it.

An engine that keeps state for every unit (Dask's scheduler, Spark's driver) gets at most
BATCHES_PER_SLOT of them for each slot, however many tasks there are. What all batches share lies in
one file of the run directory, the orders.

Outcomes go to the journal, as on every engine. Through the engine travel only tallies: which tasks
a batch did and, for a reduction, their merged value as a pickle, which the engine's own tree merges
further.

While a worker runs a task, a mark in the run directory names it. An engine that runs a batch again
because its worker died finds the mark: that task is recorded as lost, and the batch goes on with
the next one.
"""

from __future__ import annotations

import functools
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from hyperslab.engines.batches.inflight import Mark, Marked, lost
from hyperslab.engines.batches.orders import Orders, load_orders, offset_ns, own_journal
from hyperslab.engines.batches.tally import Tally, tally_of
from hyperslab.plan.task import Outcome, State, Task
from hyperslab.storage import fence

BATCHES_PER_SLOT = 32
"Enough for an even load at the end of a run, few enough for any scheduler."
STOP_CHECK_NS = 10**9
"How often a batch looks whether its run has been stopped."


@dataclass(frozen=True, slots=True)
class Batch:
    """Some tasks of a round."""

    name: str
    tasks: tuple[Task, ...]


def equal(tasks: int, most: int) -> list[int]:
    """Sizes of so many batches at most, all alike but for the last one."""
    size = max(1, -(-tasks // most))
    return [min(size, tasks - begin) for begin in range(0, tasks, size)]


def shrinking(tasks: int, slots: int, of_slot: int) -> list[int]:
    """Sizes of batches that become smaller by equal steps, so many at most for each slot: fewer of
    them are as even a load at the end.

    This is the trapezoid self-scheduling of T. H. Tzen and L. M. Ni, Trapezoid self-scheduling: a
    practical scheduling scheme for parallel compilers, IEEE Transactions on Parallel and
    Distributed Systems 4(1), 1993, with the same size for each slot.
    """
    weights = [weight for weight in range(of_slot, 0, -1) for _ in range(slots)]
    ends = [tasks * end // sum(weights) for end in accumulate(weights, initial=0)]
    return [end - begin for begin, end in pairwise(ends) if end > begin]


def cut(tasks: Sequence[Task], sizes: Sequence[int], name: str) -> list[bytes]:
    """The tasks in their order as pickled batches of these sizes."""
    ends = accumulate(sizes, initial=0)
    parts = [tuple(tasks[begin:end]) for begin, end in pairwise(ends)]
    return [pickle.dumps(Batch(f"{name}.b{number}", part)) for number, part in enumerate(parts)]


def run(place: str, packed: bytes, before: str = "") -> Tally:
    """A whole batch, its steps as one operator. `before` says how the process ended that was at it
    before, if anybody knows.
    """
    return record(place, _applied(load_orders(place), begin(place, packed, before)))


def run_tasks(place: str, name: str, tasks: Iterable[Task]) -> Tally:
    """The same, of tasks that come one after the other; `name` is that of their mark."""
    orders = load_orders(place)
    with fence.working(orders.folder), Mark(orders.marks, name) as mark:
        return record(place, _applied(orders, _watched(orders, tasks, mark)))


def _applied(orders: Orders, tasks: Iterable[Task]) -> Iterator[Any]:
    """What the steps make of tasks, while somebody pulls."""
    outcomes: Iterator[Any] = iter(tasks)
    for step in orders.steps:
        outcomes = map(step, outcomes)
    return outcomes


def begin(place: str, packed: bytes, before: str = "") -> Iterator[Task]:
    """The batch's tasks, one after the other, while the operators that follow pull them."""
    orders = load_orders(place)
    batch = _batch(packed)
    with fence.working(orders.folder), Mark(orders.marks, batch.name) as mark:
        yield from _watched(orders, _left(orders, batch, mark, before), mark)


def _left(orders: Orders, batch: Batch, mark: Mark, before: str) -> Sequence[Task]:
    """The tasks after the one that the batch's last worker died of, which is recorded."""
    if mark.found is None:
        return batch.tasks
    own_journal(orders).record(_here(orders, lost(mark.found, _driver_ns(orders), before)))
    number = next(
        (n for n, task in enumerate(batch.tasks) if task.id == mark.found.task),
        len(batch.tasks) - 1,
    )
    return batch.tasks[number + 1 :]


def _watched(orders: Orders, tasks: Iterable[Task], mark: Mark) -> Iterator[Task]:
    """Stops when the run has been stopped, which takes the marks' folder away."""
    journal = own_journal(orders)
    ahead_ns = offset_ns(orders)
    looked_at_ns = time.monotonic_ns()
    for task in tasks:
        now_ns = time.monotonic_ns()
        if now_ns - looked_at_ns > STOP_CHECK_NS:
            looked_at_ns = now_ns
            if not mark.folder.exists():
                return
        mark.set(Marked(task.id, task.attempt, journal.slot, now_ns + ahead_ns))
        yield task


def record(place: str, outcomes: Iterable[Outcome]) -> Tally:
    """Journal the outcomes of a batch as they come; the tally of those that are done."""
    orders = load_orders(place)
    journal = own_journal(orders)
    journal.begin()
    for outcome in outcomes:
        journal.take(outcome)
    tasks, path = journal.saved()
    if not orders.merge or not tasks:
        return Tally()
    return tally_of(orders, tuple(tasks), path)


def step(place: str, packed: bytes, number: int, x: Any) -> Any:
    """One operator of a batch of one task, where the engine runs each by itself: the first takes
    None.
    """
    orders = load_orders(place)
    batch = _batch(packed)
    (task,) = batch.tasks
    if isinstance(x, Outcome):  # an earlier operator's worker died of it
        return x
    with fence.working(orders.folder), Mark(orders.marks, f"{batch.name}.{number}") as mark:
        if mark.found is not None:
            return lost(mark.found, _driver_ns(orders))
        mark.set(Marked(task.id, task.attempt, own_journal(orders).slot, _driver_ns(orders)))
        given = x
        if number == 0:
            given = task
        return _placed(orders, orders.steps[number](given))


def _placed(orders: Orders, x: State | Outcome) -> State | Outcome:
    """Phases with the slot that they ran on, in the driver's time: the next step may be on another
    host.
    """
    slot = own_journal(orders).slot
    ahead_ns = offset_ns(orders)
    phases = []
    for phase in x.phases:
        placed = phase
        if not phase.slot:
            placed = phase.shifted(ahead_ns)._replace(slot=slot)
        phases.append(placed)
    if isinstance(x, State):
        x.phases = phases
        return x
    return replace(x, phases=tuple(phases))


def record_one(place: str, outcome: Outcome) -> Tally:
    """The last operator of a batch of one task."""
    return record(place, [_here(load_orders(place), outcome)])


def _driver_ns(orders: Orders) -> int:
    """Now, on the driver's clock."""
    return time.monotonic_ns() + offset_ns(orders)


def _here(orders: Orders, outcome: Outcome) -> Outcome:
    """An outcome in the driver's time as this host's journal has to have it."""
    ahead_ns = offset_ns(orders)
    phases = tuple(phase.shifted(-ahead_ns) for phase in outcome.phases)
    return replace(outcome, phases=phases)


@dataclass(frozen=True, slots=True)
class StepOf:
    """A step of the orders as a function that travels by their path."""

    place: str
    number: int

    def __call__(self, x: Any) -> Any:
        return load_orders(self.place).steps[self.number](x)


@functools.lru_cache(maxsize=1)
def _batch(packed: bytes) -> Batch:
    batch: Batch = pickle.loads(packed)
    return batch
