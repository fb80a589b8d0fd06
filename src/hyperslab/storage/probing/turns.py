"""Turns: what one of several hosts does, for them to be measured one at a time and all at once.

No clocks are compared. A host is alone, because all others wait until it says that it has ended.
All are at it at once, because each begins before it says so, measures when all have said so, and
goes on until all have measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hyperslab.storage.probing.bench import LEAST_NAMES, Bench, Setting
from hyperslab.storage.probing.measuring import USUAL_NBYTES, probe
from hyperslab.storage.probing.preparing import Effort, Options, prepared
from hyperslab.storage.probing.records import Measured, Probed
from hyperslab.storage.probing.sharing import WAYS, Rates, Sharing
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.tiers.tier import Tier, share_a_medium

Measuring = Callable[[], float]
"A measurement: the rate that it gave."
TURNS_SHARE = 0.4
"Share of the time of a probe after which no further turns begin."


class Company(Protocol):
    """Hosts that do something together, as one of them sees them."""

    @property
    def host(self) -> str:
        """Name of this host."""

    @property
    def hosts(self) -> Sequence[str]:
        """Names of all of them, this one among them, in the same order on each."""

    def say(self, what: str, value: Any = None) -> None:
        """Tell the others something, once for each `what`: a value that JSON has words for."""

    def hear(self, what: str, hosts: Sequence[str]) -> dict[str, Any]:
        """Wait until these hosts have said it; what each has said. Raises RunStopped where one of
        them fails or dies.
        """

    def have_said(self, what: str) -> bool:
        """Whether all hosts have said it. Raises as `hear`."""


def probe_together(paths: Sequence[str], options: Options, company: Company) -> dict[str, Any]:
    """Take part in the probe of paths by several hosts. Paths on media that earlier ones lie on, on
    every host, are not measured again.

    Returns what this host has found, as JSON has it: `tiers`, a Probed for each path that was
    measured; and, on the first host, `sharing`, a Sharing for each if there are several hosts.
    """
    tiers = {path: look(path) for path in paths}
    company.say("tiers", {path: tier.as_json() for path, tier in tiers.items()})
    by_host = company.hear("tiers", company.hosts)
    found: dict[str, Any] = {"tiers": [], "sharing": []}
    for number, path in enumerate(_different(paths, by_host)):
        is_shared = False
        if len(company.hosts) > 1:
            media = {host: _media(said, path) for host, said in by_host.items()}
            sharing = compare(path, options, company, f"{number}.compare", media)
            is_shared = bool(sharing.shared_ways)
            if company.host == company.hosts[0]:
                found["sharing"].append(asdict(sharing))
        act = partial(probe, Path(path), tiers[path], options, _unheard)
        probed = _in_turn(act, company, f"{number}.probe", one_at_a_time=is_shared)
        found["tiers"].append(asdict(probed))
    return found


def _unheard(done: int, total: int) -> None:
    """Tell nobody how far a probe is."""


def _media(said: Mapping[str, Any], path: str) -> tuple[str, ...]:
    return tuple(sorted(Tier.from_json(said[path]).media))


def _different(paths: Sequence[str], by_host: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Paths that do not lie, on every host, on the same medium as an earlier one."""
    kept: list[str] = []
    for path in paths:
        if not any(_are_alike(path, other, by_host) for other in kept):
            kept.append(path)
    return kept


