"""What is told of a run in a log and on a terminal, without one."""

from __future__ import annotations

import io
import time

import pytest

from hyperslab.report.progress import Bar, Lines


def test_names_that_take_long_are_lines_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream)
    for done in range(0, 1729, 64):
        lines.named(done, 1728)
        now[0] += 0.4
    lines.end()
    told = stream.getvalue().splitlines()
    assert told[0] == "writing names 192/1728"
    assert told[-1] == "writing names 1728/1728"
    assert 3 <= len(told) <= 6


def test_names_that_take_no_time_are_not_told() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    for done in (0, 64, 100):
        lines.named(done, 100)
    lines.end()
    assert stream.getvalue() == ""


def test_names_are_what_a_bar_is_of_after_the_last_task() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = Bar(stream)
    bar.begin(3, 30)
    for _ in range(3):
        bar.advance(10)
    bar.end()
    bar.named(0, 1728)
    bar.named(640, 1728)
    bar.end()
    assert "writing names" in stream.getvalue()
    assert "640/1728" in stream.getvalue()
