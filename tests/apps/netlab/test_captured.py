"""What the recorder says is what a capture in a laboratory says, over links that lose packets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from hyperslab import engines
from hyperslab.apps.netlab.keeper import Asked, nodes_of
from hyperslab.engines.dask import recording
from hyperslab.network.capture.decoding import decode
from hyperslab.network.lab import laboratory
from hyperslab.network.lab.registry import Lab
from tests.engines.captured import counts_of, directions_of, ends_of, without_tcpdump
from tests.network.lab.labs import TOLERANT, require, spec
from tests.system.clusters.required import required
from tests.system.faults.command import await_that

LOSSY = (
    f'{TOLERANT}backend = "emulator"\n'
    "[nodes.scheduler]\nup = { loss = 0.03 }\ndown = { loss = 0.03 }\n"
    "[nodes.client]\n[nodes.w1]\n[nodes.w2]\n"
)
LINGER_S = 2.0
"Time after the last process in which the kernel sends again what was lost."
LAST = (19532, 19533)
"Ports of the last packet of a capture, to which nobody listens."
PROGRAM = """
import sys
import numpy as np
from distributed import Client

def made(number):
    return np.full(100_000 + number, number, np.uint8)

with Client(sys.argv[1]) as client:
    client.wait_for_workers(2)
    parts = client.gather(client.map(made, range(12)), direct=False)
    assert [len(part) for part in parts] == [100_000 + number for number in range(12)]
    client.shutdown()
"""


def test_recorder_and_capture_agree_where_packets_are_lost(records: Path, tmp_path: Path) -> None:
    """On all that the scheduler has said and heard, as its own node has captured it."""
    require("emulator")
    required(without_tcpdump())
    told = recording.settings(tmp_path / "messages")
    with laboratory(spec(LOSSY)) as lab, _captured(lab, tmp_path / "f.pcap"):
        _play(lab, tmp_path, told)
    captured = decode(tmp_path / "f.pcap")
    recorded = recording.gathered(tmp_path / "messages")
    assert recorded.meta["notes"] == []
    assert recorded.meta["processes"] == 4
    again = [one["retransmissions"] for one in captured.meta["directions"]]
    assert sum(again) > 0, "packets were lost"
    known = directions_of(captured) & ends_of(recorded)
    scheduler = lab["scheduler"].address
    said = {pair for pair in known if pair[0].startswith(f"{scheduler}:")}
    heard = known - said
    assert len(said) >= 3
    assert len(heard) >= 3
    sent = recorded.columns["is_sent"]
    of_packets = counts_of(captured, said)
    assert counts_of(recorded.where(sent), said) == of_packets
    assert of_packets["compute-task"][0] >= 12
    assert counts_of(captured, heard)["reply:get_data"][1] > 12 * 100_000
    _require_same(counts_of(recorded.where(~sent), heard), counts_of(captured, heard), len(heard))


def _require_same(
    heard: Mapping[str, tuple[int, int]], arrived: Mapping[str, tuple[int, int]], ways: int
) -> None:
    """What has arrived was received, but for last words that nobody has waited for."""
    unheard = {name: arrived[name][0] - heard.get(name, (0, 0))[0] for name in arrived}
    assert heard.keys() <= arrived.keys()
    assert all(missing >= 0 for missing in unheard.values()), unheard
    assert sum(unheard.values()) <= ways, unheard
    assert all(heard[name] == arrived[name] for name in arrived if not unheard[name])


def _play(lab: Lab, folder: Path, told: Mapping[str, str]) -> None:
    """A program on a cluster of the laboratory, from the first process to the end of the last."""
    asked = Asked(spec(LOSSY), "dask-futures", 1, 0, str(folder))
    cluster = engines.cluster_on("dask-futures", nodes_of(lab, asked))
    with ExitStack() as ends:
        for command in cluster.commands:
            environment = {**os.environ, **command.environment, **told}
            ends.enter_context(_running(lab, command.node, command.words, environment))
        program = [sys.executable, "-c", PROGRAM, cluster.arguments[-1]]
        environment = {**os.environ, **told}
        subprocess.run([*lab.prefix("client"), *program], env=environment, check=True, timeout=100)


@contextmanager
def _running(
    lab: Lab, node: str, words: Sequence[str], environment: Mapping[str, str]
) -> Iterator[None]:
    """A process of a node, whose end is awaited."""
    process = subprocess.Popen(
        [*lab.prefix(node), *words], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield
        process.wait(60)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _captured(lab: Lab, path: Path) -> Iterator[None]:
    """All packets of the scheduler's node while the block runs."""
    dump = ["tcpdump", "-i", "eth0", "-B", "65536", "-U", "-w", str(path), "tcp"]
    node = lab.prefix("scheduler")
    process = subprocess.Popen([*node, *dump], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "listening on eth0" in process.stderr.readline()
        yield
        time.sleep(LINGER_S)
        _send_last(lab, path)
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=100)
    assert "0 packets dropped by kernel" in said, said


def _send_last(lab: Lab, path: Path) -> None:
    """Have all be written that came before one more packet."""
    own, other = (lab[name].address for name in ("scheduler", "w1"))
    code = (
        "import socket; last = socket.socket(); last.settimeout(0.2);"
        f" last.bind(('{own}', {LAST[0]})); last.connect_ex(('{other}', {LAST[1]}))"
    )
    subprocess.run([*lab.prefix("scheduler"), sys.executable, "-S", "-c", code], check=True)
    ports = b"".join(port.to_bytes(2, "big") for port in LAST)
    last = IPv4Address(own).packed + IPv4Address(other).packed + ports
    await_that("the last packet", lambda: last in path.read_bytes())
