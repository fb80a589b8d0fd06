"""What a spec says, and how each mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.network.lab import calibration
from hyperslab.network.lab.backends import emulator, kernel, netem
from hyperslab.network.lab.link import PACKET_NBYTES, Link, mode_for, parse_rate
from hyperslab.network.lab.spec import OneWay, load_spec
from hyperslab.units import show_bits
from tests.network.lab.labs import spec

WHOLE = """
name = "slow-worker"
backend = "emulator"

[nodes.scheduler]
rate = "1Gbit"
[nodes.w1]
delay = "5ms"
up = { rate = "100Mbit", loss = 0.02, jitter = "1ms" }
down = { rate = "1.5Gbit/s" }
[nodes.store]
role = "storage"
rate = "none"
"""


def test_a_link_is_what_the_file_says() -> None:
    lab = spec(WHOLE)
    assert (lab.name, lab.backend, lab.tolerance) == ("slow-worker", "emulator", 0.1)
    assert [lab.role(name) for name in lab.nodes] == ["scheduler", "worker", "storage"]
    both = Link(rate_bits=1_000_000_000)
    assert (lab.nodes["scheduler"].up_link(), lab.nodes["scheduler"].down_link()) == (both, both)
    up = Link(rate_bits=100_000_000, delay_ns=5_000_000, jitter_ns=1_000_000, loss=0.02)
    assert lab.nodes["w1"].up_link() == up
    assert lab.nodes["w1"].down_link() == Link(rate_bits=1_500_000_000)
    assert lab.nodes["store"].up_link() == Link()


def test_packets_that_stand_for_dozens_hold_no_slow_link() -> None:
    modes = [mode_for([Link(), Link(rate_bits=rate)]) for rate in (5_000_000, 20_000_000)]
    assert modes == ["exact", "exact"]
    assert mode_for([Link(), Link(rate_bits=21_000_000, delay_ns=5)]) == "gso"
    assert mode_for([Link(delay_ns=5, reorder=0.1)]) == "exact"


def test_queues_hold_so_long_and_some_packets() -> None:
    assert Link(rate_bits=100_000_000).waiting_ns == 50_000_000
    for rate_bits in (500_000, 2_000_000, 20_000_000):
        held = Link(rate_bits=rate_bits).waiting_ns / 1e9 * rate_bits / 8 / PACKET_NBYTES
        assert held == pytest.approx(100), "full packets, of which TCP begins with ten at once"


@pytest.mark.parametrize("rate_bits", [500_000, 5_000_000, 100_000_000])
def test_every_backend_has_the_same_queue(rate_bits: int) -> None:
    link = Link(rate_bits=rate_bits)
    held = [
        kernel._bucket(link, 0)["limit"],
        netem._settings(link)["limit"] * PACKET_NBYTES,
        emulator._settings(link)["queue_ns"] * rate_bits / 8e9,
    ]
    nbytes = max(rate_bits / 8 * 0.05, 100 * PACKET_NBYTES)
    assert all(abs(one - nbytes) < PACKET_NBYTES for one in held)


def test_losses_are_counted_of_a_thousand_packets_on_slow_links_too() -> None:
    number, duration_s = calibration._number(Link(rate_bits=500_000, loss=0.02))
    assert number == 1000
    assert number * 74 * 8 / duration_s == pytest.approx(0.25 * 500_000)
    assert calibration._number(Link(rate_bits=500_000))[0] == 63


def test_netem_is_asked_for_what_a_link_is() -> None:
    link = Link(rate_bits=8_000_000, delay_ns=25_000_000, loss=0.02, reorder=0.05)
    assert netem._settings(link) == {
        "rate": 1_000_000,
        "limit": 117,
        "delay": 25_000,
        "loss": 2,
        "prob_reorder": 5,
    }
    assert netem._settings(Link()) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[nodes]", "spec.toml:1: nodes: Dictionary should have at least 1 item"),
        ("[nodes.w1]\n\nrate = '5XB'", "spec.toml:3: nodes.w1.rate: rate 5XB: give a rate such as"),
        ("[nodes.w1]\nrate = 100", "spec.toml:2: nodes.w1.rate: should be text in quotes, not 100"),
        ("[nodes]\nw1 = 3", "spec.toml:2: nodes.w1: should be a table, not 3"),
        ("nodes = ['w1']", "spec.toml:1: nodes: should be a table"),
        ("[nodes.w1]\ndelya = '5ms'", "nodes.w1.delya: there is no such field (did you mean"),
        ("[nodes.w1]\n[nodes.w2]\nloss = 2", "spec.toml:3: nodes.w2.loss: should be less than 1"),
        (
            "[nodes.w1]\ndelay = '1ms'\njitter = '2ms'",
            "spec.toml:3: nodes.w1.jitter: is more than the delay",
        ),
        (
            "[nodes.w1]\n\nup = { reorder = 0.1 }",
            "spec.toml:3: nodes.w1.up.reorder: needs a delay",
        ),
        ("[nodes.w1]\ndown = { rate = '1kbit' }", "nodes.w1.down.rate: give 100 kbit/s or more"),
        ("[nodes.w1]\nup = { delay = '11s' }", "nodes.w1.up.delay: give 10.0 s or less"),
        ("[nodes.W1]", "spec.toml:1: nodes.W1: a node is named by up to 12 lower-case"),
        ("[nodes.switch]", "nodes.switch: a node is named by"),
        ("name = 'a/b'\n[nodes.w1]", "spec.toml:1: name: 'a/b' has to be up to 31"),
        ("network = '10.0.0.0/30'\n[nodes.a]\n[nodes.b]", "network: 10.0.0.0/30 has no room for 2"),
        ("network = '10.0.0.1/24'\n[nodes.a]", "network: 10.0.0.1/24 has host bits set"),
        ("backend = 'fast'\n[nodes.a]", "spec.toml:1: backend: should be 'auto', 'netem',"),
        ("name = ", "spec.toml:1: Invalid value"),
    ],
)
def test_mistakes_are_told_with_line_and_field(text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        spec(text)
    assert told in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load_spec(tmp_path / "none.toml")


def test_what_is_not_said_stays() -> None:
    link = Link(rate_bits=1_000_000, delay_ns=5_000_000, loss=0.1)
    assert OneWay(loss=0.0).over(link) == Link(rate_bits=1_000_000, delay_ns=5_000_000)
    assert OneWay(rate="none").over(link).rate_bits is None
    assert OneWay().over(link) == link


@pytest.mark.parametrize(
    ("text", "bits"),
    [("100Mbit", 100_000_000), ("1.5 Gbit/s", 1_500_000_000), ("250kbit", 250_000), ("7", 7)],
)
def test_rates_are_bits_per_second(text: str, bits: int) -> None:
    assert parse_rate("--rate", text) == bits


@pytest.mark.parametrize("text", ["", "fast", "-1Mbit", "1MB", "1Tbit", "1e9"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        parse_rate("--rate", text)


def test_rates_are_shown_with_three_digits() -> None:
    shown = [show_bits(bits) for bits in (1e9, 95_600_000, 999_960_000, 128_000, 10)]
    assert shown == ["1 Gbit/s", "95.6 Mbit/s", "1 Gbit/s", "128 kbit/s", "10 bit/s"]