def _are_alike(path: str, other: str, by_host: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(
        share_a_medium(Tier.from_json(said[path]), Tier.from_json(said[other]))
        for said in by_host.values()
    )


def _in_turn(
    act: Callable[[], Probed], company: Company, name: str, *, one_at_a_time: bool
) -> Probed:
    """What this host finds: while the others wait, or while they do the same."""
    if not one_at_a_time:
        return act()
    before = company.hosts[: company.hosts.index(company.host)]
    company.hear(name, before)
    found = act()
    company.say(name)
    return found


def compare(
    path: str,
    options: Options,
    company: Company,
    name: str,
    media: Mapping[str, tuple[str, ...]],
) -> Sharing:
    """Rates of all hosts in a path, alone and at once, in turns for each repetition. All return the
    same. `name` begins what they say to each other; `media` is what the path lies on, by host.

    Raises as `probe`.
    """
    with prepared(Path(path), options) as ready:
        clients = ready.most_clients
        ways = _ways(ready.bench, clients)
        rates = _take_turns(ways, options.effort, company, name)
    company.say(f"{name}.rates", {"clients": clients, "rates": rates})
    said = company.hear(f"{name}.rates", company.hosts)
    return Sharing(
        path=path,
        at_s=time.time(),
        clients={host: said[host]["clients"] for host in company.hosts},
        media=media,
        rates={
            way: Rates(*(_rates_of(said, way, how) for how in ("alone", "at_once"))) for way in WAYS
        },
    )


def _rates_of(said: Mapping[str, Any], way: str, how: str) -> dict[str, Measured]:
    return {host: Measured(tuple(one["rates"][way][how])) for host, one in said.items()}


def _ways(bench: Bench, clients: int) -> dict[str, Measuring]:
    """What is measured, each for about the time of a measurement."""
    reads = "read-cached"
    if bench.has_cold():
        reads = "read-cold"
    nbytes = min(USUAL_NBYTES, bench.files[0][2])
    reading = Setting(reads, clients, nbytes)
    writing = Setting("write", clients, nbytes)
    bench.scout(writing)
    count = bench.suitable_names(bench.names(clients, LEAST_NAMES), clients)
    return {
        "read": lambda: bench.rates(reading)[reads],
        "write": lambda: bench.rates(writing)["write"],
        "create": lambda: bench.names(clients, count)["create"],
    }


def _take_turns(
    ways: Mapping[str, Measuring], effort: Effort, company: Company, name: str
) -> dict[str, dict[str, list[float]]]:
    """Rates of this host by way, alone and at once with the others."""
    rates: dict[str, dict[str, list[float]]] = {way: {"alone": [], "at_once": []} for way in ways}
    company.say(f"{name}.ready")
    company.hear(f"{name}.ready", company.hosts)
    began_s = time.monotonic()
    for number in range(effort.repetitions):
        turn = f"{name}.{number}"
        if not _goes_on(company, turn, _is_time(began_s, number, effort)):
            break
        for host in _turned(company.hosts, number):
            if host == company.host:
                for way, measure in ways.items():
                    rates[way]["alone"].append(measure())
                company.say(f"{turn}.alone")
            company.hear(f"{turn}.alone", [host])
        for way, measure in ways.items():
            rates[way]["at_once"].append(_at_once(measure, company, f"{turn}.{way}"))
        company.say(f"{turn}.ended")  # so that nobody is alone before that
        company.hear(f"{turn}.ended", company.hosts)
    return rates


def _turned(hosts: Sequence[str], number: int) -> Sequence[str]:
    """Hosts in an order that begins with another one each time."""
    first = number % len(hosts)
    return (*hosts[first:], *hosts[:first])


def _is_time(began_s: float, repetitions: int, effort: Effort) -> bool:
    """Whether there is time for one more repetition."""
    if not repetitions:
        return True
    spent_s = time.monotonic() - began_s
    return spent_s * (1 + 0.5 / repetitions) < TURNS_SHARE * effort.budget_s


def _goes_on(company: Company, turn: str, is_time: bool) -> bool:
    """What the first host says, so that all make as many repetitions."""
    first = company.hosts[0]
    if company.host == first:
        company.say(f"{turn}.goes-on", is_time)
    return bool(company.hear(f"{turn}.goes-on", [first])[first])


def _at_once(measure: Measuring, company: Company, name: str) -> float:
    """Rate while all hosts measure the same."""
    measure()
    company.say(f"{name}.begun")
    while not company.have_said(f"{name}.begun"):
        measure()
    rate = measure()
    company.say(f"{name}.measured")
    while not company.have_said(f"{name}.measured"):
        measure()
    return rate
