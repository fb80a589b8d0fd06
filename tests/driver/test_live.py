"""The live page of a run: served to who knows its address, as long as the run lasts, at no risk to
it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import pytest

import hyperslab
from hyperslab.driver import live
from hyperslab.driver.live import MOST_CONNECTIONS, Seen
from hyperslab.report.failures import Failed
from hyperslab.report.progress import Count
from hyperslab.testing.holding import hold, let_go
from hyperslab.trace import Span, Trace
from tests.repetitions import few
from tests.system.end_to_end.command import ANATOMICAL, start
from tests.system.faults.command import PATIENCE_S, await_that

COUNTED = "hyperslab.testing.functions:counted"
ADDRESS = re.compile(r"live +(http://127\.0\.0\.1:\d+/\?token=[\w-]{32})$", re.MULTILINE)


def trace() -> Trace:
    return Trace([Span(0, 0, "a/w0/t0", "read", 0, 10**9, 10**6, 10**8, 0)], ["a/w0/t0"])


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    count = Count()
    count.begin(3, 1)
    count.advance(10**6)
    failed = Failed("b.nii", "FormatError", "the file is truncated", 1)
    return Seen("smooth over a.nii", tmp_path / "report.html", count, trace, lambda: [failed])


def address(text: str) -> str:
    (found,) = ADDRESS.findall(text)
    return str(found)


@contextlib.contextmanager
def served(seen: Seen, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """The address of the page of a run under way."""
    with live.shown(seen):
        yield address(capsys.readouterr().err)


def ask(url: str, path: str = "/") -> http.client.HTTPResponse:
    to = urlsplit(url)
    connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=PATIENCE_S)
    connection.request("GET", f"{path}?{to.query}")
    return connection.getresponse()


def messages(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """The events of a stream as they come."""
    for line in answer:
        if line.startswith(b"event: "):
            yield line[7:].decode().strip(), json.loads(next(answer).removeprefix(b"data: "))


def named() -> set[str]:
    """Names of the threads of this process."""
    return {thread.name for thread in threading.enumerate()}


def is_open(url: str) -> bool:
    to = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((str(to.hostname), to.port)) == 0


def test_a_run_sends_progress_failures_and_charts_and_at_its_end_its_page(
    seen: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(seen, capsys) as url:
        page = ask(url)
        assert page.status == 200
        assert "smooth over a.nii" in page.read().decode()
        stream = messages(ask(url, "/events"))
        said = dict([next(stream), next(stream), next(stream)])
        seen.page.write_text("<h1>it stays</h1>")
    assert said["progress"]["words"].startswith(" 50%  2/4 tasks  ")
    assert "the file is truncated" in said["failures"]
    assert said["charts"]["gantt"]["slots"] == ["a/w0/t0"]
    last = dict(stream)
    assert last["end"]["page"] == "<h1>it stays</h1>"
    assert str(seen.page) in last["end"]["words"]
    assert not is_open(url)
    await_that("the end of its thread", lambda: "live" not in named())


def test_who_does_not_know_the_token_sees_nothing(
    seen: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(seen, capsys) as url:
        for wrong in (f"{url}x", url.partition("?")[0], url.replace("token=", "token=%ff")):
            for path in ("/", "/events"):
                refused = ask(wrong, path)
                assert refused.status == 403
                assert b"smooth" not in refused.read()
        assert ask(url, "/other").status == 404
        to = urlsplit(url)
        others = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)]
        for host in {str(other) for other in others} - {"127.0.0.1", "127.0.1.1", "::1"}:
            with socket.socket() as probe:
                assert probe.connect_ex((host, to.port)) != 0, host
    assert capsys.readouterr() == ("", "")


def test_browsers_that_are_stuck_or_gone_hold_nothing_up(
    seen: Seen, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One never reads what it is sent, one has left, many say nothing at all, and none is given up
    before the end.
    """
    monkeypatch.setattr(live._Handler, "timeout", 1000)
    large = replace(trace(), spans=[*trace().spans] * 100_000)
    with served(replace(seen, trace=lambda: large), capsys) as url:
        stuck = ask(url, "/events")
        ask(url, "/events").close()
        to = urlsplit(url)
        silent = [socket.create_connection((str(to.hostname), to.port)) for _ in range(40)]
        assert len(silent) > MOST_CONNECTIONS
        monkeypatch.setattr(live, "LEAVE_S", 0.5)
    assert not is_open(url)
    stuck.close()
    for each in silent:
        each.close()
    assert capsys.readouterr().err == ""


