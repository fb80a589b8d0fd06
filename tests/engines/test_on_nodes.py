"""Commands of clusters on hosts that are given, whatever the user's own variables say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hyperslab.engines.nodes import Nodes
from hyperslab.engines.spark import on_nodes
from tests.system.clusters import spark
from tests.system.clusters.required import required

ADDRESSES = {"scheduler": "198.18.0.2", "client": "198.18.0.3", "w1": "198.18.0.4"}


def test_a_driver_of_spark_listens_on_its_own_host() -> None:
    required(spark.missing())
    nodes = Nodes("scheduler", ["w1"], ADDRESSES, "/tmp", client="client")
    made = on_nodes.cluster_on(nodes)
    assert made.environment == {"SPARK_LOCAL_IP": "198.18.0.3"}
    known = {command.node: command.environment["SPARK_LOCAL_IP"] for command in made.commands}
    assert known == {"scheduler": "198.18.0.2", "w1": "198.18.0.4"}


class Master(BaseHTTPRequestHandler):
    """The page on which a master of Spark says who is there."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"aliveworkers": 2}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Master) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/json/"
        server.shutdown()


def test_the_master_is_asked_by_no_proxy(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert on_nodes._alive(page) == 2
