"""What happens before a trial: done on every host, or said to be impossible, and where."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from hyperslab import engines
from hyperslab.apps.experiment.design.setting import Setting
from hyperslab.apps.experiment.design.spec import Before
from hyperslab.apps.experiment.trials.before import impossible, prepare
from hyperslab.driver import hosts
from hyperslab.driver.options import Options
from hyperslab.engines import EngineOptions
from hyperslab.engines.serial import Serial
from hyperslab.errors import RunStopped
from hyperslab.trace import Slot

ALL = Before(sync=True, caches="inputs", settle_s=0.001)
CLUSTER = Options("dask-futures", connect="tcp://10.0.0.1:8786")


class Others(Serial):
    """An engine whose tasks run on another host, beside one that no task comes to."""

    def slots(self) -> Sequence[Slot]:
        return [*super().slots(), Slot("stranger", 0, 0)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(2**16))
    return path


def test_on_this_host(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of this host alone are not asked, nor are those that could connect to a cluster."""

    def refuse(name: str, options: EngineOptions) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(engines, "create", refuse)
    told = prepare(ALL, [source], Options("dask-futures"), source.parent)
    assert told["sync"] == told["settle"] == "done"
    assert told["caches"].startswith("done: ")
    assert prepare(Before(), [source], CLUSTER, source.parent) == {}


def test_on_a_host_that_no_task_comes_to(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "HELD_S", 0.001)
    monkeypatch.setattr(engines, "capacity", lambda *_: (1, 1))
    monkeypatch.setattr(engines, "create", lambda _, options: Others(options))
    told = prepare(ALL, [source], CLUSTER, source.parent)
    assert told["caches"] == "impossible on stranger: no task came to it"
    assert told["settle"] == "done"
    assert len(impossible(told)) == 2


def test_on_other_hosts(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is impossible on one of them is so for the trial."""
    said = {"sync": "done", "caches": "done: 1 file"}
    by_host = {socket.gethostname(): said, "node1": said, "node2": said}
    answers = hosts.Answers(by_host, ())
    monkeypatch.setattr("hyperslab.apps.experiment.trials.before.ask_hosts", lambda *_: answers)
    told = prepare(ALL, [source], CLUSTER, source.parent)
    assert told["sync"] == "done; on 2 other hosts, too"
    by_host["node2"] = said | {"caches": "impossible: /data: Permission denied"}
    told = prepare(ALL, [source], CLUSTER, source.parent)
    assert told["caches"] == "impossible on node2: /data: Permission denied"


def test_a_cluster_that_is_not_there(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RunStopped("nobody answers at tcp://10.0.0.1:8786")

    monkeypatch.setattr(engines, "capacity", refuse)
    told = prepare(Before(sync=True), [source], CLUSTER, source.parent)
    assert told == {"sync": "impossible on other hosts: nobody answers at tcp://10.0.0.1:8786"}


def test_the_value_of_a_flag() -> None:
    setting = Setting(("--connect=tcp://a:1", "--engine", "spark", "--engine", "dask-bag"))
    assert setting.value_of("--engine") == "dask-bag"
    assert setting.value_of("--connect") == "tcp://a:1"
    assert setting.value_of("--workers") == ""
