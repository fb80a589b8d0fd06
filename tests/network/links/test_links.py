"""Links between real namespaces are as slow, distant and lossy as they were asked to be.

Lower bounds of times are exact. Upper ones leave room for a machine that is busy with other things.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.network.links.namespaces import ip, namespaces, within
from tests.network.links.switched import (
    MS,
    Switched,
    command,
    config,
    end,
    mac,
    program,
    round_trips_s,
    start,
    switched,
)
from tests.network.links.traffic import datagrams, malformed_frames, pumping
from tests.system.faults.command import await_that

MBIT = 1_000_000
CAUSES = {"loss", "queue", "tap", "memory", "malformed"}


@pytest.fixture(scope="module")
def exact_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    with switched(tmp_path_factory.mktemp("exact"), "exact") as one:
        yield one


@pytest.fixture(scope="module")
def gso_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    with switched(tmp_path_factory.mktemp("gso"), "gso") as one:
        yield one


@pytest.fixture
def exact(exact_nodes: Switched) -> Switched:
    exact_nodes.free()
    return exact_nodes


@pytest.fixture
def gso(gso_nodes: Switched) -> Switched:
    gso_nodes.free()
    return gso_nodes


@pytest.fixture(params=["exact", "gso"])
def either(request: pytest.FixtureRequest) -> Switched:
    one: Switched = request.getfixturevalue(request.param)
    return one


def drops(report: Any) -> dict[str, int]:
    """Packets that were not carried, by their cause, on all links together."""
    links = [link for port in report["ports"].values() for link in port.values()]
    return {cause: sum(link["drops"][cause] for link in links) for cause in CAUSES}


def test_delays_of_both_nodes_add_up(either: Switched) -> None:
    plain = min(round_trips_s(either, 20))
    either.set(0, up={"delay_ns": 5 * MS})
    either.set(1, up={"delay_ns": 3 * MS}, down={"delay_ns": 2 * MS})
    assert 0.010 <= min(round_trips_s(either, 20)) < 0.015 + plain


def test_a_rate_is_kept(either: Switched) -> None:
    either.set(0, up={"rate_bits": 50 * MBIT})
    before = either.get()
    with pumping(either) as pump:
        rate = pump.rate_bits(1.0)
    after = either.get()
    carried = after["ports"]["n0"]["up"]["bytes"] - before["ports"]["n0"]["up"]["bytes"]
    elapsed_s = (after["time_ns"] - before["time_ns"]) / 1e9
    assert carried * 8 <= 50 * MBIT * (elapsed_s + 0.06), "the queue is of 50 ms"
    assert 30 * MBIT < rate < 55 * MBIT


def test_the_link_down_of_a_node_is_one_of_its_own(exact: Switched) -> None:
    exact.set(1, down={"rate_bits": 5 * MBIT})
    with pumping(exact) as pump:
        assert pump.rate_bits(0.5) < 8 * MBIT
    with pumping(exact, source=1, target=0) as pump:
        assert pump.rate_bits(0.5) > 20 * MBIT


def test_a_link_changes_while_something_runs(either: Switched) -> None:
    either.set(0, up={"rate_bits": 5 * MBIT})
    with pumping(either) as pump:
        slow = pump.rate_bits(0.5)
        either.set(0, up={"rate_bits": 100 * MBIT})
        time.sleep(0.2)
        assert pump.rate_bits(0.5) > 3 * slow


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


def test_jitter_keeps_the_order(exact: Switched) -> None:
    exact.set(0, up={"delay_ns": 5 * MS, "jitter_ns": 4 * MS})
    before = exact.get()
    arrived = datagrams(exact, 1_000, gap_s=1e-4)
    assert arrived == list(range(1_000))
    overtakings = out_of_order(exact, 1)
    with pumping(exact, room=1 << 16) as pump:
        time.sleep(0.5)
    assert pump.arrived_nbytes > 1 << 18
    assert drops(exact.get()) == drops(before)
    assert out_of_order(exact, 1) == overtakings


def test_packets_overtake_where_that_is_asked_for(exact: Switched) -> None:
    datagrams(exact, 1)
    exact.set(0, up={"delay_ns": 20 * MS, "reorder": 0.2})
    arrived = datagrams(exact, 500, gap_s=1e-4)
    assert sorted(arrived) == list(range(500))
    assert sum(later < sooner for sooner, later in itertools.pairwise(arrived)) >= 5


def out_of_order(one: Switched, node: int) -> int:
    """Segments that a node has received before those in front of them."""
    shown = within(one.nodes[node], Path("/proc/thread-self/net/netstat").read_text)
    names, numbers = [line.split() for line in shown.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(names, numbers, strict=True))["TCPOFOQueue"])


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


def test_a_device_that_somebody_removes_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with switched(tmp_path, "exact") as one:
        ip("-n", one.nodes[1].name, "link", "delete", "eth0")
        before = one.get()
        time.sleep(0.3)
        after = one.get()
    assert after["cpu_ns"] - before["cpu_ns"] < 0.1e9, "it waits, and does not try again and again"
    assert capfd.readouterr().err == 'the device "eth0" of port "n1" was removed\n'


def test_it_ends_by_a_signal_and_takes_its_devices_along(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        process = start(tmp_path, config(nodes, "gso"))
        shown = devices(nodes[0])
        assert f"link/ether {mac(0)}" in shown
        assert "qlen 1000" in shown
        process.send_signal(signal.SIGTERM)
        end(process)
        assert "eth0" not in devices(nodes[0])
    assert sorted(os.listdir(tmp_path)) == ["links.json"]


PARENT = """
import sys, time
from pathlib import Path
from tests.network.links.switched import config, start
process = start(Path(sys.argv[1]), config([Path(sys.argv[2])], "exact"))
print(process.pid, flush=True)
time.sleep(1000)
"""


def test_it_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(tmp_path), str(nodes[0])],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert parent.stdout is not None
        with parent.stdout as told:
            pid = int(told.readline())
        assert "eth0" in devices(nodes[0])
        parent.kill()
        parent.wait()
        await_that(f"the end of process {pid}", lambda: "eth0" not in devices(nodes[0]))


def devices(node: Path) -> str:
    """What ip shows of the devices of a node."""
    done = subprocess.run(
        ["ip", "-n", node.name, "link", "show"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        good = config(nodes, "gso")
        ip("-n", nodes[0].name, "tuntap", "add", "eth0", "mode", "tap")
        assert "it cannot be made: " in refusal(tmp_path, good)
        ip("-n", nodes[0].name, "tuntap", "delete", "eth0", "mode", "tap")
        (tmp_path / "control").touch()
        assert "control cannot be made: Address already in use" in refusal(tmp_path, good)
        assert "eth0" not in devices(nodes[0])
    assert f"{nodes[0]} cannot be opened: No such file" in refusal(tmp_path, good)
    lossy = config(nodes, "gso", up={"loss": 0.1})
    assert 'port "n0", up: loss and reorder are of single packets' in refusal(tmp_path, lossy)
    assert "links.json: missing field `mode`" in refusal(tmp_path, {})
    wrong = subprocess.run([program(), "links.json"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "see --help" in wrong.stderr


def refusal(folder: Path, told: object) -> str:
    """What the program says that does not start."""
    process = subprocess.run(
        command(folder, told),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (1, "")
    return process.stderr
