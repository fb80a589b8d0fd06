"""Spark on nodes: a master and workers of its own cluster manager, each by a command on a host that
is given.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from hyperslab.engines.environment import THREAD_VARIABLES, program
from hyperslab.engines.nodes import NodeCluster, NodeCommand, Nodes
from hyperslab.errors import RunStopped
from hyperslab.machine.host import Host

PORT, PAGE_PORT = 7077, 8080
"Port that workers and drivers ask, and that of the page on which the master says who is there."
WAIT_LIMIT_S = 90.0
_POLL_S = 0.2
_ANSWER_S = 5.0
_LEAST_MIB = 1024
"Memory of a worker, of which an executor takes as much by Spark's own default."
_DAEMON = {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}


def cluster_on(nodes: Nodes) -> NodeCluster:
    """The commands of a cluster."""
    host = nodes.addresses[nodes.scheduler]
    address = f"spark://{host}:{PORT}"
    master = ["--host", host, "--port", str(PORT), "--webui-port", str(PAGE_PORT)]
    commands = [_command(nodes, nodes.scheduler, "master.Master", master)]
    memory = max(_LEAST_MIB, nodes.memory_nbytes // 2**20, _share_mib(len(nodes.workers)))
    for name in nodes.workers:
        words = [
            *("--host", nodes.addresses[name], "--webui-port", "0"),
            *("--cores", str(nodes.threads), "--memory", f"{memory}m"),
            *("--work-dir", f"{nodes.folder}/{name}", address),
        ]
        commands.append(_command(nodes, name, "worker.Worker", words))
    check = program(__name__, [host, len(nodes.workers)])
    return NodeCluster(commands, check, ("--connect", address), _of_driver(nodes))


def _of_driver(nodes: Nodes) -> dict[str, str]:
    """Variables of the driver, to which executors connect: where it listens is no other address
    that the user may have named for it.
    """
    if not nodes.client:
        return {}
    return {"SPARK_LOCAL_IP": nodes.addresses[nodes.client]}


def _share_mib(workers: int) -> int:
    """A worker's share of half of the machine's memory."""
    return Host.here().memory_bytes // 2**21 // workers


def _command(nodes: Nodes, node: str, name: str, words: list[str]) -> NodeCommand:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    variables = {
        **_DAEMON,
        **dict.fromkeys(THREAD_VARIABLES, "1"),
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": nodes.addresses[node],
        "SPARK_LOCAL_DIRS": f"{nodes.folder}/{node}",
    }
    starter = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    return NodeCommand(node, [*starter, *words], variables)


def main(host: str, workers: int) -> None:
    """Wait until so many workers have registered. Raises RunStopped when they do not."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    found = 0
    while found < workers:
        if time.monotonic() > deadline:
            raise RunStopped(f"{found} of {workers} workers came within {WAIT_LIMIT_S:.0f} s")
        time.sleep(_POLL_S)
        found = _alive(f"http://{host}:{PAGE_PORT}/json/")


def _alive(page: str) -> int:
    """Number of workers that the master has; 0 of one that does not answer yet."""
    direct = build_opener(ProxyHandler({}))  # no proxy of the user's reaches these hosts
    try:
        with direct.open(page, timeout=_ANSWER_S) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, OSError):
        return 0
