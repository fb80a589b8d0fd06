"""BatchEngine: a round as all engines go through it that send tasks in batches.

A round has a name; its orders lie in the run directory, its tasks are cut into batches, and
somebody runs these: the Work. Until it is over the engine looks whether anybody is left who could
end it. Then the tallies are kept, what still goes on is cancelled, attempts that died with their
workers are reported, and orders and marks go. A subclass says how batches become Work (`submit`),
who is left (`look`) and which workers live (`who_lives`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.engines.batches import batch, inflight
from hyperslab.engines.batches.orders import clear, round_name, write_orders
from hyperslab.engines.batches.tally import Tally, keep
from hyperslab.errors import CONTINUES, RunStopped
from hyperslab.machine.clock import ClockServer, Reference, reference, serve_towards
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

POLL_S = 0.1


class Ending(Protocol):
    """Something that runs elsewhere and ends."""

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds, or until a part of it has ended; True at the end."""
        ...


class Work(Ending, Protocol):
    """The batches of a round, while somebody runs them."""

    def tallies(self) -> Iterable[Tally]:
        """Results of the batches; those whose workers have died are left to the driver. Raises
        RunStopped when they cannot be run.
        """
        ...

    def cancel(self) -> None:
        """Give up what is still running."""
        ...


class BatchEngine(Managed):
    """An engine that sends tasks in batches."""

    limit_nbytes: ClassVar[int] = 0
    "Size of the largest value that travels through the engine; larger ones stay in their files."
    batches_per_slot: ClassVar[int] = batch.BATCHES_PER_SLOT
    are_shrinking: ClassVar[bool] = False
    "Whether later batches of a round are smaller than those before."
    single_steps: ClassVar[bool] = False
    """Whether every step of a block is an operator of its own to the engine, so that a batch of
    several steps holds one task.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._rounds = 0
        self._round = ""
        self._work: Work | None = None
        self._clock: ClockServer | None = None
        self._slots: list[Slot] = []
        self._own_times: list[OwnTime] = []

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        """Have every batch run with the orders at `place`, and give its tally or, when reducing,
        may give one of all.
        """
        raise NotImplementedError

    def cut(self, tasks: Sequence[Task], name: str, steps: int) -> list[bytes]:
        """The tasks of a round of this name as batches. Raises RunStopped when nobody is there."""
        if not self._slots:
            raise RunStopped("all workers left before the first task", CONTINUES)
        return batch.cut(tasks, self._sizes(len(tasks), steps), name)

    def _sizes(self, tasks: int, steps: int) -> Sequence[int]:
        """Sizes of the batches of so many tasks."""
        slots = len(self._slots)
        if self.single_steps and steps > 1:
            return [1] * tasks
        if self.are_shrinking:
            return batch.shrinking(tasks, slots, self.batches_per_slot)
        return batch.equal(tasks, slots * self.batches_per_slot)

    def look(self) -> None:
        """Raise RunStopped when no worker is left to continue the round."""

    def who_lives(self) -> Callable[[Slot], bool]:
        """Tells of a slot, as workers name it, whether its worker lives."""
        return inflight.is_running_here

    def how_it_ended(self, batch: str) -> str:
        """How the worker of a batch of this name died, as in "was killed by SIGKILL"; '' where
        nobody knows.
        """
        return ""

    def now_ns(self) -> int:
        """The time on the clock of the run's driver."""
        return time.monotonic_ns()

    def leave(self) -> None:
        """Let go of whoever ran the batches, and end what was started for them."""

    def value_limit(self, batches: int) -> int:
        """Size of the largest value that travels, in a round of so many batches."""
        return self.limit_nbytes

    def slots(self) -> Sequence[Slot]:
        return self._slots

    def own_times(self) -> Sequence[OwnTime]:
        """What the engine's own record says of the batches."""
        return self._own_times

    def clock(self) -> Reference:
        """The clock that workers compare theirs with."""
        address = self._clock.address if self._clock else None
        return reference(address)

    def serve_clock(self, host: str | None) -> None:
        """Let the workers that this host reaches compare their clocks with ours."""
        self._clock = serve_towards(host)

    def stop(self) -> None:
        clear(self.options.folder)
        self.leave()
        if self._clock is not None:
            self._clock.close()
        self._clock = None

    def cancel(self) -> None:
        """Stop at once; batches that somebody else's workers are at end at their next task."""
        clear(self.options.folder)
        self._give_up()

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._rounds += 1
        self._round = round_name(self._rounds)
        batches = self.cut(tasks, self._round, len(steps))
        place = self._write_orders(self._round, steps, merge, len(batches))
        self._work = self.submit(place, batches, len(steps), merge is not None)
        yield from self.see_out(self._work)

    def see_out(self, work: Work) -> Running:
        """Wait for the end of the round, keep what it came to, and report what died in it."""
        folder = self.options.folder
        try:
            yield from self.wait(work)
            for tally in work.tallies():
                keep(folder, self._round, tally)
        finally:
            self._give_up()
        marks = folder / inflight.FOLDER / self._round
        yield from inflight.leftovers(marks, self.who_lives(), self.how_it_ended, self.now_ns)
        clear(folder)

    def wait(self, going_on: Ending) -> Running:
        """Wait until something is over. Raises RunStopped when nobody is left who could end it."""
        while not going_on.is_over(POLL_S):
            self.look()
            yield None

    def _write_orders(
        self, name: str, steps: Sequence[StepFunction], merge: Merge | None, batches: int
    ) -> str:
        options = self.options
        return write_orders(
            options.folder,
            name,
            steps,
            merge,
            options.shipment,
            self.clock(),
            self.value_limit(batches),
            options.process_per_slot,
        )

    def _give_up(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._work = None
