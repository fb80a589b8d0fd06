"""What the recorder inside of Dask's processes says is what a capture of their packets says, on the
oldest version of distributed that is supported and on the installed one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks import said_again
from hyperslab.engines.dask import recorder, recording
from hyperslab.network.capture.decoding import decode
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import FILE, UNDECODABLE, Message, Traffic
from tests.engines.captured import Counts, counts_of, directions_of, ends_of, without_tcpdump
from tests.engines.recorded import beside
from tests.repetitions import few
from tests.system.clusters.required import required
from tests.system.faults.command import await_that

PROGRAM = Path(__file__).with_name("dask_program.py")
OLDEST = Path(sys.prefix) / "oldest-dask"
"Where `make programs` puts the oldest supported version."
T = TypeVar("T")
ANSWERED = "reply:free-keys"
"What an answer is called behind a batch that ends with that operation."


@pytest.fixture(params=["oldest", "installed"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables with which a program finds a version of distributed."""
    if request.param == "installed":
        return dict(os.environ)
    missing = "" if OLDEST.is_dir() else f"there is no {OLDEST}: 'make programs' makes it"
    required(missing)
    return {**os.environ, "PYTHONPATH": str(OLDEST)}


def test_recorder_and_capture_agree(environment: dict[str, str], tmp_path: Path) -> None:
    """Counts and bytes of every operation, of connections that both saw from their beginning."""
    required(without_tcpdump())
    told = recording.settings(tmp_path / "messages")
    command = [sys.executable, str(PROGRAM)]
    with _captured(tmp_path / "f.pcap") as prefix:
        words = [*prefix, *command]
        subprocess.run(words, env={**environment, **told}, check=True, timeout=100)
    captured = decode(tmp_path / "f.pcap")
    recorded = recording.gathered(tmp_path / "messages")
    assert recorded.meta["processes"] == 3
    assert recorded.meta["notes"] == []
    shared = directions_of(captured) & ends_of(recorded)
    assert len(shared) >= 16
    assert shared == ends_of(recorded)
    of_packets = counts_of(captured, shared)
    assert of_packets["get_data"][0] >= 1
    assert of_packets["heartbeat_worker"][0] >= 4
    assert of_packets["reply:get_data"][1] > 10**6
    assert counts_of(recorded.seen_once(), shared) == of_packets
    sent = recorded.columns["is_sent"]
    assert counts_of(recorded.where(sent), shared) == of_packets
    _require_heard(counts_of(recorded.where(~sent), shared), of_packets, len(shared))


def _require_heard(heard: Counts, sent: Counts, ways: int) -> None:
    """What has been received is what was sent, but for last words that nobody has waited for, each
    of another way.
    """
    unheard = {name: sent[name][0] - heard.get(name, (0, 0))[0] for name in sent}
    assert heard.keys() <= sent.keys()
    assert all(missing >= 0 for missing in unheard.values())
    assert sum(unheard.values()) <= ways / 2, unheard
    assert all(heard[name] == sent[name] for name in sent if not unheard[name])
    assert unheard.get("reply:get_data", 0) == unheard["compute-task"] == 0


LAST_PORTS = struct.pack(">4s4sHH", b"\x7f\0\0\1", b"\x7f\0\0\1", 19532, 19533)
"Addresses and ports of the last packet of a capture."
LAST = """
import socket
with socket.socket() as last:
    last.bind(("127.0.0.1", 19532))
    last.connect_ex(("127.0.0.1", 19533))
"""
"Sends it; nobody listens there."


@contextmanager
def _captured(path: Path) -> Iterator[list[str]]:
    """All packets of a network of its own while the block runs; what goes before a command that
    runs in it.
    """
    with _network() as prefix:
        # Not one packet after the other as it comes: a buffer of few would be full where others
        # have the processors.
        dump = ["tcpdump", "-i", "lo", "-B", "65536", "-U", "-w", str(path)]
        process = subprocess.Popen([*prefix, *dump, "tcp"], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "listening on lo" in said, said
            yield prefix
            subprocess.run([*prefix, sys.executable, "-S", "-c", LAST], check=True, timeout=100)
            await_that("the last packet", lambda: LAST_PORTS in path.read_bytes())
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=100)
        assert "0 packets dropped by kernel" in said, said


