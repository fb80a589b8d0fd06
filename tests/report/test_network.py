"""What the verdict says of links and transfers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperslab.report.links import links_html
from hyperslab.report.messages.moving import moving
from hyperslab.trace import Span, Trace
from hyperslab.traffic import Traffic
from tests.report.made_traces import MB, S, found, of, rules, span, trace

ROLES = {"scheduler": "scheduler", "client": "client", "w1": "worker", "w2": "worker"}


def network(
    sent: dict[str, int],
    delays_ms: dict[str, int] | None = None,
    seconds: float = 10.0,
    bound: str = "",
) -> dict[str, Any]:
    """A laboratory of links of 80 Mbit/s, and the bytes that its nodes have sent."""
    delays = delays_ms or {}
    lab = {
        "name": "made",
        "backend": "emulator",
        "nodes": [
            {
                "name": name,
                "role": role,
                "up": {"rate_bits": 80 * MB, "delay_ns": delays.get(name, 0) * 10**6},
                "down": {"rate_bits": None, "delay_ns": 0},
            }
            for name, role in ROLES.items()
        ],
    }
    links = [
        {"node": name, "sent_nbytes": sent.get(name, 0), "received_nbytes": 0, "dropped": {}}
        for name in ROLES
    ]
    return {"lab": lab, "usage": {"seconds": seconds, "links": links, "bound": bound}}


def changed(node: str) -> dict[str, Any]:
    """A laboratory whose node has a full link, by a rate that was changed meanwhile."""
    return {**network({node: 80 * MB}), "changed": [node]}


def waiting(cpu: float = 0.02) -> list[Span]:
    """Two slots whose functions wait for 10 s, but for a share of the time."""
    return [span(f"w{n}/t0", n, "compute", 0.0, 10.0, cpu=cpu) for n in range(2)]


def test_a_link_that_was_busy_is_named_with_the_remedy() -> None:
    run = trace(waiting(), network=network({"w1": 80 * MB, "w2": 20 * MB}))
    finding = found(run, "network")
    assert of(run).findings[0].rule == "network"
    assert "waiting-function" not in rules(run)
    assert finding.share == pytest.approx(0.8)
    assert finding.sentence == (
        "The link of w1 limited the run: what it sends takes 80 % of the time at least."
    )
    assert finding.evidence == (
        "80.0 MB at 10.0 MB/s are 8.00 s of 10.0 s; no other link was busy for more than 20 %."
    )
    assert finding.advice == (
        "Give w1 a faster link, or run without it: the others wait for what it has."
    )
    full = network({"w1": 80 * MB, "w2": 20 * MB})
    full["usage"]["links"][2]["dropped"] = {"queue": 40, "loss": 2}
    said = found(trace(waiting(), network=full), "network").evidence
    assert "; 42 packets of both directions were dropped; no other" in said
    section = links_html(run.meta)
    assert "<th>w1</th>" in section
    assert "80 %" in section
    scheduler = found(trace(waiting(), network=network({"scheduler": 90 * MB})), "network")
    assert scheduler.advice.startswith("Give scheduler a faster link: all that")
    assert "The link of w1 was changed meanwhile" in links_html({"network": changed("w1")})


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (trace(waiting(cpu=0.95), network=network({"w1": 80 * MB})), "compute binds"),
        (trace(waiting(), network=network({"w1": 40 * MB})), "the link was idle for most"),
        (trace(waiting(), network=network({"w1": 80 * MB}, bound="CPU-bound")), "no processors"),
        (trace(waiting()), "no laboratory"),
        (trace(waiting(), network=changed("w1")), "its rate was another one for a while"),
    ],
)
def test_no_network_is_blamed_for_what_it_did_not_do(run: Trace, why: str) -> None:
    assert not any(rule.startswith("network") for rule in rules(run)), why


def test_a_short_run_tells_nothing() -> None:
    short = [span("w0/t0", 0, "compute", 0.0, 0.5)]
    run = trace(short, end_ns=S // 2, network=network({"w1": 5 * MB}, seconds=0.5))
    assert of(run).findings == ()


def far(rounds: int = 10, gap_s: float = 0.3) -> list[Span]:
    """Two slots on nodes of a laboratory, of which one pauses between its tasks."""
    slow = [on("w1", number, number * (0.2 + gap_s), 0.2) for number in range(rounds)]
    steady = round(rounds * (0.2 + gap_s) / 0.21)
    return slow + [on("w2", 100 + number, number * 0.21, 0.2) for number in range(steady)]


def on(node: str, task: int, start_s: float, length_s: float) -> Span:
    made = span("w0/t0", task, "compute", start_s, length_s, cpu=1.0)
    return replace(made, slot=f"{node}/w0/t0")


def of_nodes(spans: list[Span], record: dict[str, Any]) -> Trace:
    """A run whose slots are on nodes."""
    made = trace(spans, network=record)
    return Trace(made.spans, ["w1/w0/t0", "w2/w0/t0"], meta=made.meta)


def test_a_distant_node_is_named_by_the_gaps_of_its_slots() -> None:
    run = of_nodes(far(), network({}, {"w1": 290}))
    finding = found(run, "network-distance")
    assert finding.sentence.startswith("w1 is distant: 2")
    assert finding.advice.startswith("Place w1 nearer to the others, or run without it")
    late = of_nodes(far(), network({}, {"scheduler": 290}))
    assert found(late, "network-distance").sentence.startswith("scheduler is distant")
    near = of_nodes(far(), network({}, {"w1": 2}))
    assert "network-distance" not in rules(near)


def test_transfers_while_slots_had_no_task() -> None:
    spans = [span("w0/t0", 0, "compute", 0.0, 4.0, cpu=1.0)]
    spans += [span("w1/t0", 1, "compute", 0.0, 10.0, cpu=1.0)]
    pairs = [["worker a", "worker b", 60 * MB, 6.0]]
    moved = {"intervals": [[3 * S, 10 * S]], "pairs": pairs}
    finding = found(trace(spans, transfers=moved), "network")
    assert finding.share == pytest.approx(0.3)
    assert "transfers of 10.0 MB/s" in finding.evidence
    assert "hyperslab probe --network" in finding.advice
    busy = [span("w0/t0", 0, "compute", 0.0, 10.0, cpu=1.0), spans[1]]
    assert "network" not in rules(trace(busy, transfers=moved))


def test_the_worker_whose_transfers_are_slow_is_named() -> None:
    names = ("worker a", "worker b", "worker c")
    pairs = [
        [one, other, 100 * MB, 20.0 if "worker b" in (one, other) else 1.0]
        for one in names
        for other in names
        if one != other
    ]
    spans = [span("w0/t0", 0, "compute", 0.0, 1.0, cpu=1.0)]
    spans += [span("w1/t0", 1, "compute", 9.0, 1.0, cpu=1.0)]
    run = trace(spans, transfers={"intervals": [[S, 9 * S]], "pairs": pairs})
    finding = found(run, "network")
    assert finding.sentence.endswith("most of all over the link of worker b.")
    assert finding.advice.startswith("Give worker b a faster link")
    assert "20 times slower than the median" in finding.evidence


def test_transfers_become_a_few_numbers_on_the_clock_of_the_trace() -> None:
    anchor = {"time_ns": 50 * S, "monotonic_ns": 20 * S}
    told = [
        {"start_ns": 51 * S, "end_ns": 52 * S, "source": "h:1", "target": "h:2", "nbytes": 5},
        {"start_ns": 51 * S, "end_ns": 53 * S, "source": "h:1", "target": "h:2", "nbytes": 6},
        {"start_ns": 60 * S, "end_ns": 61 * S, "source": "h:2", "target": "h:1", "nbytes": 7},
    ]
    nodes = {"h:1": "worker a", "h:2": "worker b"}
    traffic = Traffic.of([], meta={"nodes": nodes, "transfers": told})
    run = trace([span("w0/t0", 0, "compute", 0.0, 1.0)], wall_anchor=anchor)
    assert moving(traffic, run) == {
        "intervals": [[21 * S, 23 * S], [30 * S, 31 * S]],
        "pairs": [["worker a", "worker b", 11, 3.0], ["worker b", "worker a", 7, 1.0]],
    }
    assert moving(Traffic.of([]), run) == {}
