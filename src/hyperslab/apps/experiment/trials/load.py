"""Load: what the machine was doing during a trial, and whether others starved the trial by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.apps.experiment.design.spec import Starved
from hyperslab.machine import pressure
from hyperslab.units import show_share

LOAD_FIELDS = (
    "seconds",
    "cpus",
    "load_average",
    "busy_share",
    "own_share",
    "others_share",
    "stolen_share",
)
"Numbers of `pressure.between` that are recorded."


def load_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What the machine was doing between two samples, with the number of idle processors."""
    told = pressure.between(before, after)
    load = {name: told[name] for name in LOAD_FIELDS}
    load["idle_cpus"] = None
    if told["busy_share"] is not None:
        free_share = 1 - told["busy_share"] - told["stolen_share"]
        load["idle_cpus"] = max(0.0, free_share) * told["cpus"]
    return load


def takers(load: Mapping[str, Any], limits: Starved) -> Iterator[str]:
    """Who else took more of a trial's processors than the limits, in words."""
    shares = (
        ("others_share", limits.others, "other programs"),
        ("stolen_share", limits.stolen, "other virtual machines"),
    )
    for name, limit, who in shares:
        share = load.get(name)
        if share is not None and share > limit:
            yield f"{who} took {show_share(share)}"
