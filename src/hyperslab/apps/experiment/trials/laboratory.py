"""Laboratory: the network of a trial, made with a cluster on it for this trial alone, and what its
links carried.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from hyperslab.apps.experiment.design.links import Means, means_of
from hyperslab.apps.experiment.design.setting import Setting
from hyperslab.apps.experiment.design.spec import Spec
from hyperslab.apps.netlab.cluster import cluster_in_lab
from hyperslab.apps.netlab.facts import QUEUES, variables
from hyperslab.apps.netlab.meter import Meter, Usage, metered
from hyperslab.apps.netlab.running import measured_of
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError
from hyperslab.network.lab import remove
from hyperslab.network.lab.registry import Lab, recorded
from hyperslab.units import show_list

OF_PROGRAMS = "dask-futures"
"Engine whose cluster programs run on that are none of ours."


@dataclass(frozen=True, slots=True)
class Around:
    """What a trial is started with."""

    prefix: Sequence[str] = ()
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    lab: Lab | None = None
    meter: Meter | None = None

    def usage(self, records: Path | None) -> Usage | None:
        """What the links carried while a trial ran that has left records; None without a
        laboratory, of a trial that has left no trace, or of one that is spoiled.
        """
        if self.lab is None or self.meter is None:
            return None
        self.meter.stop()
        if records is None or self.meter.spoiled:
            return None
        return measured_of(records, self.lab, self.meter)

    def spoiled(self) -> str:
        """Why a trial tells nothing, as it has lost its links or a node, as a sentence; '' where it
        has not.
        """
        if self.meter is None:
            return ""
        return self.meter.spoiled


def means_for(spec: Spec, settings: Sequence[Setting]) -> Means | None:
    """What makes the links of all settings; None where none has any. Raises UsageError where no
    laboratory can be made here.
    """
    asked = [setting.links for setting in settings if setting.links is not None]
    if not asked:
        return None
    return means_of(asked, spec.network.backend, spec.network.tolerance)


def told_of_links(means: Means | None, earlier: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a session says of its links. Raises UsageError for others than earlier sessions told."""
    if means is None:
        return {}
    for session in earlier:
        before = session.get("links", means.backend)
        if before != means.backend:
            raise UsageError(
                f"the links of earlier trials were made by {before}, now they would be by"
                f" {means.backend}: times of both cannot be compared; begin anew in another"
                " directory with --out"
            )
    return {"links": means.backend}


def prefix_of(root: Path) -> str:
    """What the names of an experiment's laboratories begin with."""
    return f"x{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}-"


def clear(root: Path) -> None:
    """Remove laboratories of this experiment, which a runner has left that was killed together with
    their keeper.
    """
    for lab in recorded():
        if lab.name.startswith(prefix_of(root)):
            remove(lab)


@contextmanager
def around(setting: Setting, means: Means | None, name: str, seed: int) -> Iterator[Around]:
    """A block in which a trial has its laboratory, and a cluster on it. Raises UsageError, and
    LabFailed where its links are not what was asked for.
    """
    if setting.links is None or means is None:
        yield Around()
        return
    engine = setting.value_of("--engine") or Options().engine
    if setting.program:
        engine = OF_PROGRAMS
    threads = int(setting.value_of("--threads") or 1)
    spec = means.spec(setting.links, name, seed)
    with (
        cluster_in_lab(spec, engine, threads) as cluster,
        metered(cluster.lab, cluster.processes, threads) as meter,
    ):
        environment = {**cluster.environment, **variables(cluster.lab)}
        yield Around(cluster.prefix, cluster.arguments, environment, cluster.lab, meter)


def record_of(lab: Lab, usage: Usage | None) -> dict[str, Any]:
    """What the record of an attempt says of its network."""
    told: dict[str, Any] = {"backend": lab.backend, "mode": lab.mode, "queues": QUEUES}
    told["measured"] = [asdict(one) for one in lab.measured]
    if usage is not None:
        told["links"] = [asdict(one) for one in usage.links]
        told["cpu_share"] = dict(usage.cpu_share)
        told["usable"] = dict(usage.usable)
    return told


def untelling(usage: Usage) -> str:
    """Why a trial tells nothing of its links, as clauses; '' where it does."""
    return show_list([why for why in (usage.bound, usage.starved) if why])


def numbers_of(lab: Lab, usage: Usage) -> dict[str, float | None]:
    """Numbers of a trial's network, beside those of its summary."""
    roles = {node.name: node.role for node in lab.nodes}
    scheduler = [one for one in usage.links if roles[one.node] == "scheduler"]
    workers = [one for one in usage.links if roles[one.node] == "worker"]
    return {
        "network_s": usage.seconds,
        "idle_share": usage.idle_share,
        "emulator_share": usage.emulator_share,
        "sent_nbytes": sum(one.sent_nbytes for one in usage.links),
        "scheduler_sent_nbytes": sum(one.sent_nbytes for one in scheduler),
        "worker_sent_nbytes": fmean(one.sent_nbytes for one in workers),
        "scheduler_sent_packets": sum(one.sent_packets for one in scheduler),
        "worker_sent_packets": fmean(one.sent_packets for one in workers),
        **{f"dropped_{cause}": number for cause, number in _dropped(usage).items()},
    }


def _dropped(usage: Usage) -> dict[str, float]:
    """Packets that did not arrive, by cause, on all links together."""
    found: dict[str, float] = {}
    for one in usage.links:
        for cause, number in one.dropped.items():
            found[cause] = found.get(cause, 0) + number
    return found
