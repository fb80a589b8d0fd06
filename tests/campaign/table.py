"""What came of all rounds, as a table, and what to type to see one of them again."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.campaign.playing import Verdict
from tests.campaign.rounds import FAULTS
from tests.campaign.scenarios import Wish

COLUMNS = ("scenario", "rounds", "right", *FAULTS, "repeated", "not hit", "seconds")


def render(verdicts: Sequence[Verdict]) -> str:
    """One line per scenario, and what was injected how often."""
    names = sorted({verdict.scenario for verdict in verdicts})
    rows = [_row(name, [v for v in verdicts if v.scenario == name]) for name in names]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    lines = [
        " ".join(word.rjust(width) for word, width in zip(row, widths, strict=True))
        for row in (COLUMNS, *rows)
    ]
    return "\n".join([*lines, "", *_injections(verdicts)])


def describe(verdict: Verdict, seed: int, wish: Wish) -> str:
    """A round in a line; one that is not right with what was found, and the line that plays it
    again.
    """
    what = ", ".join(verdict.injected) or verdict.why_not
    head = (
        f"round {verdict.index}: {verdict.scenario}: {verdict.job}: {what}"
        f" ({verdict.seconds:.1f} s)"
    )
    if verdict.is_right:
        return head
    found = [f"    {finding.fault}: {finding.what}" for finding in verdict.findings]
    number = ["--seed", str(seed), "--only", str(verdict.index)]
    line = [sys.executable, "-m", "tests.campaign", *number, *wish.options]
    again = f"    again: {shlex.join(line)}"
    return "\n".join([head, *found, again, f"    kept in {verdict.folder}"])


def _row(name: str, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    played = [verdict for verdict in verdicts if not verdict.why_not]
    faults = Counter(
        fault for verdict in played for fault in {finding.fault for finding in verdict.findings}
    )
    numbers = (len(played), sum(v.is_right for v in played), *(faults[fault] for fault in FAULTS))
    rest = (
        sum(v.repeated for v in played),
        len(verdicts) - len(played),
        round(sum(v.seconds for v in verdicts)),
    )
    return (name, *map(str, (*numbers, *rest)))


def _injections(verdicts: Iterable[Verdict]) -> list[str]:
    counts = Counter(what for verdict in verdicts for what in verdict.injected)
    return [
        f"{count:5d} x {what}"
        for what, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
