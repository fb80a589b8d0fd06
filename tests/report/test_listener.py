"""A listener hears all that is said, and leaves no thread behind."""

from __future__ import annotations

import io
import threading
import time

import pytest

from hyperslab.report import listener
from hyperslab.report.listener import Listener
from tests.system.faults.command import await_that


def speaking() -> int:
    return sum(thread.name == "progress" for thread in threading.enumerate())


def test_a_thread_ends_that_has_nothing_to_say_and_another_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "IDLE_S", 0.001)
    monkeypatch.setattr(listener, "PATIENCE_S", 60)
    before = speaking()
    heard = io.StringIO()
    spoken = Listener(heard)
    for number in range(50):
        spoken.write(f"{number}\n")
        spoken.drain()
        assert heard.getvalue().endswith(f"{number}\n")
        time.sleep(0.001 * (number % 4))
    await_that("the end of its threads", lambda: speaking() <= before)
    assert heard.getvalue().split() == [str(number) for number in range(50)]
