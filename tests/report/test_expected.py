"""How long bytes take by a probe: the model with its terms, and what it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from hyperslab.report.expected import expected, expected_words
from hyperslab.report.summary import summarise
from hyperslab.trace import Trace
from tests.report.made_traces import MB, span

PROBE = {
    "read_nbytes_per_s": 100.0 * MB,
    "write_nbytes_per_s": 50.0 * MB,
    "buffered_nbytes_per_s": 1000.0 * MB,
    "clients": 2,
    "from": "probe of /data",
}


def ran(read: int, written: int, seconds: float, **meta: Any) -> Trace:
    """A run that read and wrote so many megabytes, one after the other, in so much time."""
    spans = []
    if read:
        spans.append(span("w0/t0", 0, "read", 0.0, seconds / 2, read * MB))
    if written:
        spans.append(span("w0/t0", 0, "write", seconds / 2, seconds / 2, written * MB))
    end_ns = int(seconds * 1e9)
    moments = {"start_ns": 0, "ready_ns": 0, "end_ns": end_ns}
    return Trace(spans, ["h/w0/t0"], meta={**moments, **meta})


def test_reading_and_writing_add_up() -> None:
    trace = ran(200, 100, 8.0, probe=PROBE)
    found = expected(trace, summarise(trace))
    assert found is not None
    assert found.read_s == pytest.approx(2.0)
    assert found.write_s == pytest.approx(2.0)
    assert found.buffered_s == pytest.approx(2.0)
    assert found.ratio == pytest.approx(2.0)
    assert expected_words(trace, summarise(trace)) == (
        "4.00 s for 200 MB read at 100 MB/s (2.00 s) and 100 MB written at 50.0 MB/s (2.00 s) with"
        " 2 streams; the run took 2.00 x as long"
    )


@pytest.mark.parametrize(
    ("rate", "words"), [(100.0, "20 opens at 10 ms each (200 ms), "), (1e5, "")]
)
def test_opening_files_is_a_term_of_its_own(rate: float, words: str) -> None:
    trace = ran(200, 100, 8.4, probe={**PROBE, "opens_per_s": rate})
    trace.spans.extend(span("w0/t0", n, "open", 0.0, 0.01) for n in range(20))
    trace.spans.append(span("stage-in/0", 0, "open", 0.0, 0.01))
    found = expected(trace, summarise(trace))
    assert found is not None
    assert found.opens == 20
    assert found.open_s == pytest.approx(20 / rate)
    assert found.ratio == pytest.approx(8.4 / (4.0 + 20 / rate))
    assert f" s for {words}200 MB read at" in expected_words(trace, summarise(trace))


@pytest.mark.parametrize(("free", "buffered_s"), [(0, 2.0), (50, 1.05), (500, 0.1)])
def test_memory_takes_what_is_free_of_its_limit(free: int, buffered_s: float) -> None:
    used = {"write": {"free_dirty_nbytes": free * MB}}
    trace = ran(0, 100, 2.0, probe=PROBE, storage=used)
    found = expected(trace, summarise(trace))
    assert found is not None
    assert found.write_s == pytest.approx(2.0)
    assert found.buffered_s == pytest.approx(buffered_s)


def test_a_run_that_was_faster_says_why_that_may_be() -> None:
    trace = ran(200, 0, 1.0, probe=PROBE)
    assert expected_words(trace, summarise(trace)).endswith(
        "the run took 0.50 x as long: some of the bytes came from memory, or reading and writing"
        " overlapped"
    )


@pytest.mark.parametrize(
    "probe", [{}, {"why_not": "damaged"}, {"read_nbytes_per_s": 1e8}, {"write_nbytes_per_s": 1e8}]
)
def test_what_was_not_probed_is_not_expected(probe: dict[str, Any]) -> None:
    trace = ran(200, 100, 8.0, probe=probe)
    assert expected(trace, summarise(trace)) is None
    assert expected_words(trace, summarise(trace)) == ""
