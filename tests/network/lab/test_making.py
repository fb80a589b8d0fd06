"""Laboratories of every backend: their links do what was asked for, and this host is as before."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.network.lab import change, laboratory, make, probes, registry, remove, wiring
from hyperslab.network.lab.backends.choosing import BACKENDS
from hyperslab.network.lab.link import PACKET_NBYTES
from hyperslab.network.lab.namespaces import LabFailed, network_file, within
from hyperslab.network.lab.registry import SWITCH, Lab
from hyperslab.network.lab.spec import OneWay
from tests.network.lab.labs import TOLERANT, by_chance, host, require, require_program, run, spec

KERNEL = """
backend = "kernel"
[nodes.scheduler]
[nodes.w-1]
up = { rate = "200Mbit" }
down = { rate = "50Mbit" }
"""
EMULATED = """
backend = "emulator"
[nodes.scheduler]
rate = "400Mbit"
[nodes.w-1]
delay = "20ms"
jitter = "4ms"
down = { loss = 0.05 }
"""
NETEM = """
backend = "netem"
[nodes.scheduler]
rate = "400Mbit"
[nodes.w-1]
delay = "20ms"
reorder = 0.05
down = { loss = 0.05 }
"""
TIMES = 3
"Tries of what another program may disturb."
PINGS = 300


@pytest.fixture(scope="module")
def before(records: Path) -> tuple[str, ...]:
    """This host's network, before there is a laboratory."""
    require()
    return host()


@pytest.fixture(scope="module")
def kernel(before: tuple[str, ...]) -> Iterator[Lab]:
    """A laboratory of the kernel's own queues."""
    require("kernel")
    with laboratory(spec(TOLERANT + KERNEL)) as lab:
        yield lab


@pytest.fixture(scope="module")
def emulated(before: tuple[str, ...]) -> Iterator[Lab]:
    """A laboratory of emulated links."""
    require("emulator")
    with laboratory(spec(TOLERANT + EMULATED)) as lab:
        yield lab


@pytest.fixture(scope="module")
def netem(before: tuple[str, ...]) -> Iterator[Lab]:
    """A laboratory of the kernel's emulator, where there is one."""
    require("netem")
    with laboratory(spec(TOLERANT + NETEM)) as lab:
        yield lab


