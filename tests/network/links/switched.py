"""Nodes that hyperslab-links connects, and what tests do with them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.network.links.namespaces import ip, namespaces, within
from tests.system.clusters.required import required

MS = 1_000_000
NAME = "hyperslab-links"
Link = Mapping[str, float | None]


def program() -> str:
    """Path of the program; without it, root or TUN, the test is skipped, or fails if CI is set."""
    required(_missing())
    own = Path(sys.executable).parent / NAME
    found = str(own) if own.exists() else shutil.which(NAME)
    if found is None:
        required(f"{NAME} is missing: run make links")
    return str(found)


def _missing() -> str:
    if os.geteuid() != 0:
        return "this makes network namespaces: run as root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun: load the kernel's module (modprobe tun)"
    if shutil.which("ip") is None:
        return "ip is missing: install the Debian package iproute2"
    return ""


@dataclass
class Switched:
    """Nodes n0, n1, ..., connected by the program."""

    process: subprocess.Popen[bytes]
    control: Path
    nodes: Sequence[Path]
    stream: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(100)
        self.stream.connect(str(self.control))

    def ask(self, request: object) -> Any:
        """The answer to a request."""
        text = request if isinstance(request, str) else json.dumps(request)
        self.stream.sendall(text.encode() + b"\n")
        parts = [self.stream.recv(1 << 16)]
        while parts[-1] and not parts[-1].endswith(b"\n"):
            parts.append(self.stream.recv(1 << 16))
        return json.loads(b"".join(parts))

    def get(self) -> Any:
        """The counters."""
        return self.ask({"get": True})

    def set(self, node: int, up: Link | None = None, down: Link | None = None) -> None:
        """Change the links of a node."""
        given = {"up": up, "down": down}
        links = {direction: link for direction, link in given.items() if link is not None}
        assert self.ask({"set": {f"n{node}": links}}) == {"ok": True}

    def free(self) -> None:
        """Make all links what they are without settings."""
        plain: Link = {}
        for node in range(len(self.nodes)):
            self.set(node, plain, plain)


@contextmanager
def switched(folder: Path, mode: str, count: int = 2, **links: Link) -> Iterator[Switched]:
    """So many nodes, connected by the program for as long as the test is here; `up` and `down` are
    the links of node 0.
    """
    with namespaces(count) as nodes:
        process = start(folder, config(nodes, mode, **links))
        try:
            for number, node in enumerate(nodes):
                bring_up(node, number)
            one = Switched(process, folder / "control", nodes)
            with one.stream:
                yield one
        finally:
            end(process)


def config(nodes: Sequence[Path], mode: str, **links: Link) -> dict[str, Any]:
    """What the program is told."""
    ports: list[dict[str, Any]] = [
        {
            "name": f"n{number}",
            "namespace": str(node),
            "device": "eth0",
            "address": mac(number),
        }
        for number, node in enumerate(nodes)
    ]
    ports[0].update(links)
    return {"mode": mode, "seed": 1, "ports": ports}


def mac(number: int) -> str:
    """Address of a node's device."""
    return f"02:00:00:00:00:{number:02x}"


def address(number: int) -> str:
    """Internet address of a node."""
    return f"192.0.2.{number + 1}"


def start(folder: Path, told: object) -> subprocess.Popen[bytes]:
    """The program, which has made its devices."""
    process = subprocess.Popen(command(folder, told), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.communicate()
        pytest.fail(f"the program has ended with {process.returncode}")
    return process


def command(folder: Path, told: object) -> list[str]:
    """How the program is started, with a file of what it is told."""
    path = folder / "links.json"
    path.write_text(json.dumps(told))
    return [program(), str(path), "--control", str(folder / "control")]


def end(process: subprocess.Popen[bytes]) -> None:
    """See to the end of the program, which ends with its standard input."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.stdout.close()


def bring_up(node: Path, number: int) -> None:
    """Give a node its address, and no other traffic than the test's."""
    ip("-n", node.name, "link", "set", "lo", "up")
    ip("-n", node.name, "link", "set", "eth0", "addrgenmode", "none")
    ip("-n", node.name, "address", "add", f"{address(number)}/24", "dev", "eth0")
    ip("-n", node.name, "link", "set", "eth0", "up")


def connected(
    one: Switched, source: int = 0, target: int = 1
) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection that a node has made to another one."""

    def listen() -> socket.socket:
        return socket.create_server((address(target), 0))

    with within(one.nodes[target], listen) as server:
        place = server.getsockname()
        sender = within(one.nodes[source], lambda: socket.create_connection(place, 30))
        receiver, _ = server.accept()
    for end_ in (sender, receiver):
        end_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sender, receiver


def round_trips_s(one: Switched, count: int) -> list[float]:
    """Times that bytes take there and back, one after another."""
    sender, receiver = connected(one)
    times = []
    with sender, receiver:
        for _ in range(count):
            begun = time.perf_counter()
            sender.sendall(b"?")
            receiver.recv(1)
            receiver.sendall(b"!")
            sender.recv(1)
            times.append(time.perf_counter() - begun)
    return times
