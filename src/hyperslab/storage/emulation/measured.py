"""Measured: what was asked of an emulation, and what it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hyperslab.units import show_bits, show_rate, show_seconds, show_share

Unit = Literal["B/s", "bit/s", "s", "/s", "share"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was asked of a tier, and what was measured."""

    what: str
    "Quantity, such as 'write'."
    asked: float | None
    "Value that was asked for; None where nothing was."
    value: float
    unit: Unit
    is_least: bool = field(default=False, kw_only=True)
    "Whether more than what was asked for is as good."

    @property
    def deviation(self) -> float:
        """Share of what was asked for by which the value differs from it; 0 where nothing was."""
        if not self.asked:
            return 0.0
        if self.is_least:
            return max(0.0, 1 - self.value / self.asked)
        return abs(self.value / self.asked - 1)

    def show_asked(self) -> str:
        """What was asked for, as people read it; '' where nothing was."""
        if self.asked is None:
            return ""
        shown = show(self.asked, self.unit)
        if self.is_least:
            return f"at least {shown}"
        return shown

    def show_value(self) -> str:
        """What was measured, as people read it."""
        return show(self.value, self.unit)

    def sentence(self) -> str:
        """What differs, by how much."""
        return (
            f"{self.what} {self.show_value()} instead of {self.show_asked()}"
            f" ({show_share(self.deviation)} off)"
        )


def show(value: float, unit: Unit) -> str:
    """A measured value, such as `98.7 MB/s`, `95.6 Mbit/s`, `1.05 ms`, `498 per second` or
    `2.0 %`.
    """
    match unit:
        case "B/s":
            return show_rate(value)
        case "bit/s":
            return show_bits(value)
        case "s":
            return show_seconds(value)
        case "share":
            return show_share(value)
        case "/s":
            return f"{value:.3g} per second"
