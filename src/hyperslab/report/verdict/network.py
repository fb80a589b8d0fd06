"""Rules about networks: a link that was full, a node that is far, values that went from worker to
worker while slots waited.

Links are known of runs in a laboratory, transfers of runs that kept their messages. A rule claims
no more than the time in which slots ran nothing, and none where processors were short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hyperslab.machine.links import NOTICED_S, Odd, Pair, standing_out
from hyperslab.report.links import Fullest, Links, NodeLink, links_of
from hyperslab.report.messages.moving import META as TRANSFERS
from hyperslab.report.verdict import remedies
from hyperslab.report.verdict.evidence import Cover, Evidence, merged
from hyperslab.report.verdict.finding import NOTABLE, Finding
from hyperslab.units import show_bytes, show_count, show_list, show_rate, show_seconds, show_share

RULE, DISTANCE = "network", "network-distance"
FULL = 0.5
"Share of the time for which a link has to be busy, or something else made the run wait."
FEWEST_GAPS = 4
"Gaps of slots on a node that a claim about its distance needs."
STORED = ("open", "read", "write", "tiny")
"Classes of phases that wait for storage."
EXPLAINED = ("engine-overhead", "between-tasks", "closing", "waiting-function", "unfed-slots")
"Rules about slots that wait, which say less than the link that they waited for."
BETTER = {
    "scheduler": "Give {node} a faster link: all that clients and workers say goes over it.",
    "client": "Give {node} a faster link, or have it fetch less: results that stay with the workers"
    " do not go over it.",
    "storage": "Give {node} a faster link, or read less over it.",
}
"Remedies by role of a node; others are workers."
OF_WORKER = "Give {node} a faster link, or run without it: the others wait for what it has."


def network(evidence: Evidence) -> list[Finding]:
    """What a run's network made it wait for."""
    links = links_of(evidence.meta)
    if links is None or links.changed:
        return _transferring(evidence)
    if links.bound:
        return []
    found = [*_full(evidence, links), *_distant(evidence, links)]
    return found or _transferring(evidence)


