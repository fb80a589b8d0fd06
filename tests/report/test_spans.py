"""What a span says of the time that its thread waited for a processor, beside the kernel's own
count.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab import trace
from hyperslab.trace import recording, span

OWN = Path("/proc/thread-self/schedstat")
UNSAID_NS = 100_000
"A span may leave out 20 us before it and 20 us of its own; the kernel is asked a moment later."

pytestmark = pytest.mark.skipif(
    not OWN.exists(), reason="this kernel does not tell how long threads queue; run on Linux"
)


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def queued_ns() -> int:
    return int(OWN.read_text().split()[1])


@pytest.fixture
def one_processor_for_two() -> Iterator[None]:
    """Another process that wants the one processor that this one may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    other = multiprocessing.get_context("fork").Process(target=spin, args=(1000.0,), daemon=True)
    other.start()
    try:
        yield
    finally:
        other.kill()
        other.join()
        os.sched_setaffinity(0, before)


def test_a_span_says_what_the_kernel_counts(one_processor_for_two: None) -> None:
    within, around = [], []
    with recording() as phases:
        for _ in range(10):
            before = queued_ns()
            with span("compute"):
                begun = queued_ns()
                spin(0.01)
                within.append(queued_ns() - begun)
            around.append(queued_ns() - before)
    assert max(within) > 10 * UNSAID_NS
    for phase, least, most in zip(phases, within, around, strict=True):
        assert least - UNSAID_NS <= phase.runq_ns <= most + UNSAID_NS


def ask_in_child(answers: multiprocessing.SimpleQueue[tuple[int, int]]) -> None:
    """What a span of a forked process says, and what the kernel counts for it in all."""
    with recording() as phases, span("compute"):
        spin(0.05)
    answers.put((phases[0].runq_ns, queued_ns()))


def test_a_forked_process_waits_for_itself(one_processor_for_two: None) -> None:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[tuple[int, int]] = context.SimpleQueue()
    with recording(), span("compute"):
        spin(0.01)
    child = context.Process(target=ask_in_child, args=(answers,))
    child.start()
    said, own = answers.get()
    child.join()
    assert 0 < said <= own


def test_the_kernel_is_asked_only_after_an_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask() -> int:
        asked.append(1)
        return 0

    monkeypatch.setattr(trace, "_ask_kernel", ask)
    with recording():
        for _ in range(1000):
            with span("compute"):
                pass
    busy = len(asked)
    with recording():
        for _ in range(10):
            time.sleep(0.001)
            with span("compute"):
                pass
    assert busy < 500
    assert len(asked) - busy >= 10


def test_a_kernel_that_stops_telling_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([5, -1])
    monkeypatch.setattr(trace, "_ask_kernel", lambda: next(told))
    monkeypatch.setattr(trace, "_current", trace._Recording())
    with recording() as phases, span("wait"):
        time.sleep(0.001)
    assert phases[0].runq_ns == -1
