"""Measured: what was asked of a link, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hyperslab.network.lab.link import show_bits
from hyperslab.units import show_seconds, show_share

Unit = Literal["bit/s", "s", "share"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was asked of a link, and what was measured."""

    node: str
    what: str
    "Quantity, such as 'rate up'."
    asked: float | None
    "Value that was asked for; None where nothing was."
    value: float
    unit: Unit
    allowed: float
    "Difference from what was asked for that is within the tolerance."

    @property
    def is_right(self) -> bool:
        """Whether the link is what was asked for."""
        return self.asked is None or abs(self.value - self.asked) <= self.allowed

    def show_asked(self) -> str:
        """What was asked for, as people read it; '' where nothing was."""
        if self.asked is None:
            return ""
        return show(self.asked, self.unit)

    def show_value(self) -> str:
        """What was measured, as people read it."""
        return show(self.value, self.unit)

    def sentence(self) -> str:
        """What differs from what was asked for."""
        return (
            f"{self.node}: {self.what} {self.show_value()} instead of {self.show_asked()}"
            f" (within {show(self.allowed, self.unit)} was asked for)"
        )


def show(value: float, unit: Unit) -> str:
    """A measured value, such as `95.6 Mbit/s`, `10.2 ms` or `2.0 %`."""
    if unit == "bit/s":
        return show_bits(value)
    if unit == "s":
        return show_seconds(value)
    return show_share(value)
