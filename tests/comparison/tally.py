"""The table at the end: what was compared per kind of file, what was refused and why, what
differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hyperslab.units import show_bytes
from tests.comparison.ledger import Ledger
from tests.comparison.workers import Outcome

_SHOWN = 40
"Reasons that are shown of a kind, the most frequent first."


class Tally:
    """Outcomes added up."""

    def __init__(self) -> None:
        self.cases = 0
        self.by_kind: dict[str, Ledger] = {}
        self.failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.cases += 1
        ledger = self.by_kind.setdefault(outcome.kind, Ledger())
        ledger += outcome.ledger
        if outcome.ledger.findings:
            self.failed.append(outcome)

    @property
    def total(self) -> Ledger:
        found = Ledger()
        for ledger in self.by_kind.values():
            found += ledger
        return found


def table(tally: Tally) -> Iterator[str]:
    """Lines for people."""
    yield (
        f"{'kind of file':<24}{'datasets':>9}{'slabs':>9}{'bytes compared':>16}"
        f"{'refused':>9}{'differences':>13}"
    )
    rows = sorted((kind, ledger) for kind, ledger in tally.by_kind.items() if kind != "not made")
    for kind, ledger in (*rows, ("all", tally.total)):
        yield (
            f"{kind:<24}{ledger.datasets:>9,}{ledger.slabs:>9,}{show_bytes(ledger.nbytes):>16}"
            f"{ledger.refused.total():>9,}{len(ledger.findings):>13,}"
        )
    total = tally.total
    yield from _counted("Comparisons by way of reading", total.ways)
    yield from _counted("Refused, nothing compared", total.refused)
    yield from _counted("Not made: the library refuses", total.unmade)
    yield from _counted("Not read by the format's library", total.unknown)


def _counted(title: str, counts: Counter[str]) -> Iterator[str]:
    if not counts:
        return
    yield f"\n{title} ({counts.total():,})"
    listed = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    yield from (f"{count:>8,}  {reason}" for reason, count in listed[:_SHOWN])
    if len(listed) > _SHOWN:
        yield f"          and {len(listed) - _SHOWN} reasons more"


def differences(tally: Tally, seed: int, kind: str) -> Iterator[str]:
    """Every finding, with the command that shows it again."""
    only = f" --kind {kind}" if kind else ""
    command = f"python -m tests.comparison --seed {seed}{only} --only"
    for outcome in sorted(tally.failed):
        yield f"\ncase {outcome.number}, {outcome.kind}: {command} {outcome.number}"
        yield from (f"    {finding}" for finding in outcome.ledger.findings)