@contextmanager
def _network() -> Iterator[list[str]]:
    """A network namespace with a loopback interface, in which no other test sends anything."""
    script = "ip link set lo up && echo up && exec sleep infinity"
    words = ["unshare", "--net", "sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        try:
            yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        finally:
            holder.kill()


def test_what_the_recorder_rests_on_is_there() -> None:
    """Names of distributed that are no public ones."""
    from distributed.comm import inproc, tcp, ws
    from distributed.comm.core import Comm

    for transport in (tcp.TCP, inproc.InProc, ws.WS, ws.WSHandlerComm):
        assert issubclass(transport, Comm)
        assert asyncio.iscoroutinefunction(transport.__dict__["write"])
        assert asyncio.iscoroutinefunction(transport.__dict__["read"])
    assert "write" not in tcp.TLS.__dict__
    assert callable(vars(tcp)["from_frames"])
    assert callable(vars(ws)["from_frames"])


TRANSPORTS = ["tcp", "ws", "inproc"]


@pytest.mark.parametrize(
    "protocol", few(TRANSPORTS[1:], TRANSPORTS, "counts of TCP agree with captured packets")
)
def test_both_ends_count_alike_on_every_transport(tmp_path: Path, protocol: str) -> None:
    from distributed import Client, LocalCluster

    recorder.start(str(tmp_path))
    with (
        LocalCluster(
            n_workers=2, processes=False, protocol=protocol, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        parts = client.map(bytes, [20_000] * 9)
        assert [*map(len, client.gather(parts))] == [20_000] * 9
    recorder.stop(str(tmp_path))
    traffic = recording.gathered(tmp_path)
    sent = traffic.columns["is_sent"]
    of_sender, of_receiver = (
        counts_of(traffic.where(chosen), ends_of(traffic)) for chosen in (sent, ~sent)
    )
    _require_heard(of_receiver, of_sender, max(12, len(ends_of(traffic))))
    nbytes = sum(size for _, size in of_sender.values())
    assert (nbytes > 20_000) == (protocol != "inproc")


def test_a_cluster_that_is_over_gives_its_process_no_name(tmp_path: Path) -> None:
    """As of a notebook that had a cluster of its own, and is now the client of another one."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as before:
        recorder.start(str(tmp_path / "before"))
        recorder.stop(str(tmp_path / "before"))
    recorder.start(str(tmp_path / "after"))
    recorder.stop(str(tmp_path / "after"))
    assert before.scheduler is not None, "which Python has not forgotten yet"
    assert "scheduler" in _first_roles(tmp_path / "before")
    assert "scheduler" not in _first_roles(tmp_path / "after")


def _first_roles(folder: Path) -> Collection[str]:
    """What a recorder has called its process."""
    lines = [
        json.loads(text) for path in folder.iterdir() for text in path.read_text().splitlines()
    ]
    return [role for line in lines for role in line.get("roles", {}).values()]


def test_recorders_of_one_process_share_what_they_wrap(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster
    from distributed.comm.tcp import TCP

    before = (TCP.write, TCP.read)
    places = [tmp_path / "a", tmp_path / "b"]
    recorder.start(str(places[0]))
    recorder.start(str(places[0]))
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as cluster:
        recorder.start(str(places[1]))
        with Client(cluster) as client:
            assert client.submit(sum, [1, 2]).result() == 3
        recorder.stop(str(places[1]))
    recorder.stop(str(places[0]))
    assert (TCP.write, TCP.read) != before
    recorder.stop(str(places[0]))
    assert (TCP.write, TCP.read) == before
    longer, shorter = (numbers_of(recording.gathered(place)) for place in places)
    assert 0 < shorter.messages < longer.messages
    counts = {one.name: one.count for one in longer.operations}
    assert counts["compute-task"] == 1
    assert counts["register-worker"] == 1


def test_a_recorder_ends_with_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed cannot end the recorders on a cluster of somebody else."""
    from distributed.comm.tcp import TCP

    # Of the functions: cloudpickle gives classes that it meets again functions with other globals.
    monkeypatch.setitem(recorder.Log._flush_often.__globals__, "FLUSH_S", 0.02)
    before = TCP.write
    recorder.start(str(tmp_path), "led")
    assert TCP.write != before
    for number in range(20):
        (tmp_path / recorder.LEASE).write_text(f"{number}")
        time.sleep(0.01)
    assert TCP.write != before
    monkeypatch.setitem(recorder.Log._is_abandoned.__globals__, "LEASE_S", 0.2)
    deadline = time.monotonic() + 60
    while TCP.write != before:
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
    recorder.stop(str(tmp_path))
    gone = tmp_path / "gone"
    recorder.start(str(gone), "led")
    await_that("the end of the recorder", lambda: TCP.write == before)
    assert "No such file or directory" in recorder.lost(str(gone))
    assert not gone.exists(), "it brings nothing back"
    recorder.stop(str(gone))


KILLED = """
import asyncio, os, signal, sys, time
from pathlib import Path
from distributed.comm.core import connect, listen
from hyperslab.engines.dask import recorder, recording

async def answer(comm):
    while True:
        await comm.write(await comm.read())

async def talk(folder):
    async with listen("inproc://", answer) as listener:
        comm = await connect(listener.contact_address)
        for _ in range(100):
            await comm.write({"op": "asked"})
            await comm.read()
        while len(recording.gathered(folder)) < 400:
            time.sleep(0.01)
        await comm.write({"op": "asked"})
        os.kill(os.getpid(), signal.SIGKILL)

recorder.FLUSH_S = 0.02
recorder.start(sys.argv[1])
asyncio.run(talk(Path(sys.argv[1])))
"""


def test_a_process_that_is_killed_has_written_what_it_had_said_before(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, timeout=100)
    assert done.returncode == -signal.SIGKILL
    traffic = recording.gathered(tmp_path)
    sent = traffic.where(traffic.columns["is_sent"])
    asked = counts_of(sent, ends_of(sent))["asked"][0]
    assert 200 <= asked <= 201  # an answer names the same


def test_a_process_that_was_killed_loses_its_last_line(tmp_path: Path) -> None:
    row = '"from_ns":5,"ways":[[1,"a:1","b:2"]],"said":[[["x",2]]],"rows":[[0],[0],[0],[100]]'
    (tmp_path / "h-1-aa.jsonl").write_text(
        f'{{"host":"h","pid":1}}\n{{"roles":{{"":"worker 0"}},{row}}}\n{{"from_ns":5,'
    )
    traffic = recording.gathered(tmp_path, remove=True)
    numbers = numbers_of(traffic)
    assert [(one.name, one.count, one.nbytes) for one in numbers.operations] == [("x", 2, 100)]
    assert [node.name for node in numbers.nodes] == ["b", "worker 0"]
    (note,) = numbers.notes
    assert note.startswith("h-1-aa.jsonl ends in the middle of a line: its process was killed")
    assert not tmp_path.exists()


def test_a_log_of_transfers_that_was_too_short_is_told(tmp_path: Path) -> None:
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({recording.LENGTH_OF_LOGS: 3}),
        LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        one, other = (worker.address for worker in cluster.workers.values())
        kept = recording.Recording(client, tmp_path)
        for size in range(4):
            value = client.submit(bytes, size, workers=[one])
            assert client.submit(len, value, workers=[other]).result() == size
        kept.end(is_lost=False)
    assert len(kept.transfers) == 3
    (note,) = kept.notes
    assert note.startswith(f"{other} keeps its last 3 transfers alone: earlier ones are missing")


def test_messages_that_are_said_again_name_the_same(tmp_path: Path) -> None:
    """As the benchmark of the recorder does, which sends those of a run."""
    named: list[tuple[str, int]] = [("compute-task", 3), ("free-keys", 2)]
    first = Message(1, "a:1", "b:2", tuple(named), 900, "sent")
    answer = Message(2, "b:2", "a:1", (("reply:identity", 1),), 90, "sent")
    messages = said_again.messages_of(Traffic.of([first, answer] * 50))
    turns = beside(lambda: said_again.turns_of(messages, tmp_path / "again", 1))
    assert turns.differences_s == [turns.least_s]
    traffic = Traffic.load(tmp_path / FILE)
    sent = traffic.where(traffic.columns["is_sent"])
    counts = {name: count for name, (count, _) in counts_of(sent, ends_of(sent)).items()}
    assert counts == {"handshake": 2, "compute-task": 150, "free-keys": 100, ANSWERED: 50}


class Unusual(dict[str, str]):
    """A message that cannot be looked into, as one of a user's own protocol."""

    def get(self, *_: object) -> str:
        raise RuntimeError("this is no message of Dask's")


class Starting(list[object]):
    """Rows of a recorder, with which another one begins whenever a message is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def append(self, row: object) -> None:
        """Keep a row, as of an event loop, and begin what another thread would."""
        super().append(row)
        recorder.start(str(self._folder / str(len(self))))


def test_nothing_is_raised_in_what_is_recorded(tmp_path: Path) -> None:
    """Neither by messages of a kind that nobody knows, nor by recorders that begin meanwhile."""
    from distributed.comm.core import Comm, connect, listen

    async def talk() -> None:
        async def answer(comm: Comm) -> None:
            await comm.write(await comm.read())

        async with listen("inproc://", answer) as listener:
            comm = await connect(listener.contact_address)
            await comm.write(Unusual())
            assert isinstance(await comm.read(), Unusual)
            await comm.close()

    first = tmp_path / "first"
    recorder.start(str(first))
    logs = Comm.__dict__["hyperslab_recorder"].logs
    logs[str(first)].rows = Starting(tmp_path)
    beside(lambda: asyncio.run(talk()))
    assert len(Comm.__dict__["hyperslab_recorder"].logs) > 1
    for folder in tmp_path.iterdir():
        recorder.stop(str(folder))
    traffic = recording.gathered(first)
    assert counts_of(traffic, ends_of(traffic))[UNDECODABLE][0] == 4


def test_preloads_of_the_user_stay(tmp_path: Path) -> None:
    import dask

    with dask.config.set({"distributed.worker.preload": ["mine"]}):
        variables = recording.settings(tmp_path)
    assert variables["DASK_DISTRIBUTED__WORKER__PRELOAD"] == repr(["mine", recording.PRELOAD])
    assert variables["DASK_DISTRIBUTED__NANNY__PRELOAD"] == repr([recording.PRELOAD])
