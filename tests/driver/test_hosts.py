"""One question to every host, and what becomes of it when hosts do not answer, fail or die."""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hyperslab import engines
from hyperslab.driver import hosts
from hyperslab.driver.company import Company
from hyperslab.driver.hosts import Answers, ask_hosts, meet_hosts
from hyperslab.driver.options import Options
from hyperslab.engines import EngineOptions
from hyperslab.engines.serial import Serial
from hyperslab.errors import RunStopped, UsageError
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import Slot

HERE = socket.gethostname()


def answer() -> dict[str, Any]:
    return {"pid": os.getpid()}


def fail() -> None:
    raise ValueError("no such thing")


class WithStranger(Serial):
    """An engine that lists a host to which no task comes."""

    def slots(self) -> Sequence[Slot]:
        return [*super().slots(), Slot("stranger", 0, 0)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every engine is that one, which stands for a cluster; the folder that its hosts share."""
    monkeypatch.setattr(hosts, "reaches_hosts", lambda _: True)
    monkeypatch.setattr(hosts, "HELD_S", 0.001)
    monkeypatch.setattr(engines, "create", lambda _, options: WithStranger(options))
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_an_engine_of_this_host_alone_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, options: EngineOptions) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(engines, "create", refuse)
    assert ask_hosts(answer, Options()) == Answers({HERE: {"pid": os.getpid()}}, ())


def test_a_host_without_an_answer_is_named(cluster: Path) -> None:
    found = ask_hosts(answer, Options(engine="serial"), cluster)
    assert found == Answers({HERE: {"pid": os.getpid()}}, ("stranger",))
    assert list(cluster.iterdir()) == []


class Late(Serial):
    """An engine whose second host has a task when the others have long begun."""

    def run(self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None) -> Any:
        yield from super().run(tasks, steps, merge)
        (meeting,) = steps
        assert isinstance(meeting, hosts.Meeting)
        Path(meeting.folder, hosts.MEETING, "part@late").touch()


def take_part(company: Company) -> list[str]:
    return list(company.hosts)


@pytest.mark.usefixtures("cluster")
def test_a_host_that_comes_too_late_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hosts of a batch system are not known before."""
    monkeypatch.setattr(engines, "create", lambda _, options: Late(options))
    found = meet_hosts(take_part, Options(engine="slurm"), tmp_path / "shared")
    assert found == Answers({HERE: [HERE]}, ("late",))


def test_a_question_that_fails_says_where(cluster: Path) -> None:
    with pytest.raises(RunStopped, match=f"{HERE} cannot answer: ValueError: no such thing"):
        ask_hosts(fail, Options(engine="serial"), cluster)
    assert list(cluster.iterdir()) == []


def test_a_folder_that_cannot_hold_the_answers(cluster: Path) -> None:
    with pytest.raises(UsageError, match="start the command in a folder that all of them see"):
        ask_hosts(answer, Options(engine="serial"), cluster / "missing")


def die(mark: str) -> None:
    Path(mark).touch()
    os._exit(3)


def test_workers_that_die_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "reaches_hosts", lambda _: True)
    monkeypatch.setattr(hosts, "ROUNDS", 1)
    question = functools.partial(die, str(tmp_path / "asked"))
    with pytest.raises(RunStopped, match=r"no host has answered: .*exit"):
        ask_hosts(question, Options(engine="processes", workers=1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["asked"]


def test_threads_that_answer_for_one_host_at_the_same_time_agree(tmp_path: Path) -> None:
    """As two of a worker do, neither of which has seen the other's answer."""
    (tmp_path / "answers").mkdir()
    both = threading.Barrier(2)
    asking = hosts.Asking(both.wait, str(tmp_path / "answers"), (HERE,))
    for _ in range(20):
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(asking, map(hosts._task, range(2))))
        assert [outcome.status for outcome in outcomes] == ["done", "done"]
        (answer,) = (tmp_path / "answers").iterdir()
        answer.unlink()
