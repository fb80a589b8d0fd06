"""What has to hold, said as it is measured."""

from __future__ import annotations


class Gates:
    """Ratios and their limits; `close` ends the program with status 1 if one did not hold."""

    def __init__(self) -> None:
        self.failed = 0

    def at_least(self, what: str, found: float | None, limit: float) -> None:
        """Print a gate; one that was not measured has failed."""
        holds = found is not None and found >= limit
        self.failed += not holds
        figure = "not measured" if found is None else f"{found:.2f}"
        print(
            f"GATE {'holds' if holds else 'FAILS'}: {what}: {figure} (at least {limit:g})",
            flush=True,
        )

    def at_most(self, what: str, found: float, limit: float) -> None:
        """Print a gate."""
        holds = found <= limit
        self.failed += not holds
        print(
            f"GATE {'holds' if holds else 'FAILS'}: {what}: {found:.4f} (at most {limit:g})",
            flush=True,
        )

    def close(self) -> None:
        if self.failed:
            raise SystemExit(f"{self.failed} gates failed")
