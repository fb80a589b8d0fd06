"""Clocks of hosts are compared with the driver's: measured where it can be asked, by the wall clock
otherwise.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import replace

from hyperslab.machine import clock
from hyperslab.machine.clock import ClockServer, compare, reference


def test_the_same_clock_needs_no_question() -> None:
    assert compare(reference(None)) == clock.Clock(socket.gethostname(), 0, 0, "same clock")


def test_another_clock_is_measured() -> None:
    server = ClockServer("127.0.0.1")
    try:
        found = compare(replace(reference(server.address), identity="another boot"))
    finally:
        server.close()
    assert found.how == "measured"
    assert found.error_ns is not None
    assert abs(found.offset_ns) <= found.error_ns + 1_000, "it is the same clock after all"


def test_a_driver_out_of_reach_leaves_the_wall_clocks() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = compare(replace(reference(nobody.getsockname()), identity="another boot"))
    assert (found.how, found.error_ns) == ("wall clocks", None)
    assert abs(found.offset_ns) < 10**9


def test_every_process_of_a_host_has_the_same_clock() -> None:
    program = (
        "from hyperslab.machine.clock import identity; import time; print(identity(),"
        " time.monotonic_ns(), sep='|')"
    )
    before = time.monotonic_ns()
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    name, moment = said.split("|")
    assert name == clock.identity()
    assert before < int(moment) < time.monotonic_ns()
