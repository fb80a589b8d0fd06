"""Dask on nodes: a scheduler and workers, each by a command of its own on a host that is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hyperslab.engines.dask.keeper import CONFIG
from hyperslab.engines.environment import KEEP_MEMORY, THREAD_VARIABLES, program
from hyperslab.engines.nodes import NodeCluster, NodeCommand, Nodes

PORT = 8786
WAIT_LIMIT_S = 60
"Time that workers may take to join."
_LEAST_NBYTES = 2**20
"Memory below which Dask takes a limit for a share of the machine's."


def cluster_on(nodes: Nodes) -> NodeCluster:
    """The commands of a cluster."""
    address = f"tcp://{nodes.addresses[nodes.scheduler]}:{PORT}"
    variables = _variables()
    scheduler = [
        *("--host", nodes.addresses[nodes.scheduler], "--port", str(PORT)),
        *("--no-dashboard", "--dashboard-address", f"{nodes.addresses[nodes.scheduler]}:0"),
    ]
    commands = [NodeCommand(nodes.scheduler, _dask("scheduler", scheduler), variables)]
    for name in nodes.workers:
        words = _dask("worker", [address, *_worker(nodes, name)])
        commands.append(NodeCommand(name, words, variables))
    check = program(__name__, [address, len(nodes.workers)])
    return NodeCluster(commands, check, ("--connect", address))


def _dask(verb: str, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", f"distributed.cli.dask_{verb}", *words]


def _worker(nodes: Nodes, name: str) -> list[str]:
    memory = "0"
    if nodes.memory_nbytes >= _LEAST_NBYTES:
        memory = str(nodes.memory_nbytes)
    return [
        *("--host", nodes.addresses[name], "--name", name, "--no-nanny", "--no-dashboard"),
        *("--nthreads", str(nodes.threads), "--memory-limit", memory),
        *("--local-directory", f"{nodes.folder}/{name}", "--death-timeout", str(WAIT_LIMIT_S)),
    ]


def _variables() -> dict[str, str]:
    """The settings of our own clusters, as variables, and one processor for each task."""
    variables = {_variable(name): str(value) for name, value in CONFIG.items()}
    return variables | dict.fromkeys(THREAD_VARIABLES, "1") | KEEP_MEMORY


def _variable(setting: str) -> str:
    """The variable that Dask reads a setting from, such as DASK_DISTRIBUTED__WORKER__DAEMON."""
    return "DASK_" + setting.replace(".", "__").replace("-", "_").upper()


def main(address: str, workers: int) -> None:
    """Wait until so many workers have joined. Raises what Dask does when they do not."""
    from distributed import Client

    with Client(address, timeout=WAIT_LIMIT_S, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=WAIT_LIMIT_S)
