"""Emulator: the program hyperslab-links, which hands every packet on when it is due.

It runs in the network of the switch, which it has to itself, so that whoever looks for processes of
the laboratory finds it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hyperslab.errors import UsageError
from hyperslab.machine.built import Built
from hyperslab.network.lab import wiring
from hyperslab.network.lab.link import COARSE_BITS, DIRECTIONS, Link, Mode
from hyperslab.network.lab.namespaces import LabFailed, network_file, processes
from hyperslab.network.lab.reading import Carried, Reading, Strain
from hyperslab.network.lab.registry import SWITCH, Lab, Node, folder
from hyperslab.network.lab.wiring import DEVICE
from hyperslab.storage.emulation.program import reap, reason

ABOUT = "rate, delay, jitter, loss and reordering, by the program hyperslab-links"
CUT_BITS = COARSE_BITS
PROGRAM = Built("hyperslab-links", "HYPERSLAB_LINKS", "links", "the emulator of links")
TUN = Path("/dev/net/tun")
CONFIG = "links.json"
SOCKET = "links.sock"
_READY = b"ready\n"
_ANSWER_S = 5.0


def missing() -> str:
    """What this host lacks for it, as a sentence; '' where it works."""
    if not TUN.exists():
        return (
            f"there is no {TUN}: load the kernel's module (modprobe tun), or give the container the"
            f" device (--device {TUN})"
        )
    try:
        PROGRAM.find()
    except UsageError as error:
        return str(error)
    return ""


def refusal(link: Link, mode: Mode) -> str:
    """Why no link can be made like that, as a clause; '' where one can."""
    if mode == "gso" and (link.loss or link.reorder):
        return (
            'mode = "gso" hands on dozens of packets as one, which are not lost or overtaken one by'
            ' one: give mode = "exact"'
        )
    return ""


def start(lab: Lab) -> None:
    """Start the program, without limits: devices and addresses are there then. Raises LabFailed."""
    ports = [_port(SWITCH, lab, lab.switch_hardware_address)]
    ports += [_port(node.name, lab, node.hardware_address) for node in lab.nodes]
    config = {"mode": lab.mode, "seed": lab.seed, "ports": ports}
    (lab.place / CONFIG).write_text(json.dumps(config, indent=1))
    log = folder() / f"{lab.name}.log"
    # The program ends with its standard input. It has both ends of it, and so outlives this one.
    reading, writing = os.pipe()
    try:
        with log.open("wb") as errors:
            process = subprocess.Popen(
                _command(lab),
                cwd=lab.place,
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=(writing,),
                start_new_session=True,
            )
    finally:
        os.close(reading)
        os.close(writing)
    assert process.stdout is not None
    with process.stdout as told:
        is_ready = told.readline() == _READY
    reap(process)
    if not is_ready:
        raise LabFailed(f"{PROGRAM.name} could not be started: {reason(log)}")
    wiring.address(lab, DEVICE)


def _command(lab: Lab) -> list[str]:
    enter = ["nsenter", f"--net={network_file(lab.place, SWITCH)}", "--"]
    return [*enter, PROGRAM.find(), CONFIG, "--control", SOCKET]


def _port(name: str, lab: Lab, hardware_address: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": str(network_file(lab.place, name)),
        "device": DEVICE,
        "address": hardware_address,
        "up": Link().as_json(),
        "down": Link().as_json(),
    }


def cut_packets(lab: Lab) -> None:
    """Have all nodes send single packets; in the mode exact they can send no others."""
    if lab.mode == "gso":
        wiring.cut_packets(list(_devices(lab)))


def shape(lab: Lab, node: Node) -> None:
    """Make the link of a node what the laboratory says, also while something goes over it."""
    _ask(lab, {"set": {node.name: {"up": _settings(node.up), "down": _settings(node.down)}}})


def _devices(lab: Lab) -> Iterator[tuple[Path, str]]:
    for place in (SWITCH, *(node.name for node in lab.nodes)):
        yield network_file(lab.place, place), DEVICE


def _settings(link: Link) -> dict[str, Any]:
    return {**link.as_json(), "queue_ns": link.waiting_ns}


def read(lab: Lab) -> Reading:
    """What all links have carried and dropped, and what that took the program."""
    report = _ask(lab, {"get": True})
    links = {
        node.name: {way: _carried(report["ports"][node.name][way]) for way in DIRECTIONS}
        for node in lab.nodes
    }
    return Reading(links, Strain.from_report(report))


def _carried(told: Mapping[str, Any]) -> Carried:
    return Carried(told["packets"], told["bytes"], told["drops"])


def trouble(lab: Lab) -> str:
    """What has become of the links since they were made, as a sentence; '' where nothing has."""
    if not any(processes([network_file(lab.place, SWITCH)])):
        return f"{PROGRAM.name}, which hands on its packets, has died"
    return ""


def _ask(lab: Lab, request: dict[str, Any]) -> dict[str, Any]:
    """What the program answers. Raises LabFailed where it does not, or refuses."""
    try:
        line = _answered(lab, json.dumps(request).encode() + b"\n")
    except OSError as error:
        raise LabFailed(f"{PROGRAM.name} of '{lab.name}' does not answer: {error}") from error
    if not line.endswith(b"\n"):
        raise LabFailed(f"{PROGRAM.name} of '{lab.name}' has died as it was to answer")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise LabFailed(f"{PROGRAM.name}: {answer['error']}")
    return answer


def _answered(lab: Lab, request: bytes) -> bytes:
    """The line that answers another one; less than a line of a program that ends meanwhile. Raises
    OSError.
    """
    descriptor = os.open(lab.place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The folder's own name may be longer than the address of a socket.
        address = f"/proc/self/fd/{descriptor}/{SOCKET}"
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_ANSWER_S)
            client.connect(address)
            with client.makefile("rwb") as stream:
                stream.write(request)
                stream.flush()
                return stream.readline()
    finally:
        os.close(descriptor)
