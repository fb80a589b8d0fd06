"""A process of its own that makes a laboratory, starts a cluster on its nodes, and removes both
when whoever asked for them lets go or is gone.

    driver -> keeper   Asked; closing the connection ends all
    keeper -> driver   Ready, or Failed

It leads a session of its own, so that no signal that ends its driver's group ends it, too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hyperslab import engines
from hyperslab.engines.environment import how_it_ended
from hyperslab.engines.nodes import NodeCluster, NodeCommand, Nodes
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.network.lab import laboratory
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.network.lab.registry import Lab
from hyperslab.network.lab.spec import LabSpec

START_LIMIT_S = 120.0
_POLL_S = 0.1
_TAIL_NBYTES = 4096
CLIENT, SCHEDULER, WORKER = "client", "scheduler", "worker"
"Roles of the nodes that a cluster needs."


@dataclass(frozen=True, slots=True)
class Asked:
    """A laboratory with a cluster on its nodes."""

    spec: LabSpec
    "Laboratory, which has a name."
    engine: str
    threads: int
    memory_nbytes: int
    "Memory of a worker; 0: the cluster's own default."
    folder: str
    "Directory for what the processes of the cluster spill and log."


@dataclass(frozen=True, slots=True)
class Ready:
    """The cluster answers."""

    arguments: Sequence[str]
    "Words for a command that drives the cluster."
    environment: Mapping[str, str]
    "Variables for that command."
    processes: Mapping[int, str]
    "Processes of the cluster, by their numbers, with the nodes that they run in."


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no cluster, and nothing of the laboratory is left."""

    sentence: str
    is_usage: bool


def main(fd: int) -> None:
    """Serve the driver on the inherited socket `fd`."""
    connection = Connection(fd)
    asked: Asked = connection.recv()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_watch, args=(fd,), daemon=True).start()
    try:
        with laboratory(asked.spec) as lab:
            connection.send(_started(lab, asked))
            while True:
                signal.pause()
    except HyperslabError as error:
        with suppress(OSError):
            connection.send(Failed(str(error), isinstance(error, UsageError)))


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End once, which removes the laboratory."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _watch(fd: int) -> None:
    """Have this process leave when the other end of the connection is closed."""
    ending = select.poll()
    ending.register(fd, select.POLLRDHUP | select.POLLHUP)
    ending.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def nodes_of(lab: Lab, asked: Asked) -> Nodes:
    """The nodes of a laboratory, as hosts of a cluster."""
    return Nodes(
        scheduler=SCHEDULER,
        client=CLIENT,
        workers=[node.name for node in lab.nodes if node.role == WORKER],
        addresses={node.name: node.address for node in lab.nodes},
        folder=asked.folder,
        threads=asked.threads,
        memory_nbytes=asked.memory_nbytes,
        prefixes={node.name: lab.prefix(node.name) for node in lab.nodes if node.role == WORKER},
    )


def _started(lab: Lab, asked: Asked) -> Ready:
    """Start the cluster, and wait until all of its workers are there. Raises LabFailed."""
    cluster = engines.cluster_on(asked.engine, nodes_of(lab, asked))
    folder = Path(asked.folder)
    for name, text in cluster.programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)
    running = {
        _start(lab, folder, number, command): command.node
        for number, command in enumerate(cluster.commands)
    }
    _await(lab, folder, cluster, running)
    processes = {process.pid: node for process, node in running.items()}
    return Ready(cluster.arguments, cluster.environment, processes)


def _start(lab: Lab, folder: Path, number: int, command: NodeCommand) -> subprocess.Popen[bytes]:
    with _log(folder, number, command.node).open("ab") as output:
        return subprocess.Popen(
            [*lab.prefix(command.node), *command.words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **command.environment},
            start_new_session=True,
        )


def _log(folder: Path, number: int, node: str) -> Path:
    return folder / f"{number:02d}-{node}.log"


def _await(
    lab: Lab, folder: Path, cluster: NodeCluster, running: Mapping[subprocess.Popen[bytes], str]
) -> None:
    """Wait until the cluster's check says that all is there. Raises LabFailed."""
    log = folder / "check.log"
    with log.open("ab") as output:
        check = subprocess.Popen(
            [*lab.prefix(CLIENT), *cluster.check],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + START_LIMIT_S
    while (status := check.poll()) is None:
        for number, (process, node) in enumerate(running.items()):
            if process.poll() is not None:
                raise _failed(f"what runs on {node}", process, _log(folder, number, node))
        if time.monotonic() > deadline:
            raise LabFailed(f"the cluster did not answer within {START_LIMIT_S:.0f} s")
        time.sleep(_POLL_S)
    if status:
        raise _failed("what waits for its workers", check, log)


def _failed(what: str, process: subprocess.Popen[bytes], log: Path) -> LabFailed:
    return LabFailed(f"the cluster could not start: {what} {last_words(process.returncode, log)}")


def last_words(status: int, log: Path) -> str:
    """How a process has ended, and the last line that it has printed into a log, as a clause."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_NBYTES))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    if status < 0:
        status = 128 - status
    how = how_it_ended(status) or "ended"
    said = f": {lines[-1].strip()}" if lines else ""
    return f"{how}{said}"
