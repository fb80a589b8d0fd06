"""Sleeping: claims that trials tell whose tasks do little but sleep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.apps.experiment.answers.asleep import asleep
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.claims.claim import UNTOLD, Evidence, Judged


def unequal_sleep(evidence: Evidence) -> Iterator[str]:
    """How long blocks sleep, and how much more so where there are more of them."""
    delay_s = float(evidence.baseline["delay"])
    base = evidence.baseline["files"]
    most = max(evidence.levels("files"), key=float)
    if delay_s:
        yield (
            f"Every block sleeps for {delay_s:g} s, here as in the paper: {most} blocks sleep"
            f" {float(most) / float(base):g} times as long in all as {base}."
        )


def unless_asleep(
    evidence: Evidence, found: Judged, why: str, results: Sequence[CellResult] | None = None
) -> Judged:
    """What was found, unless tasks tell it that do little but sleep, whichever way it points; `why`
    says what follows from sleep. Tasks are those of the baseline, or of the first of `results`.
    """
    told = list(asleep(evidence.answer.results if results is None else results))
    if not told or found.outcome in UNTOLD:
        return found
    return found.instead("by construction", f"{told[0]} {why}")
