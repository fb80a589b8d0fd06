"""The scenarios: what is done to a job, and which jobs it can be done to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.campaign import (
    calls,
    changes,
    copies,
    damage,
    deaths,
    disks,
    jobs,
    power,
    races,
    shim,
    stale,
    tampering,
    terminals,
)
from tests.campaign.jobs import Job
from tests.campaign.rounds import Round

WITHOUT_JAVA = tuple(name for name in jobs.SLOTS if name != "spark")
"Java is slow to start, and has calls of its own that nothing is to befall."
OURS = tuple(name for name in WITHOUT_JAVA if name != "gnu-parallel")
"Perl has such calls, too."
LOCAL = ("serial", "threads", "processes", "processes of threads")
POOLS = ("processes", "processes of threads", "dask-futures", "dask-bag")
RUNS = tuple(name for name, kind in jobs.KINDS.items() if kind.verb == "run" and name != jobs.HELD)


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A class of faults."""

    play: Callable[[Round], None]
    share: int
    "Of a hundred rounds, roughly."
    kinds: tuple[str, ...] = jobs.ORDINARY
    engines: tuple[str, ...] = tuple(jobs.SLOTS)
    missing: Callable[[], str] = _nothing
    "Why it cannot be played here; '' if it can."


SCENARIOS: Mapping[str, Scenario] = {
    "deaths": Scenario(deaths.play, 18),
    "calls": Scenario(calls.play, 24, engines=OURS, missing=shim.missing),
    "disks": Scenario(disks.play, 6, engines=LOCAL),
    "races": Scenario(races.play, 10, engines=WITHOUT_JAVA),
    "damage": Scenario(damage.play, 12, engines=LOCAL),
    "copies": Scenario(copies.play, 6, engines=LOCAL),
    "tampering": Scenario(tampering.play, 6, engines=LOCAL),
    "stale workers": Scenario(stale.play, 5, (*RUNS, *[jobs.HELD] * len(RUNS)), POOLS),
    "changes": Scenario(changes.play, 6, engines=LOCAL),
    "power": Scenario(power.play, 6, engines=LOCAL, missing=shim.missing),
    "terminals": Scenario(terminals.play, 5, engines=LOCAL),
}


def draw(chance: random.Random, only: str = "") -> tuple[str, Job]:
    """A scenario, or the one asked for, and a job for it."""
    drawn = chance.choices([*SCENARIOS], [scenario.share for scenario in SCENARIOS.values()])[0]
    name = only or drawn
    scenario = SCENARIOS[name]
    return name, jobs.draw(chance, scenario.kinds, scenario.engines)
