"""Cluster: a laboratory with a cluster on its nodes, as long as a block lasts.

Its keeper (`keeper`) removes both, also where this process is killed; where the keeper is killed,
this process does.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from hyperslab import engines
from hyperslab.apps.netlab.keeper import (
    CLIENT,
    SCHEDULER,
    WORKER,
    Asked,
    Failed,
    Ready,
    last_words,
)
from hyperslab.engines.environment import program
from hyperslab.engines.nodes import Nodes
from hyperslab.errors import UsageError
from hyperslab.network.lab import remove
from hyperslab.network.lab.backends.choosing import require_means
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.network.lab.registry import Lab, find, recorded
from hyperslab.network.lab.spec import LabSpec

LIMIT_S = 600.0
"Time that a laboratory may take to be made and measured, and a cluster to start on it."
END_LIMIT_S = 30.0
KEEPER_LOG = "keeper.log"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster on the nodes of a laboratory."""

    lab: Lab
    arguments: Sequence[str]
    "Words for the command that drives it, in the laboratory's client."
    environment: Mapping[str, str]
    "Variables for that command."
    processes: Mapping[int, str]
    "Processes of the cluster, by their numbers, with the nodes that they run in."

    @property
    def prefix(self) -> list[str]:
        """Words that, before those of a command, have it run in the client's node."""
        return self.lab.prefix(CLIENT)


def require_nodes(spec: LabSpec, engine: str) -> None:
    """Raise UsageError for a laboratory on whose nodes no cluster of that engine can run."""
    roles = {name: spec.role(name) for name in spec.nodes}
    for needed in (SCHEDULER, CLIENT):
        if roles.get(needed) != needed:
            raise UsageError(
                f"--netlab: a cluster needs a node named {needed}: add [nodes.{needed}] to the spec"
            )
    workers = [name for name, role in roles.items() if role == WORKER]
    if not workers:
        raise UsageError("--netlab: a cluster needs a worker: add [nodes.w1] to the spec")
    engines.cluster_on(engine, Nodes(SCHEDULER, workers, dict.fromkeys(roles, ""), ""))


@contextmanager
def cluster_in_lab(
    spec: LabSpec, engine: str, threads: int = 1, memory_nbytes: int = 0
) -> Iterator[Cluster]:
    """A laboratory with a cluster on its nodes, as long as the block lasts. Raises UsageError and
    LabFailed.
    """
    require_means()
    require_nodes(spec, engine)
    name = spec.name or f"run-{secrets.token_hex(4)}"
    folder = tempfile.mkdtemp(prefix="hyperslab-netlab-")
    named = spec.model_copy(update={"name": name})
    asked = Asked(named, engine, threads, memory_nbytes, folder)
    log = Path(folder) / KEEPER_LOG
    process, connection = _keeper(log)
    try:
        ready = _answer(connection, process, asked, log)
        yield Cluster(find(name), ready.arguments, ready.environment, ready.processes)
    finally:
        connection.close()
        _end(process)
        if process.returncode:
            forget(name)
        shutil.rmtree(folder, ignore_errors=True)


def forget(name: str) -> None:
    """Remove the laboratory of that name, where a keeper that was killed has left it."""
    for lab in recorded():
        if lab.name == name:
            remove(lab)


def _keeper(log: Path) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = socket.socketpair()
    with theirs, log.open("ab") as output:
        process = subprocess.Popen(
            program("hyperslab.apps.netlab.keeper", [theirs.fileno()]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    return process, Connection(ours.detach())


def _answer(
    connection: Connection, process: subprocess.Popen[bytes], asked: Asked, log: Path
) -> Ready:
    """What the keeper says of the cluster that is asked for. Raises UsageError and LabFailed."""
    try:
        connection.send(asked)
        if not connection.poll(LIMIT_S):
            raise LabFailed(f"no laboratory was made within {LIMIT_S:.0f} s")
        said: Ready | Failed = connection.recv()
    except (EOFError, ConnectionError) as error:
        told = last_words(process.wait(), log)
        raise LabFailed(f"the keeper of the laboratory {told}") from error
    if isinstance(said, Failed):
        raise (UsageError if said.is_usage else LabFailed)(said.sentence)
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the keeper, which has heard that the connection is closed."""
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
