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
OURS = tuple(name for name in WITHOUT_JAVA if name not in ("gnu-parallel", "slurm"))
"Perl has such calls, too, and jobs of a batch system are not below the command."
LOCAL = ("serial", "threads", "processes", "processes of threads")
POOLS = ("processes", "processes of threads", "dask-futures", "dask-bag", "mpi", "slurm")
RUNS = tuple(name for name, kind in jobs.KINDS.items() if kind.verb == "run" and name != jobs.HELD)


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What rounds are to be of; '' leaves it to chance."""

    scenario: str = ""
    engine: str = ""

    @property
    def options(self) -> list[str]:
        """The same for the command line."""
        asked = {"--scenario": self.scenario, "--engine": self.engine}
        return [word for name, value in asked.items() if value for word in (name, value)]


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


def draw(chance: random.Random, wish: Wish = Wish()) -> tuple[str, Job]:
    """A scenario and a job for it, as far as nobody wishes for others."""
    able = {
        name: scenario
        for name, scenario in SCENARIOS.items()
        if wish.engine in ("", *scenario.engines)
    }
    drawn = chance.choices([*able], [scenario.share for scenario in able.values()])[0]
    name = wish.scenario or drawn
    scenario = SCENARIOS[name]
    engines = scenario.engines
    if wish.engine:
        engines = (wish.engine,)
    return name, jobs.draw(chance, scenario.kinds, engines)
