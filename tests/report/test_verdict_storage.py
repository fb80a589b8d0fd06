"""The rules about storage on traces made for them, with their boundaries, and what they must not
claim.
"""

from __future__ import annotations

from typing import Any

import pytest

from hyperslab.report.verdict.storage import Stretch, growth, stretches_of
from hyperslab.trace import Span
from tests.report.made_traces import LOAD, MB, S, of, rules, side_by_side, span, trace


def reading(rate: Any, waits: float = 0.9, **shares: Any) -> list[Span]:
    """Stretches of 1 reader and of 2 readers in turn, which get rate(readers) MB/s together."""
    spans = []
    for i in range(12):
        readers = 1 + i % 2
        nbytes = int(rate(readers) * MB / readers)
        known = {"cpu": 1 - waits, **shares}
        spans += [
            span(f"w{r}/t0", 2 * i + r, "read", 1.1 * i, 1.0, nbytes, **known)
            for r in range(readers)
        ]
    return spans


def test_a_rate_that_more_readers_do_not_raise_is_the_bandwidth() -> None:
    spans = reading(lambda readers: 26.0)
    verdict = of(trace(spans))
    assert verdict.findings[0].rule == "storage-bandwidth"
    assert (
        "1.0 readers at a time got 26.0 MB/s together, 2.0 readers at a time got 26.0 MB/s"
        in verdict.paragraph
    )
    assert "half the --workers would do as well" in verdict.paragraph
    assert verdict.findings[0].share == pytest.approx(18 * 0.9 / (2 * 13.1), rel=0.01)


def test_a_rate_that_falls_with_more_readers_asks_for_fewer() -> None:
    assert "would be faster" in of(trace(reading(lambda readers: 30.0 / readers))).paragraph


def test_a_rate_that_grows_with_the_readers_is_latency() -> None:
    verdict = of(trace(reading(lambda readers: 10.0 * readers)))
    assert verdict.findings[0].rule == "storage-latency"
    assert "use more slots" in verdict.paragraph


@pytest.mark.parametrize("exponent", [0.36, 0.5, 0.64])
def test_a_rate_in_between_is_left_open(exponent: float) -> None:
    assert rules(trace(reading(lambda readers: 10.0 * readers**exponent)))[0] == "storage-wait"


def test_always_as_many_readers_cannot_tell() -> None:
    spans = side_by_side("read", nbytes=10 * MB, cpu=0.1)
    assert rules(trace(spans))[0] == "storage-wait"
    assert "cannot be seen" in of(trace(spans)).paragraph


@pytest.mark.parametrize(
    ("probe", "rule"), [(25 * MB, "storage-bandwidth"), (30 * MB, "storage-wait")]
)
def test_a_probe_tells_at_seven_tenths_of_its_rate(probe: int, rule: str) -> None:
    spans = side_by_side("read", nbytes=10 * MB, cpu=0.1)
    assert rules(trace(spans, probe={"read_nbytes_per_s": probe}))[0] == rule


def test_writes_are_told_from_reads() -> None:
    spans = side_by_side("write", nbytes=10 * MB, cpu=0.1)
    verdict = of(trace(spans, probe={"write_nbytes_per_s": 20 * MB}))
    assert verdict.findings[0].rule == "storage-bandwidth"
    assert "waited for writes" in verdict.findings[0].sentence


@pytest.mark.parametrize(("cpu", "is_storage"), [(0.49, True), (0.51, False)])
def test_reads_that_compute_most_of_their_time_are_not_storage(
    cpu: float, is_storage: bool
) -> None:
    assert ("storage-wait" in rules(trace(side_by_side("read", nbytes=MB, cpu=cpu)))) is is_storage


@pytest.mark.parametrize(("busy", "is_storage"), [(0.79, True), (0.81, False), (None, False)])
def test_without_the_queue_waiting_is_storage_only_on_a_machine_with_processors_to_spare(
    busy: float | None, is_storage: bool
) -> None:
    spans = side_by_side("read", nbytes=MB, cpu=0.1, runq=None)
    assert ("storage-wait" in rules(trace(spans, load={**LOAD, "busy_share": busy}))) is is_storage
    if not is_storage:
        verdict = of(trace(spans, load={**LOAD, "busy_share": busy}))
        assert verdict.paragraph.startswith("100 % of the slots' time went to reading.")


def test_queueing_for_a_processor_is_not_waiting_for_storage() -> None:
    assert "storage-wait" not in rules(trace(side_by_side("read", nbytes=MB, cpu=0.05, runq=0.9)))


def slow_opens() -> list[Span]:
    """Files that take long to be opened, and of which little is read."""
    spans = []
    for i in range(20):
        spans += [
            span(f"w{i % 2}/t0", i, "open", i // 2, 0.6, cpu=0.01),
            span(f"w{i % 2}/t0", i, "read", i // 2 + 0.6, 0.3, 2000, cpu=0.1),
        ]
    return spans


def test_slow_opens_are_metadata() -> None:
    verdict = of(trace(slow_opens()))
    assert verdict.findings[0].rule == "metadata-latency"
    assert (
        "20 opens waited 594 ms each and 20 transfers of 2.00 kB on average waited 270 ms"
        in verdict.paragraph
    )
    assert verdict.findings[0].share == pytest.approx((0.594 + 0.27) * 20 / 19.8, rel=0.01)


def test_latencies_of_a_probe_stand_beside_those_of_the_run() -> None:
    probe = {"open_s": 0.002, "latency_s": 0.001}
    paragraph = of(trace(slow_opens(), probe=probe)).paragraph
    assert "594 ms each (of a probe's own files: 2 ms)" in paragraph
    assert "270 ms each (a probe's small reads: 1 ms)" in paragraph
    rising = trace(reading(lambda readers: 10.0 * readers), probe=probe)
    assert "a small read took 1 ms when the device was probed" in of(rising).paragraph


def test_opening_by_hard_work_is_not_latency() -> None:
    assert "metadata-latency" not in rules(trace(side_by_side("open", cpu=0.9)))


def test_growth_needs_a_number_of_readers_that_varies() -> None:
    assert growth([Stretch(S, 2.0, 5.0)] * 9) is None
    assert growth([Stretch(S, 1.0, 5.0), Stretch(S, 2.0, 5.0)]) is None
    noisy = growth([Stretch(S, 1.0 + i % 2, (1.0, 4.0)[i // 2 % 2]) for i in range(12)])
    assert noisy is not None
    assert not noisy.is_flat
    assert [s.readers for s in stretches_of(reading(lambda readers: 1.0))] == [1.0, 2.0] * 6