def is_explained(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether a network that was found explains what another rule says of slots that wait."""
    known = [one.share for one in others if one.rule in (RULE, DISTANCE)]
    return finding.rule in EXPLAINED and any(FULL * finding.share <= share for share in known)


def _waiting_share(evidence: Evidence) -> float | None:
    """Share of the slots' time in which they neither ran, nor wanted a processor, nor waited for
    storage; None where the kernel does not tell.
    """
    everything = evidence.everything
    if not everything.is_known or not evidence.total:
        return None
    stored = sum(evidence.classes[name].waited for name in STORED if name in evidence.classes)
    return max(0.0, 1 - (everything.cpu + everything.runq + stored) / evidence.total)


def _full(evidence: Evidence, links: Links) -> Iterator[Finding]:
    """A link whose bytes take most of the run."""
    waiting = _waiting_share(evidence)
    fullest = links.fullest()
    if waiting is None or fullest.share < FULL:
        return
    share = min(fullest.share, waiting)
    if share < NOTABLE:
        return
    link = fullest.link
    yield Finding(
        RULE,
        f"The link of {link.node} limited the run: what it {fullest.direction} takes"
        f" {show_share(fullest.share)} of the time at least.",
        _full_evidence(fullest, links),
        BETTER.get(link.role, OF_WORKER).format(node=link.node),
        share,
    )


def _full_evidence(fullest: Fullest, links: Links) -> str:
    link, direction, _ = fullest
    others = [
        one.least_s(way) / links.seconds
        for one in links.nodes
        if one is not link
        for way in ("sends", "receives")
    ]
    rate = link.rates[direction] or 0.0
    told = (
        f"{show_bytes(link.nbytes[direction])} at {show_rate(rate)} are"
        f" {show_seconds(link.least_s(direction))} of {show_seconds(links.seconds)}"
    )
    if link.dropped:
        told += f"; {show_count(link.dropped, 'packet')} of both directions were dropped"
    return f"{told}; no other link was busy for more than {show_share(min(1.0, max(others)))}."


def _distant(evidence: Evidence, links: Links) -> Iterator[Finding]:
    """Slots that wait for the way to their scheduler and back whenever they have done a task."""
    far = _far(links)
    waits = {
        node: _gaps(evidence, node, round_trip_s)
        for node, round_trip_s in far.items()
        if round_trip_s >= NOTICED_S
    }
    known = {node: gaps for node, gaps in waits.items() if len(gaps) >= FEWEST_GAPS}
    share = evidence.share(sum(map(sum, known.values())))
    if share < NOTABLE:
        return
    node = max(known, key=lambda one: sum(known[one]))
    named = _nearer(links, node)
    number = sum(map(len, known.values()))
    yield Finding(
        DISTANCE,
        f"{named} is distant: {show_share(share)} of the slots' time went to waiting for round"
        f" trips of {show_seconds(far[node])}.",
        f"{show_count(number, 'gap')} between tasks on {show_list(sorted(known))} lasted as long as"
        " a message to the scheduler and back, or longer.",
        _near(evidence, named),
        share,
    )


def _far(links: Links) -> dict[str, float]:
    """The round trip of each worker to the scheduler."""
    scheduler = next((one for one in links.nodes if one.role == "scheduler"), None)
    own_s = scheduler.round_trip_s if scheduler else 0.0
    return {one.node: one.round_trip_s + own_s for one in links.nodes if one.role == "worker"}


def _nearer(links: Links, worker: str) -> str:
    """The node whose link makes the way long: the worker, or the scheduler."""

    def length(link: NodeLink) -> float:
        return link.round_trip_s

    ends = [one for one in links.nodes if one.node == worker or one.role == "scheduler"]
    return max(ends, key=length).node


def _gaps(evidence: Evidence, node: str, round_trip_s: float) -> list[int]:
    """The time of a round trip, for each gap between tasks of a node's slots that has room for
    one.
    """
    by_slot: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for attempt in evidence.attempts:
        if attempt.slot.partition("/")[0] == node:
            by_slot[attempt.slot].append((attempt.start_ns, attempt.end_ns))
    round_trip_ns = round(round_trip_s * 1e9)
    return [
        round_trip_ns
        for intervals in by_slot.values()
        for before, after in pairwise(merged(intervals))
        if after[0] - before[1] >= round_trip_ns
    ]


def _near(evidence: Evidence, node: str) -> str:
    advice = f"Place {node} nearer to the others, or run without it"
    times = remedies.larger(evidence, 4)
    if times > 1:
        advice += f"; blocks {times} times larger (--block-shape, --blocks) make fewer round trips"
    return f"{advice}."


def _transferring(evidence: Evidence) -> list[Finding]:
    """Slots without a task while workers fetched values from one another."""
    told = evidence.meta.get(TRANSFERS) or {}
    if not told:
        return []
    moved = Cover(merged(tuple(one) for one in told["intervals"]))
    waited = sum(moved.of(gap) for gap in _idle(evidence))
    share = evidence.share(waited)
    if share < NOTABLE:
        return []
    nbytes = sum(one[2] for one in told["pairs"])
    seconds = sum(one[3] for one in told["pairs"])
    odd = _odd(told["pairs"])
    sentence = (
        f"For {show_share(share)} of their time slots waited while workers fetched values from each"
        " other"
    )
    if odd is not None:
        sentence += f", most of all over the link of {odd.nodes[0]}"
    return [
        Finding(
            RULE,
            f"{sentence}.",
            f"{show_bytes(nbytes)} in transfers of {show_rate(nbytes / max(seconds, 1e-9))}"
            f"{_slower(odd)}.",
            _less_moved(odd),
            share,
        )
    ]


def _idle(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Intervals in which a slot had no task."""
    by_slot: dict[str, list[tuple[int, int]]] = {slot: [] for slot in evidence.slots}
    for attempt in evidence.attempts:
        by_slot[attempt.slot].append((attempt.start_ns, attempt.end_ns))
    when = evidence.when
    for busy in by_slot.values():
        edges = [when.ready_ns]
        for start, end in merged(busy):
            edges += [start, end]
        edges.append(when.end_ns)
        yield from (gap for gap in zip(edges[::2], edges[1::2], strict=True) if gap[1] > gap[0])


def _odd(pairs: Sequence[Sequence[Any]]) -> Odd | None:
    """The worker whose transfers were far slower than those of the others."""
    speeds = _speeds(pairs)
    both = [
        Pair(one, other, (0.0,), (speed,), (speeds[other, one],))
        for (one, other), speed in speeds.items()
        if one < other and (other, one) in speeds
    ]
    return next((odd for odd in standing_out(both) if len(odd.nodes) == 1), None)


def _speeds(pairs: Sequence[Sequence[Any]]) -> Mapping[tuple[str, str], float]:
    return {
        (source, target): nbytes / seconds for source, target, nbytes, seconds in pairs if seconds
    }


def _slower(odd: Odd | None) -> str:
    if odd is None:
        return ""
    return f"; what {odd.nodes[0]} {odd.way} comes {odd.times:.2g} times slower than the median"


def _less_moved(odd: Odd | None) -> str:
    if odd is not None:
        return OF_WORKER.format(node=odd.nodes[0])
    return (
        "Move fewer bytes: fewer workers with more threads each, larger blocks, or smaller results;"
        " 'hyperslab probe --network' tells whether one link is slower than the others."
    )
