"""Running of a command of hyperslab in the client's node of a laboratory, on a cluster there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.netlab.cluster import Cluster, cluster_in_lab
from hyperslab.apps.netlab.facts import variables
from hyperslab.apps.netlab.meter import Meter, Usage, metered
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import KEPT, PAGE, load_records, try_report
from hyperslab.engines.environment import itself
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.network.lab import registry
from hyperslab.network.lab.measured import MeasuredLink
from hyperslab.network.lab.registry import Lab, Node
from hyperslab.network.lab.spec import LabSpec
from hyperslab.report.links import RECORD, sentence_of_changes
from hyperslab.report.verdict import Verdict, judge
from hyperslab.report.verdict.network import DISTANCE, RULE
from hyperslab.storage.recordfile import save_record
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_list, show_seconds, show_share


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has run in a laboratory."""

    status: int
    lab: Lab
    usage: Usage | None
    "What the links carried while its tasks ran; None where it has left no trace."
    verdict: Verdict | None
    "What limited it, now that the links are known; None where it has left no summary."
    unreported: str = ""
    "Why its page could not be written with its links; '' where it was, or was not to be."
    changed: tuple[str, ...] = ()
    "Nodes whose links were changed meanwhile."


def run_in_lab(
    spec: LabSpec, engine: str, arguments: Sequence[str], threads: int, out: Path
) -> Ended:
    """Run `hyperslab` with these arguments and the cluster's --connect; the record of its run, in
    the directory or file `out`, is given what the links did. Raises UsageError, LabFailed, and
    RunStopped where the links are lost meanwhile, which ends the command.
    """
    with cluster_in_lab(spec, engine, threads) as cluster:
        earlier = newest(out)
        with metered(cluster.lab, cluster.processes, threads) as meter:
            status = _run(cluster, [*arguments, *cluster.arguments], meter)
        folder = newest(out)
        if folder is None or folder == earlier:
            return Ended(status, cluster.lab, None, None)
        usage = measured_of(folder, cluster.lab, meter)
        return Ended(status, cluster.lab, usage, *_judged(folder), changed_of(cluster.lab))


def _judged(folder: Path) -> tuple[Verdict | None, str]:
    """What limited the run of these records, whose page is written again with its links; and why
    that could not be done, or ''.
    """
    if not all((folder / name).is_file() for name in KEPT):
        return None, ""
    records = load_records(folder)
    unreported = ""
    if (folder / PAGE).is_file():
        unreported = try_report(records)
    return judge(records.trace, records.summary), unreported


def _run(cluster: Cluster, arguments: Sequence[str], meter: Meter) -> int:
    """The exit status of the command, which hears of Ctrl-C itself, and is told of SIGTERM."""
    words = [*cluster.prefix, *itself(arguments)]
    environment = {**os.environ, **cluster.environment, **variables(cluster.lab)}
    return run_in_foreground(words, environment, look=meter.require_links)


def newest(out: Path) -> Path | None:
    """Folder of the records of the newest run there."""
    return RunDirectory.of(out).newest()


def measured_of(folder: Path, lab: Lab, meter: Meter) -> Usage | None:
    """What the links did while a run had its tasks, written beside its trace; None of one that has
    left none. Raises RunStopped where the links were not there.
    """
    if not (folder / "trace.parquet").is_file():
        return None
    meta = Trace.load(folder / "trace.parquet").meta
    usage = meter.usage(meta["ready_ns"], meta["end_ns"])
    told = {"lab": lab.as_json(), "usage": usage.as_json(), "changed": changed_of(lab)}
    save_record(folder / RECORD, told)
    return usage


def changed_of(lab: Lab) -> tuple[str, ...]:
    """Nodes whose links have been changed since a laboratory was as this says."""
    now = registry.find(lab.name)
    return tuple(node.name for node in lab.nodes if _known(lab, node) != _known(now, node))


def _known(lab: Lab, node: Node) -> tuple[Node, list[MeasuredLink]]:
    """The links of a node, with what was measured of them, which every change drops."""
    return lab[node.name], [one for one in lab.measured if one.node == node.name]


def lines_of(
    lab: Lab, usage: Usage, verdict: Verdict | None, changed: Sequence[str] = ()
) -> list[str]:
    """What the links did, as the terminal shows it; and what they made the run wait for."""
    lines = [
        f"links      {one.node}: sent {show_bytes(one.sent_nbytes)}, received"
        f" {show_bytes(one.received_nbytes)}{_dropped(one.dropped)}"
        for one in usage.links
    ]
    idle = "not known"
    if usage.idle_share is not None:
        idle = f"{show_share(usage.idle_share)} idle"
    told = f"network    {lab.backend}, for {show_seconds(usage.seconds)}; processors {idle}"
    if usage.emulator_share:
        told += f", {show_share(usage.emulator_share)} for the emulator"
    reasons = (usage.bound, usage.starved, sentence_of_changes(changed), _deaths(usage))
    notes = [f"note       {why}" for why in reasons if why]
    return [told, *lines, *notes, *verdict_lines(verdict)]


def _deaths(usage: Usage) -> str:
    """Name the nodes that have lost what ran on them, in a clause; '' where none has."""
    if not usage.died:
        return ""
    return f"what ran on {show_list(usage.died)} has died meanwhile"


def verdict_lines(verdict: Verdict | None) -> list[str]:
    """Cause and remedy where it was the network, of which the run itself did not know."""
    if verdict is None or not verdict.findings:
        return []
    if verdict.findings[0].rule not in (RULE, DISTANCE):
        return []
    return [f"cause      {verdict.cause}", f"remedy     {verdict.remedy}"]


def _dropped(causes: Mapping[str, int]) -> str:
    told = [f"{number:,} by {cause}" for cause, number in causes.items() if number]
    return f"; packets dropped: {', '.join(told)}" if told else ""
