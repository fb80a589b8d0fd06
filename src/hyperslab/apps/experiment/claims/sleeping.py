"""Sleeping: blocks that wait for nothing, for most of the time of their tasks.

A delay in a pipeline stands for computing, and takes neither processors nor storage. Where tasks do
little else, further workers bring something and fewer blocks save something by that alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.apps.experiment.claims.claim import Evidence, Judged
from hyperslab.units import show_share

MOST = 0.5
"Share of the time of tasks for which they sleep, from which on that decides."


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


def asleep(evidence: Evidence) -> Iterator[str]:
    """Say for how much of their time the tasks of the baseline sleep, where that is most of it."""
    levels = evidence.baseline
    asleep_s = float(levels["delay"]) * float(levels["iterations"]) * float(levels["files"])
    busy_s = evidence.answer.results[0].mean("busy_s")
    if busy_s and asleep_s >= MOST * busy_s:
        share = show_share(min(1.0, asleep_s / busy_s))
        yield (
            f"Tasks sleep for {share} of their time, on every engine alike, which takes neither"
            " processors nor storage."
        )


def unless_asleep(evidence: Evidence, found: Judged) -> Judged:
    """What was found, unless it is refuted by tasks that do little but sleep."""
    told = list(asleep(evidence))
    if not told or found.outcome not in ("refuted", "refuted in part"):
        return found
    why = "What further workers and fewer blocks save of sleeping is by construction."
    return found.instead("by construction", f"{told[0]} {why}")
