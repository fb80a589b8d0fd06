"""What links have dropped stays counted as long as there is the laboratory; what tests look at."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from hyperslab.network.lab import change, laboratory
from hyperslab.network.lab.backends.choosing import BACKENDS
from hyperslab.network.lab.namespaces import network_file, within
from hyperslab.network.lab.registry import Lab
from hyperslab.network.lab.spec import OneWay
from tests.network.lab.labs import TOLERANT, require, spec

KERNEL = f'{TOLERANT}backend = "kernel"\n[nodes.scheduler]\n'


def test_counters_go_on_when_a_link_changes(records: Path) -> None:
    """What queues and rules have dropped is not forgotten with them."""
    require("kernel")
    with laboratory(spec(KERNEL)) as lab:
        _require_counters_to_go_on(lab)


def _require_counters_to_go_on(kernel: Lab) -> None:
    first = BACKENDS["kernel"].read(kernel)
    slow = change(kernel, "scheduler", OneWay(rate="20Mbit", loss=0.05))
    _fill(slow)
    lossy = BACKENDS["kernel"].read(slow).since(first).links["scheduler"]["up"].drops
    assert min(lossy["queue"], lossy["loss"]) > 0, lossy
    for said in (OneWay(rate="30Mbit", loss=0.02), OneWay(rate="none", loss=0.0)):
        slow = change(slow, "scheduler", said)
        read = BACKENDS["kernel"].read(slow).since(first)
        assert read.links["scheduler"]["up"].drops == lossy, said
    again = change(slow, "scheduler", OneWay(rate="20Mbit", loss=0.05))
    _fill(again)
    more = BACKENDS["kernel"].read(again).since(first).links["scheduler"]["up"].drops
    assert more["queue"] > lossy["queue"]
    assert more["loss"] > lossy["loss"]


def _fill(lab: Lab) -> None:
    """Send more datagrams from a node than its queue holds, and wait until all are under way."""
    node = network_file(lab.place, "scheduler")
    with within(node, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        for _ in range(1000):
            sending.sendto(bytes(1400), (lab.switch_address, 9))
    time.sleep(0.3)


HOSTS = """
import subprocess, sys
from tests.network.lab.labs import host
before = host()
for change in sys.argv[1:]:
    subprocess.run(["sh", "-c", change], check=True)
    now = host()
    if now == before:
        print(change)
    before = now
"""
UNSEEN = "true"
CHANGES = (
    UNSEEN,
    "ip link add l0 type bridge",
    "ip addr add 192.0.2.1 dev lo",
    "ip rule add from 192.0.2.1 lookup 7",
    "nft add table ip mine",
    "echo 1 > /proc/sys/net/ipv4/ip_forward",
)


def test_what_a_laboratory_could_touch_is_looked_at() -> None:
    """In a network that stands for this host's."""
    require("kernel")
    words = ["unshare", "--net", sys.executable, "-c", HOSTS, *CHANGES]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100).stdout
    assert said.splitlines() == [UNSEEN]
