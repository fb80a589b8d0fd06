"""Probed: what the storage of a run was measured to do, from the description of its machine.

A run keeps which media it reads from and writes to; what was probed there is looked up by them, at
its end and whenever a report is made. What was probed on another host, or on other media, is not
taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.errors import HyperslabError
from hyperslab.plan.pipeline import PRIMARY
from hyperslab.storage.mounts import one_on_each_mount
from hyperslab.storage.probing.place import default_path
from hyperslab.storage.tiers.looking import look
from hyperslab.trace import Trace
from hyperslab.units import show_count, show_list, show_seconds

if TYPE_CHECKING:
    from hyperslab.plan.compile import Plan
    from hyperslab.storage.probing.description import Machine
    from hyperslab.storage.probing.records import Probed

OLD_S = 90 * 86400.0
"Age of a probe from which on it is to be made again, and this is said."
_DAY_S = 86400.0


def used_storage(plan: Plan, out: Path) -> dict[str, Any]:
    """Where a run reads from and writes to: host, path and media, and what is free of the kernel's
    limit of dirty pages now. Of inputs on several media, the path of one on each further medium.
    """
    sources = plan.stages[0].job.inputs[PRIMARY]
    read, *others = map(_place, one_on_each_mount([source.url for source in sources]))
    elsewhere = {tuple(one["media"]): one["path"] for one in others}
    elsewhere.pop(tuple(read["media"]), None)
    if elsewhere:
        read["others"] = list(elsewhere.values())
    return {"read": read, "write": _place(str(out.absolute()))}


def _place(path: str) -> dict[str, Any]:
    tier = look(path)
    free_dirty = None
    if tier.dirty is not None and tier.write_back:
        free_dirty = tier.dirty.free_nbytes
    return {
        "path": tier.path,
        "host": tier.host,
        "kind": tier.kind,
        "media": sorted(tier.media),
        "free_dirty_nbytes": free_dirty,
    }


def look_up(trace: Trace, path: Path | None = None) -> None:
    """Put into `trace.meta["probe"]` what was probed of the storage that the run used; nothing
    where there is no such probe, or where slots were on other hosts than the one it was made from.
    """
    used = trace.meta.get("storage")
    if not used:
        return
    place = path or default_path()
    try:
        if not place.exists():
            return
        machine = _loaded(place)
    except (HyperslabError, OSError) as error:
        trace.meta["probe"] = {"why_not": str(error)}
        return
    probe = probe_of(used, trace.slots, machine, place)
    if probe:
        trace.meta["probe"] = probe


def _loaded(place: Path) -> Machine:
    from hyperslab.storage.probing.description import load_machine

    return load_machine(place)


def probe_of(
    used: Mapping[str, Any], slots: Sequence[str], machine: Machine, place: Path
) -> dict[str, Any]:
    """Rates of so many processes as there were slots, bytes and opens per second; seconds of a
    small read and of an open of one process; and where these numbers are from.
    """
    hosts = {slot.partition("/")[0] for slot in slots}
    probe: dict[str, Any] = {}
    origins = []
    clients = max(1, len(slots))
    for way, names in _WAYS.items():
        found = machine.of(used[way]["host"], used[way]["media"])
        if found is None or hosts - {found.host}:
            continue
        if others := used[way].get("others"):
            probe["why_not"] = _why_not_one_rate(used[way]["path"], others)
            continue
        probe |= _rates(way, names, found, clients)
        origins.append(origin(found, place))
    if not origins:
        return probe
    probe["clients"] = clients
    probe["from"] = "; ".join(dict.fromkeys(origins))
    return probe


def _why_not_one_rate(first: str, others: Sequence[str]) -> str:
    paths = show_list([first, *others])
    return (
        f"inputs are on several media ({paths}), so that no probe of one says how fast they are"
        " read"
    )


_WAYS = {"read": ("read-cold", "read-cached"), "write": ("write",)}
"Curves that say how fast something is read or written; the first that there is."


def _rates(way: str, names: Iterable[str], found: Probed, clients: int) -> dict[str, Any]:
    curve = next(found.curves[name] for name in names if name in found.curves)
    rates: dict[str, Any] = {
        f"{way}_nbytes_per_s": curve.rate_at(clients),
        f"{way}_knee": curve.knee.clients,
    }
    if way == "write":
        rates["buffered_nbytes_per_s"] = found.curves["write-cached"].rate_at(clients)
        return rates
    latency = next(iter(found.latency.values()))
    rates["latency_s"] = latency.median_s.median
    opens = found.names["open"]
    rates["open_s"] = 1 / opens.single.rate.median
    rates["opens_per_s"] = opens.rate_at(clients)
    return rates


def origin(found: Probed, place: Path) -> str:
    """Where numbers are from: path, host, age and file."""
    age_s = time.time() - found.at_s
    text = f"probe of {found.path} on {found.host}, {_age(age_s)} ago, in {place}"
    if age_s > OLD_S:
        text += " (old: probe again)"
    return text


def _age(age_s: float) -> str:
    if age_s < _DAY_S:
        return show_seconds(max(age_s, 0.0))
    return show_count(round(age_s / _DAY_S), "day")
