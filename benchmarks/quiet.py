"""Quiet: whether a machine has nothing else to do, so that a page may show what it measures."""

from __future__ import annotations

import os

import psutil

MOST_LOAD = 0.5
"Load average at the start of a benchmark that is to fill a page; nothing of its own runs then."
MOST_BUSY = 0.3
"Processors that others may use when a round begins."
LOOK_S = 2.0
ROUNDS = 5
"Rounds at least whose medians a page shows."


def busy_processors() -> float:
    """Processors that others use while this process waits for LOOK_S."""
    share: float = psutil.cpu_percent(LOOK_S) / 100
    return share * (os.cpu_count() or 1)


def doubts(rounds: int, load: float) -> list[str]:
    """What speaks against medians of so many rounds, the first of which began at this load."""
    found = []
    if rounds < ROUNDS:
        found.append(f"{rounds} rounds, and a page shows medians of {ROUNDS} or more")
    if load > MOST_LOAD:
        found.append(
            f"a load of {load:.1f} at the start, and a page is measured on a machine that has"
            f" nothing else to do (at most {MOST_LOAD:g})"
        )
    return found
