"""Ports for programs that have to be told theirs: none of those that the kernel gives to whoever
asks for any, which others may have before such a program listens.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"Lowest and highest port that the kernel chooses itself (ip(7))."
LEAST = 10_000


def free_ports(count: int) -> list[int]:
    """So many ports of the loopback address at which nobody listens."""
    chosen_by_kernel = int(RANGE.read_text().split()[0])
    ports = range(LEAST, 2**16)
    if chosen_by_kernel > LEAST:
        ports = range(LEAST, chosen_by_kernel)
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = random.SystemRandom().choice(ports)
            if _binds(stack.enter_context(socket.socket()), port):
                found.append(port)
    return found


def _binds(server: socket.socket, port: int) -> bool:
    try:
        server.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