@pytest.fixture(params=["kernel", "emulated", "netem"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """Each of them."""
    made: Lab = request.getfixturevalue(request.param)
    return made


def test_every_link_was_measured(lab: Lab) -> None:
    whats = [(one.node, one.what) for one in lab.measured]
    each = ["rate up", "rate down", "round trip", "delay up", "loss up", "delay down", "loss down"]
    assert whats == [(node.name, what) for node in lab.nodes for what in each]
    assert all(one.is_right for one in lab.measured)
    asked = [one.asked for one in lab.measured if one.what == "rate down"]
    assert asked == [node.down.rate_bits for node in lab.nodes]
    one_way = {one.what: one.value for one in lab.measured if one.node == "w-1"}
    longer_s = (lab["w-1"].up.delay_ns - lab["w-1"].down.delay_ns) / 1e9
    assert one_way["delay up"] - one_way["delay down"] == pytest.approx(longer_s, abs=0.01)


def test_nodes_have_names_and_reach_each_other_alone(lab: Lab) -> None:
    script = "uname -n; getent ahostsv4 scheduler; cat /proc/net/route"
    said = run(lab, "w-1", ["sh", "-c", script])
    assert said.startswith("w-1\n")
    assert lab["scheduler"].address in said
    routes = [line.split() for line in said.splitlines() if line.startswith("eth0")]
    assert [route[2] for route in routes] == ["00000000"]  # none by way of anybody
    assert run(lab, "scheduler", ["uname", "-n"]) == "scheduler\n"
    assert socket.gethostname() != "w-1"


def test_the_process_that_enters_becomes_the_command(lab: Lab) -> None:
    command = [*lab.prefix("w-1"), "sh", "-c", "echo $$; read line; exit 7"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.communicate("\n")
    assert process.returncode == 7


def test_a_connection_goes_from_node_to_node(lab: Lab) -> None:
    listening = within(network_file(lab.place, "scheduler"), lambda: _listen(lab))
    with listening:
        place = f"/dev/tcp/scheduler/{listening.getsockname()[1]}"
        fetch = ["bash", "-c", f"exec 3<>{place}; echo from w-1 >&3; cat <&3"]
        command = [*lab.prefix("w-1"), *fetch]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            connection, (address, _) = listening.accept()
            with connection:
                assert connection.recv(64) == b"from w-1\n"
                connection.sendall(b"hello")
            assert process.communicate(timeout=30)[0] == "hello"
    assert address == lab["w-1"].address


def _listen(lab: Lab) -> socket.socket:
    listening = socket.create_server((lab["scheduler"].address, 0))
    listening.settimeout(30)
    return listening


def test_ping_agrees(lab: Lab) -> None:
    require_program("ping", "iputils-ping")
    asked_ms = sum(node.up.delay_ns + node.down.delay_ns for node in lab.nodes) / 1e6
    jitter_ms = sum(node.up.jitter_ns for node in lab.nodes) / 1e6
    asked = [*("ping", "-q", "-i", "0.005", "-W", "1", "-c"), str(PINGS), "w-1"]
    said = run(lab, "scheduler", asked)
    found = float(said.rpartition("= ")[2].split("/")[0])  # min/avg/max/mdev
    assert asked_ms - jitter_ms <= found <= asked_ms + jitter_ms + 5
    arrived = int(said.partition(" received")[0].split()[-1])
    least, most = by_chance(lab["w-1"].down.loss, PINGS)
    assert least <= PINGS - arrived <= most


def test_numbers_of_losses_that_chance_explains() -> None:
    assert by_chance(0.0, PINGS) == (0, 0)
    least, most = by_chance(0.05, PINGS)
    assert 0 < least / PINGS < 0.05 < most / PINGS < 0.14


def test_iperf3_agrees(kernel: Lab) -> None:
    require_program("iperf3", "iperf3")
    for words, asked in (([], 200e6), (["-R"], 50e6)):
        _require_rate(kernel, words, asked)


def test_iperf3_agrees_with_the_emulator(emulated: Lab) -> None:
    """On a link of 20 ms, whose other direction loses packets, so that answers are lost, too."""
    require_program("iperf3", "iperf3")
    slow = change(emulated, "scheduler", OneWay(rate="10Mbit"))
    try:
        _require_rate(slow, [], 10e6)
    finally:
        change(slow, "scheduler", OneWay(rate=_words(emulated["scheduler"].up.rate_bits)))


def _require_rate(lab: Lab, words: list[str], asked: float) -> None:
    rates = []
    for _ in range(TIMES):
        rates.append(_iperf3(lab, words))
        if rates[-1] > 0.85 * asked:
            break
    assert 0.85 * asked < max(rates) < 1.1 * asked


def _iperf3(lab: Lab, words: list[str]) -> float:
    """Bits per second of what w-1 sends, or is sent."""
    serve = [*lab.prefix("scheduler"), "iperf3", "-s", "-1", "--forceflush"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "Server listening" not in server.stdout.readline():
            assert server.poll() is None
        client = ["iperf3", "-J", "-t", "1", "-c", "scheduler", *words]
        told = json.loads(run(lab, "w-1", client))
        server.communicate(timeout=30)
    rate: float = told["end"]["sum_received"]["bits_per_second"]
    return rate


def test_a_link_changes_while_something_goes_over_it(kernel: Lab) -> None:
    changed = change(kernel, "scheduler", OneWay(rate="40Mbit"))
    pump = _Pump(changed)
    try:
        slow = pump.rate_bits()
        changed = change(kernel, "scheduler", OneWay(rate="160Mbit"))
        fast = pump.rate_bits()
        changed = change(changed, "scheduler", OneWay(loss=0.05))
        pump.rate_bits()
        read = BACKENDS["kernel"].read(changed).links["scheduler"]
    finally:
        pump.end()
        change(changed, "scheduler", OneWay(rate="none", loss=0.0))
    assert slow < 45e6
    assert fast > 1.5 * slow
    assert read["up"].drops["loss"] > 0
    assert read["down"].drops["loss"] == 0
    assert not any(one.node == "scheduler" for one in registry.find(kernel.name).measured)


class _Pump:
    """A connection from a node to the switch, over which goes as much as can."""

    def __init__(self, lab: Lab) -> None:
        switch, node = lab.switch_address, lab["scheduler"].address
        file = network_file(lab.place, SWITCH)
        listening = within(file, lambda: socket.create_server((switch, 0)))
        # More than the queue of a link holds, so that this is what fills.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sending = within(
            network_file(lab.place, "scheduler"),
            lambda: socket.create_connection(listening.getsockname(), 30, (node, 0)),
        )
        self.sending = sending
        self.receiving, _ = listening.accept()
        listening.close()
        self.receiving.settimeout(30)
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self) -> None:
        try:
            while True:
                self.sending.sendall(bytes(1 << 16))
        except OSError:
            self.sending.close()

    def rate_bits(self) -> float:
        """Bits per second of the next second, once what was under way has arrived."""
        self.receive(0.3)
        return self.receive(0.7) * 8 / 0.7

    def receive(self, duration_s: float) -> int:
        """Bytes that come in the next so many seconds."""
        deadline = time.monotonic() + duration_s
        nbytes = 0
        while time.monotonic() < deadline:
            nbytes += len(self.receiving.recv(1 << 16))
        return nbytes

    def drain(self) -> None:
        """Receive all that comes, until both ends are closed."""
        with suppress(OSError):
            while self.receiving.recv(1 << 16):
                pass

    def end(self) -> None:
        """Close both ends."""
        with suppress(OSError):
            self.receiving.shutdown(socket.SHUT_RDWR)
        self.receiving.close()
        self.thread.join(30)
        assert not self.thread.is_alive()


def test_a_small_packet_waits_no_longer_than_the_queue_says(lab: Lab) -> None:
    slow = change(lab, "scheduler", OneWay(rate="20Mbit"))
    ends = [probes.End(network_file(lab.place, "scheduler"), lab["scheduler"].address)]
    ends.append(probes.End(network_file(lab.place, SWITCH), lab.switch_address))
    is_over = threading.Event()
    flood = threading.Thread(target=_flood, args=(slow, is_over))
    flood.start()
    try:
        time.sleep(0.3)
        waited = []
        for _ in range(30):
            waited += probes.round_trips(ends[0], ends[1], 1, 2.0)
            time.sleep(0.005)
    finally:
        is_over.set()
        flood.join(30)
        change(slow, "scheduler", OneWay(rate=_words(lab["scheduler"].up.rate_bits)))
    queue_s = slow["scheduler"].up.waiting_ns / 1e9
    assert queue_s == pytest.approx(0.0606, abs=1e-4)
    most = sorted(waited)[-3]
    assert queue_s / 4 < most < 1.5 * queue_s


def _flood(lab: Lab, is_over: threading.Event) -> None:
    """Send datagrams from a node, so many at a time as fill half of a queue, and nearly as many as
    20 Mbit/s take: TCP leaves nearly nothing in the queue of its own host (its small queues).
    """
    node = network_file(lab.place, "scheduler")
    with within(node, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        sending.settimeout(5)
        while not is_over.is_set():
            for _ in range(60):
                sending.sendto(bytes(1400), (lab.switch_address, 9))
            time.sleep(0.036)


def _words(rate_bits: int | None) -> str:
    return "none" if rate_bits is None else str(rate_bits)


@pytest.mark.parametrize("backend", ["kernel", "emulator"])
def test_a_slow_rate_has_nodes_send_single_packets(before: tuple[str, ...], backend: str) -> None:
    """In a laboratory that was made for fast links, too, and while something goes over it."""
    require(backend)
    with laboratory(spec(f'{TOLERANT}backend = "{backend}"\n[nodes.scheduler]')) as lab:
        assert lab.mode == "gso"
        pump = _Pump(lab)
        try:
            fast = _mean_nbytes(lab, pump)
            slow = _mean_nbytes(change(lab, "scheduler", OneWay(rate="20Mbit")), pump)
        finally:
            pump.end()
    assert slow <= PACKET_NBYTES < fast


def _mean_nbytes(lab: Lab, pump: _Pump) -> float:
    """Size of what a node's device sends at a time, once what was under way has arrived."""
    pump.receive(0.3)
    file = network_file(lab.place, "scheduler")
    first = wiring.read(file)[wiring.DEVICE]
    pump.receive(0.3)
    last = wiring.read(file)[wiring.DEVICE]
    return (last.sent_nbytes - first.sent_nbytes) / (last.sent_packets - first.sent_packets)


def test_a_delay_changes(emulated: Lab) -> None:
    before_s = _round_trip_s(emulated)
    changed = change(emulated, "w-1", OneWay(delay="80ms", jitter="0ms"))
    after_s = _round_trip_s(changed)
    change(changed, "w-1", OneWay(delay="20ms", jitter="4ms"))
    assert 0.016 <= before_s < 0.06
    assert 0.08 <= after_s < 0.14


def _round_trip_s(lab: Lab) -> float:
    ends = [probes.End(network_file(lab.place, n), lab[n].address) for n in ("scheduler", "w-1")]
    return statistics.median(probes.round_trips(ends[0], ends[1], 20, 1.0))


def test_what_a_backend_cannot_do_is_refused(kernel: Lab) -> None:
    with pytest.raises(UsageError, match=r"backend of .* is kernel: .* do not delay packets"):
        change(kernel, "w-1", OneWay(delay="5ms"))
    with pytest.raises(UsageError, match="w-1: rate: give 100 kbit/s or more"):
        change(kernel, "w-1", OneWay(rate="1kbit"))
    with pytest.raises(UsageError, match=r"w-9: the laboratory .* has no such node"):
        change(kernel, "w-9", OneWay(rate="1Mbit"))
    assert registry.find(kernel.name)["w-1"] == kernel["w-1"]
    with pytest.raises(UsageError, match=r"the kernel.s queues here do not"):
        make(spec('backend = "kernel"\n[nodes.w1]\ndelay = "1ms"'))


def test_readings_tell_bytes_and_starving(emulated: Lab) -> None:
    first = BACKENDS["emulator"].read(emulated)
    run(emulated, "scheduler", ["ping", "-q", "-c", "3", "-i", "0.1", "-s", "1000", "scheduler"])
    assert BACKENDS["emulator"].read(emulated).since(first).links["scheduler"]["up"].packets == 0
    run(emulated, "scheduler", ["ping", "-q", "-c", "10", "-i", "0.05", "-s", "1000", "w-1"])
    later = BACKENDS["emulator"].read(emulated).since(first)
    assert later.links["scheduler"]["up"].nbytes == 10 * 1042
    down = later.links["w-1"]["down"]
    assert down.packets + down.drops["loss"] == 10
    assert later.strain is not None
    assert sum(later.strain.late) >= 10


def test_two_laboratories_do_not_meet(kernel: Lab, emulated: Lab) -> None:
    assert kernel.network != emulated.network
    for one, other in ((kernel, emulated), (emulated, kernel)):
        address = other["scheduler"].address
        done = subprocess.run(
            [*one.prefix("w-1"), "bash", "-c", f"exec 3<>/dev/tcp/{address}/1"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Network is unreachable" in done.stderr


def test_the_host_is_as_it_was(
    kernel: Lab, emulated: Lab, before: tuple[str, ...], records: Path
) -> None:
    assert host() == before
    for lab in (kernel, emulated):
        with pytest.raises(UsageError, match=rf"a laboratory '{lab.name}' is up"):
            make(spec(f'name = "{lab.name}"\n[nodes.w1]'))
    with laboratory(spec(TOLERANT + '[nodes.w1]\nrate = "10Mbit"')) as lab:
        command = [*lab.prefix("w1"), "sleep", "1000"]
        sleeping = subprocess.Popen(command)
        while "sleep" not in Path(f"/proc/{sleeping.pid}/comm").read_text():
            time.sleep(0.01)
    assert sleeping.wait(timeout=30) == -9
    assert not lab.place.exists()
    assert registry.state_of(lab) == "gone"
    assert sorted(path.name for path in records.glob(f"{lab.name}*")) == []
    assert host() == before


def test_a_wrong_link_is_refused(before: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    require("kernel")
    backend = BACKENDS["kernel"]
    shape = backend.shape

    def shape_wrongly(lab: Lab, node: registry.Node) -> None:
        other = OneWay(rate="30Mbit", loss=10 * node.up.loss).over(node.up)
        shape(lab, replace(node, up=other))

    monkeypatch.setattr(backend, "shape", shape_wrongly)
    with pytest.raises(LabFailed) as raised:
        make(spec('name = "wrong"\n[nodes.w1]\nup = { rate = "90Mbit", loss = 0.02 }'))
    told = str(raised.value)
    assert "'wrong' is not the laboratory that was asked for: w1: rate up" in told
    assert "instead of 90 Mbit/s" in told
    assert "w1: loss up" in told
    assert "rate down" not in told
    assert [lab for lab in registry.recorded() if lab.name == "wrong"] == []
    assert host() == before


def test_a_node_that_is_gone_is_told(before: tuple[str, ...]) -> None:
    require("kernel")
    lab = make(spec(TOLERANT + "[nodes.w1]\n[nodes.w2]"))
    subprocess.run(["umount", network_file(lab.place, "w2")], check=True)
    assert registry.state_of(lab) == "broken"
    with pytest.raises(LabFailed, match=r"has lost w2: 'hyperslab netlab down lab-\w+' takes"):
        change(lab, "w1", OneWay(rate="1Mbit"))
    remove(lab)
    assert host() == before


def test_an_emulator_that_has_died_is_told(before: tuple[str, ...]) -> None:
    require("emulator")
    from hyperslab.network.lab import namespaces

    lab = make(spec(TOLERANT + 'backend = "emulator"\n[nodes.w1]'))
    assert namespaces.end([network_file(lab.place, SWITCH)]) == 1
    with pytest.raises(LabFailed, match="hyperslab-links, which hands on its packets, has died"):
        change(lab, "w1", OneWay(rate="1Mbit"))
    assert remove(lab) == 0
    assert host() == before


def test_a_device_that_is_gone_is_told(before: tuple[str, ...]) -> None:
    require("kernel")
    with laboratory(spec(TOLERANT + "[nodes.w1]\n")) as lab:
        run(lab, "w1", ["ip", "link", "delete", "eth0"])
        with pytest.raises(LabFailed, match="the device eth0 of a node is gone"):
            change(lab, "w1", OneWay(rate="1Mbit"))
    assert host() == before


def test_what_the_kernel_refuses_is_a_sentence(
    before: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    require("kernel")
    monkeypatch.setattr(wiring, "BRIDGE", "a-name-of-more-than-fifteen-letters")
    with pytest.raises(LabFailed, match="the kernel refuses a device, an address or a queue: "):
        make(spec("[nodes.w1]"))
    assert host() == before


def test_a_record_of_another_version_is_told(records: Path) -> None:
    path = records / "older.json"
    path.write_text('{"name": "older"}')
    try:
        with pytest.raises(UsageError, match=r"older\.json is the record of .* another version"):
            registry.recorded()
    finally:
        path.unlink()


def test_a_network_that_is_in_use_is_refused() -> None:
    require("kernel")
    with pytest.raises(UsageError, match=r"network 127\.0\.0\.0/24: .* is in use here"):
        make(spec('network = "127.0.0.0/24"\n[nodes.w1]'))
    assert not any(lab.network.startswith("127.") for lab in registry.recorded())
