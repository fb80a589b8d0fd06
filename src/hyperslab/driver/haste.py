"""Haste: does what has failed so far say that the other tasks would fail as well?

By default, a run ends early when none of its tasks has succeeded and FIRST_TASKS of them, on
more than half of the slots, failed at the same line of the user's function, with an error of a kind
that lies in its code (`hyperslab.plan.failure.CERTAIN`). More than half of the slots, because a
worker whose environment is broken fails its tasks faster than the others do theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hyperslab.plan.task import Outcome
from hyperslab.report.failures import likeness
from hyperslab.units import show_count

FIRST_TASKS = 5
"Tasks that have to fail alike."


class EndsEarly(Exception):
    """Raised to leave a round of tasks that is not worth going on with."""


@dataclass(slots=True)
class _Alike:
    """Tasks that failed alike, and the slots they ran on."""

    tasks: set[int] = field(default_factory=set)
    slots: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Haste:
    """Results of a stage's tasks so far, as far as they decide whether to continue."""

    fail_fast: bool | None
    "True: the first failure ends the run; False: none does; None: the first tasks tell."
    slots: Callable[[], int]
    "Number of slots that the engine has."
    has_succeeded: bool = False
    reason: str = ""
    "Why the run is to end; '' while it is to continue."
    _alike: dict[tuple[str, ...], _Alike] = field(default_factory=dict)

    @property
    def is_watching(self) -> bool:
        """Whether the next outcome may end the run."""
        if self.fail_fast is None:
            return not self.has_succeeded
        return self.fail_fast

    def take(self, outcome: Outcome, is_last: bool) -> None:
        """Take an outcome, which is the task's last where no attempt follows."""
        if outcome.status == "done":
            self.has_succeeded = True
        failure = outcome.failure
        if failure is None or not self.is_watching:
            return
        if self.fail_fast and (failure.certain or is_last):
            self.reason = "a task failed and --fail-fast was given"
        if self.fail_fast is None and failure.certain:
            self._compare(outcome, likeness(failure))

    def _compare(self, outcome: Outcome, why: tuple[str, ...]) -> None:
        same = self._alike.setdefault(why, _Alike())
        same.tasks.add(outcome.task)
        same.slots.add(outcome.slot)
        if len(same.tasks) >= FIRST_TASKS and 2 * len(same.slots) > self.slots():
            self.reason = (
                f"the first {show_count(len(same.tasks), 'task')} failed in the same way and"
                " none succeeded"
            )
