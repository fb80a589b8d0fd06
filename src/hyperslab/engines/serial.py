"""One task after the other in this process: for debugging (breakpoints work) and as the reference
for all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.errors import UsageError
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.steps import outcome_of
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.storage import fence
from hyperslab.trace import OwnTime, Slot


class Serial(Managed):
    """Runs tasks in the thread that asks for them."""

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise UsageError for more than one slot."""
        if options.workers * options.threads != 1:
            raise UsageError(
                "--engine serial has one slot: leave out --workers and --threads, or choose"
                " --engine processes"
            )

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._rounds = 0

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def cancel(self) -> None:
        """Nothing runs between two results, so there is nothing to cancel."""

    def slots(self) -> Sequence[Slot]:
        return [Slot(self._options.host, 0, 0)]

    def own_times(self) -> Sequence[OwnTime]:
        """None: it keeps no record but the journal."""
        return ()

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._rounds += 1
        journal = SlotJournal(self._options.folder, str(self.slots()[0]), f"r{self._rounds}", merge)
        try:
            with fence.working(self._options.folder):
                for task in tasks:
                    journal.take(outcome_of(task, steps))
                    yield None
        finally:
            journal.close()
