"""Pace: what tasks take for what they move, in each of two ways that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperslab.plan.task import Outcome


@dataclass(slots=True)
class Way:
    """What tasks have taken that read, or wrote, in one of two ways."""

    tasks: int = 0
    nbytes: int = 0
    ns: int = 0

    def add(self, outcome: Outcome, kind: str) -> None:
        """Count a task, and what it moved in phases of this kind."""
        self.tasks += 1
        for phase in outcome.phases:
            if phase.kind == kind:
                self.nbytes += phase.nbytes
                self.ns += phase.end_ns - phase.start_ns

    def add_whole(self, outcome: Outcome, kind: str) -> None:
        """Count a task, with all of its time for what it moved in phases of this kind."""
        self.tasks += 1
        self.nbytes += sum(phase.nbytes for phase in outcome.phases if phase.kind == kind)
        starts = [phase.start_ns for phase in outcome.phases]
        self.ns += max(phase.end_ns for phase in outcome.phases) - min(starts)

    @property
    def ns_per_byte(self) -> float:
        return self.ns / max(1, self.nbytes)