def test_charts_take_a_twentieth_of_a_processor_at_most(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    now_s = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], thread_time=time.thread_time)
    monkeypatch.setattr(live, "time", clock)

    def slow_trace() -> Trace:
        began = time.thread_time()
        while time.thread_time() - began < 0.1:
            pass
        made.append(1)
        return trace()

    sight = live._Sight(replace(seen, trace=slow_trace))
    for _ in range(6):
        sight.messages()
        now_s[0] += 0.3
    assert len(made) == 1, "the next is due two seconds after the first"
    now_s[0] += 60
    sight.messages()
    assert len(made) == 2


def test_nobody_asked_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = hyperslab.Pipeline(str(ANATOMICAL)).write(str(tmp_path / "out"))
    with mock.patch.object(live, "shown", wraps=live.shown) as shown:
        hyperslab.run(pipeline, engine="serial", report=False)
    assert not shown.called
    assert capsys.readouterr() == ("", "")


def bars(charts: Any) -> int:
    """How much there is to be drawn of tasks."""
    return sum(len(kind["lane"]["base64"]) for kind in charts["gantt"]["bars"])


def until_more_bars(stream: Iterator[tuple[str, Any]], runs: Path) -> Iterator[tuple[str, Any]]:
    """Events of a run until its charts have grown; a task of it goes on after each of them."""
    seen = []
    for name, told in stream:
        yield name, told
        if name == "charts":
            seen.append(bars(told))
            if seen[-1] > seen[0]:
                return
            hold(runs, 1)


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_a_run_of_python_is_followed_to_its_end(
    engine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    params = {"folder": str(runs), "seconds": 0.2}
    pipeline = hyperslab.Pipeline(str(ANATOMICAL)).map(COUNTED, params=params)
    pipeline = pipeline.write(str(tmp_path / "out"))
    settings: dict[str, Any] = {"engine": engine, "workers": 1, "blocks": 8, "live": True}
    running = threading.Thread(target=hyperslab.run, args=(pipeline,), kwargs=settings)
    hold(runs, 1)
    running.start()
    heard = ""
    while "live" not in heard:
        time.sleep(0.02)
        heard += capfd.readouterr().err
    url = address(heard)
    stream = messages(ask(url, "/events"))
    said = list(until_more_bars(stream, runs))
    let_go(runs)
    said += stream
    running.join()
    seen = [bars(charts) for name, charts in said if name == "charts"]
    assert seen[-1] > seen[0], "bars come in while the run goes on"
    assert [name for name, _ in said].count("end") == 1
    (page,) = (tmp_path / "out").rglob("report.html")
    assert said[-1][1]["page"] == page.read_text()
    assert not is_open(url)


SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("ended_by", few(SIGNALS[:2], SIGNALS, "it ends with the run"))
def test_it_ends_with_the_run_whatever_ends_that(tmp_path: Path, ended_by: signal.Signals) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    hold(runs)
    line = ("run", COUNTED, ANATOMICAL, "-o", tmp_path / "out", "--workers", "2", "--blocks", "20")
    with start(*line, "-p", f"folder={runs}", "-q", "--live", start_new_session=True) as run:
        try:
            assert run.stderr is not None
            url = address(run.stderr.readline().rstrip("\n"))
            stream = messages(ask(url, "/events"))
            assert next(stream)[0] == "progress"
            run.send_signal(ended_by)
            run.wait(timeout=PATIENCE_S)
            assert not is_open(url)
            with contextlib.suppress(ConnectionError):
                said = [name for name, _ in stream]
                assert ("end" in said) is (ended_by != signal.SIGKILL)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


def test_a_process_that_a_function_has_forked_holds_no_port(
    seen: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(seen, capsys) as url:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the server has threads
            forked = os.fork()
        if not forked:
            time.sleep(1000)
            os._exit(0)
    try:
        await_that("the port is free", lambda: not is_open(url))
    finally:
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)
