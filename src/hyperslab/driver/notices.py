"""Notices: failures that are told while a run goes on, one for each reason.

A notice is held back for a moment: what fails at once, or at the end, is told by the result of the
run, and once is enough.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hyperslab.plan.failure import Failure
from hyperslab.report.failures import Failed, likeness
from hyperslab.report.progress import Progress

HELD_S = 1.0
"Time for which a notice is held back."


@dataclass(frozen=True, slots=True)
class _Held:
    """A failure that nobody has been told of."""

    since_s: float
    one: Failed
    will_retry: bool


@dataclass(slots=True)
class Notices:
    """What has failed so far, and whether that was told."""

    progress: Progress
    _held: dict[tuple[str, ...], _Held] = field(default_factory=dict)
    _told: set[tuple[str, ...]] = field(default_factory=set)

    def take(self, one: Failed, why: Failure, is_last: bool) -> None:
        """Take note of a failed attempt, the last of its round or not."""
        reason = likeness(why)
        if reason not in self._told and reason not in self._held:
            will_retry = not (is_last or why.permanent)
            self._held[reason] = _Held(time.monotonic(), one, will_retry)

    def tell_due(self) -> None:
        """Tell of what has been held back long enough."""
        now = time.monotonic()
        due = [reason for reason, held in self._held.items() if now - held.since_s >= HELD_S]
        for reason in due:
            self._tell(reason)

    def end(self, failures: Iterable[Failure]) -> None:
        """Tell of what another attempt has mended; the result of the run tells of `failures`."""
        left = {likeness(failure) for failure in failures}
        for reason in [reason for reason in self._held if reason not in left]:
            self._tell(reason)

    def stop(self) -> None:
        """Tell of all that has failed in a run that stops, in which nothing is tried again."""
        for reason, held in list(self._held.items()):
            self._held[reason] = replace(held, will_retry=False)
            self._tell(reason)

    def _tell(self, reason: tuple[str, ...]) -> None:
        held = self._held.pop(reason)
        self._told.add(reason)
        one = held.one
        self.progress.failed(one.task, one.message, will_retry=held.will_retry, place=one.place)
