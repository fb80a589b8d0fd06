"""Packets are lost, overtaken, split and counted as asked for, and hostile ones do no harm."""

from __future__ import annotations

import itertools
import time
from typing import Any

from tests.network.links.switched import MS, Switched, round_trips_s
from tests.network.links.traffic import datagrams, malformed_frames, pumping


def test_packets_are_lost_as_often_as_asked_for(exact: Switched) -> None:
    datagrams(exact, 1)
    exact.set(0, up={"loss": 0.1})
    before = exact.get()
    arrived = datagrams(exact, 2_000)
    up = exact.get()["ports"]["n0"]["up"]["drops"]
    lost = up["loss"] - before["ports"]["n0"]["up"]["drops"]["loss"]
    overflown = up["tap"] - before["ports"]["n0"]["up"]["drops"]["tap"]
    assert 133 < lost < 267, "five standard deviations"
    assert abs(2_000 - lost - overflown - len(arrived)) <= 2, (
        "a question for an address may be lost"
    )


def test_packets_overtake_where_that_is_asked_for(exact: Switched) -> None:
    datagrams(exact, 1)
    exact.set(0, up={"delay_ns": 20 * MS, "reorder": 0.2})
    arrived = datagrams(exact, 500, gap_s=1e-4)
    assert sorted(arrived) == list(range(500))
    assert sum(later < sooner for sooner, later in itertools.pairwise(arrived)) >= 5


def test_super_packets_pass_and_count_as_what_they_become(gso: Switched) -> None:
    before = gso.get()["ports"]["n0"]["up"]
    with pumping(gso) as pump:
        time.sleep(0.3)
    after = gso.get()["ports"]["n0"]["up"]
    packets, nbytes, frames = (
        after[what] - before[what] for what in ("packets", "bytes", "frames")
    )
    assert packets > 5 * frames
    assert pump.arrived_nbytes + 54 * packets <= nbytes <= pump.arrived_nbytes * 1.06
    assert nbytes / packets <= 1_514


def test_exact_packets_are_one_each(exact: Switched) -> None:
    with pumping(exact):
        time.sleep(0.1)
    up = exact.get()["ports"]["n0"]["up"]
    assert up["packets"] == up["frames"]
    assert up["bytes"] / up["packets"] <= 1_514


def test_loss_is_refused_where_packets_come_several_at_once(gso: Switched) -> None:
    lossy = {"set": {"n1": {"up": {"loss": 0.01}}}}
    error = gso.ask(lossy)["error"]
    assert error.startswith('port "n1", up: loss and reorder are of single packets')
    assert gso.get()["ports"]["n1"]["up"]["link"]["loss"] == 0


def test_requests_that_are_none_are_told(gso: Switched) -> None:
    assert gso.ask({"set": {"n7": {}}}) == {"error": 'there is no port "n7"'}
    assert gso.ask("delay, please")["error"].startswith("no request: ")
    assert gso.ask({"set": {"n0": {"up": {"rate_bits": 0}}}})["error"].startswith('port "n0", up: ')
    assert set(gso.get()) == {
        "mode",
        "ports",
        "late",
        "time_ns",
        "cpu_ns",
        "waited_ns",
        "scheduling",
    }


def test_what_the_program_was_late_is_told(either: Switched) -> None:
    either.set(0, up={"delay_ns": 1 * MS})
    before = either.get()
    round_trips_s(either, 20)
    after = either.get()
    counted = sum(after["late"]["powers_us"]) - sum(before["late"]["powers_us"])
    carried = [
        sum(port["down"]["frames"] for port in one["ports"].values()) for one in (before, after)
    ]
    assert counted == carried[1] - carried[0] >= 40
    assert after["late"]["total_ns"] > before["late"]["total_ns"]
    assert after["cpu_ns"] > before["cpu_ns"] > 0
    assert after["scheduling"] in ("rr", "other")


def handed_over(report: Any) -> int:
    """Frames that nodes have received."""
    return sum(port["down"]["frames"] for port in report["ports"].values())


def test_hostile_frames_do_no_harm(either: Switched) -> None:
    mode = either.get()["mode"]
    before = either.get()["ports"]["n0"]["up"]
    malformed_frames(either, 2_000, with_header=mode == "gso")
    after = either.get()["ports"]["n0"]["up"]
    assert after["frames"] - before["frames"] > 500
    assert either.process.poll() is None
    assert len(round_trips_s(either, 3)) == 3
