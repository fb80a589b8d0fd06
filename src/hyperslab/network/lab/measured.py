"""Measured: what was asked of a link, and what it does."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.storage.emulation.measured import Measured, show


@dataclass(frozen=True, slots=True)
class MeasuredLink(Measured):
    """What was asked of the link of a node, and what was measured."""

    node: str
    allowed: float
    "Difference from what was asked for that is within the tolerance."

    @property
    def is_right(self) -> bool:
        """Whether the link is what was asked for."""
        return self.asked is None or abs(self.value - self.asked) <= self.allowed

    def sentence(self) -> str:
        """What differs from what was asked for."""
        return (
            f"{self.node}: {self.what} {self.show_value()} instead of {self.show_asked()}"
            f" (within {show(self.allowed, self.unit)} was asked for)"
        )
