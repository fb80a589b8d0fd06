"""The numbers of a run: traces small enough to be added up by hand, and the laws that hold for any
trace.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.report.gantt import gantt
from hyperslab.report.measures import headline, measures, numbers
from hyperslab.report.summary import SUMMARY_VERSION, Summary, split, summarise, window
from hyperslab.storage.recordfile import save_record
from hyperslab.storage.whole import replace_text
from hyperslab.trace import Span, Trace, union_ns
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

S = 10**9
SPAN_CPU_NS, SPAN_RUNQ_NS = S // 4, S // 10


def _span(
    slot: str, task: int, kind: str, start_s: float, end_s: float, nbytes: int = 0, **other: Any
) -> Span:
    known = {"attempt": 0, "cpu_ns": SPAN_CPU_NS, "runq_ns": SPAN_RUNQ_NS, **other}
    return Span(
        task,
        known.pop("attempt"),
        slot,
        kind,
        round(start_s * S),
        round(end_s * S),
        nbytes,
        **known,
    )


def _hand_made() -> Trace:
    """Ten seconds on three slots: a is busy for 7, b for 6 with a lost attempt and gaps of 3, c is
    never used.
    """
    spans = [
        _span("b", 1, "write", 20, 21, 5, attempt=1),
        _span("a", 0, "open", 12, 13),
        _span("a", 0, "read", 13, 15, 100),
        _span("a", 0, "compute", 15, 16),
        _span("a", 0, "write", 16, 19, 50),
        _span("b", 1, "read", 13, 14, 10, lost=True),
        _span("b", 1, "compute", 14, 15, lost=True),
        _span("b", 1, "read", 17, 18, 10, attempt=1),
        _span("b", 1, "compute", 18, 20, attempt=1),
    ]
    meta = {
        "start_ns": 10 * S,
        "ready_ns": 12 * S,
        "end_ns": 22 * S,
        "moved_nbytes": 7,
        "span_cost_ns": 1e6,
    }
    return Trace(spans, ["a", "b", "c"], meta=meta | {"max_rss": {"0": 2000, "1": 3000}})


def test_every_number_of_a_hand_made_trace() -> None:
    assert dataclasses.asdict(summarise(_hand_made())) == {
        "origin": "measured",
        "makespan_s": 12.0,
        "startup_s": 2.0,
        "makespan_without_startup_s": 10.0,
        "slots": 3,
        "slots_used": 2,
        "tasks": 2,
        "attempts": 3,
        "lost_attempts": 1,
        "read_s": 5.0,
        "compute_s": 4.0,
        "write_s": 4.0,
        "other_s": 0.0,
        "lost_s": 2.0,
        "busy_s": 13.0,
        "overhead_s": 3.0,
        "idle_s": 14.0,
        "average_parallelism": 1.3,
        "utilisation": 13 / 30,
        "read_nbytes": 120,
        "written_nbytes": 55,
        "moved_nbytes": 7,
        "read_nbytes_per_s": 12.0,
        "written_nbytes_per_s": 5.5,
        "total_nbytes_per_s": 17.5,
        "cpu_s": 2.25,
        "runq_s": 0.9,
        "spans": 9,
        "tracing_cost": 0.004,
        "busy_by_slot_s": {"a": 7.0, "b": 6.0, "c": 0.0},
        "max_rss_nbytes": {"0": 2000, "1": 3000},
        "staging": {},
        "waited_s": 0.0,
        "barrier_s": 0.0,
        "tasks_s": 9.0,
        "java_gc_s": None,
        "warning": "",
        "odd_values": "",
    }


def test_levels_wait_for_one_another() -> None:
    """Slot c, which is never used, waits from the start on."""
    spans = [
        _span("a", 0, "compute", 2, 5),
        _span("b", 1, "compute", 2, 8),
        _span("a", 2, "write", 5, 6),
        _span("a", 3, "compute", 9, 10),
    ]
    trace = Trace(slots=["a", "b", "c"], spans=spans, meta={"ready_ns": 2 * S})
    assert summarise(trace).barrier_s == 0
    assert {bars["name"] for bars in gantt(trace)["bars"]} == {"compute", "write"}
    trace.meta["levels"] = [["participant", 3], ["group", 1]]
    summary = summarise(trace)
    assert summary.barrier_s == (9 - 6) + (9 - 8) + (9 - 2)
    assert any(line.split()[:2] == ["barrier", "11.0"] for line in numbers(summary))
    colours = {bars["name"]: bars["colour"] for bars in gantt(trace)["bars"]}
    assert set(colours) == {"participant", "group", "write"}
    assert len(set(colours.values())) == 3
    trace.spans.pop()
    assert summarise(trace).barrier_s == 0


def test_threads_that_stage_are_no_slots() -> None:
    trace = _hand_made()
    alone = summarise(trace)
    trace.spans += [
        _span("a", 0, "wait", 9.0, 9.5),
        _span("h/flush/0", 0, "flush", 2.0, 12.0, 9),
        _span("h/stage-in/0", -1, "stage-in", 2.0, 12.0, 9),
    ]
    trace.meta["staging"] = {"notes": []}
    summary = summarise(trace)
    assert (summary.slots, summary.slots_used) == (alone.slots, alone.slots_used)
    assert summary.busy_by_slot_s.keys() == alone.busy_by_slot_s.keys()
    assert summary.waited_s == 0.5
    assert summary.staging == {"notes": []}


def test_an_instant_belongs_to_the_span_that_began_last() -> None:
    spans = [
        _span("a", 0, "transfer", 0, 8),
        _span("a", 0, "read", 1, 3),
        _span("a", 1, "compute", 6, 10),
    ]
    summary = summarise(Trace(spans, ["a"]))
    assert (summary.read_s, summary.compute_s, summary.other_s, summary.busy_s) == (
        2.0,
        4.0,
        4.0,
        10.0,
    )
    assert summary.cpu_s == 2 * SPAN_CPU_NS / S, (
        "the CPU time of the enclosing span already holds that of the read"
    )


def test_slots_that_never_ran_are_idle_and_not_overhead() -> None:
    alone = summarise(Trace([_span("a", 0, "read", 0, 4)], ["a"]))
    among = summarise(Trace([_span("a", 0, "read", 0, 4)], ["a", "b", "c", "d"]))
    assert (alone.overhead_s, alone.idle_s, alone.utilisation) == (0.0, 0.0, 1.0)
    assert (among.overhead_s, among.idle_s, among.utilisation) == (0.0, 12.0, 0.25)


def test_a_run_without_tasks_divides_nothing_by_zero() -> None:
    summary = summarise(
        Trace([], ["a", "b"], meta={"start_ns": S, "ready_ns": 2 * S, "end_ns": 5 * S})
    )
    assert (summary.makespan_s, summary.startup_s, summary.idle_s, summary.utilisation) == (
        4.0,
        1.0,
        6.0,
        0.0,
    )
    assert summary.tracing_cost is None
    nothing = summarise(Trace([], []))
    assert (nothing.makespan_s, nothing.utilisation, nothing.total_nbytes_per_s) == (0.0, 0.0, 0.0)
    assert headline(nothing) == "0 tasks in 0.0 s on 0 slots"


def test_the_window_holds_spans_that_began_before_ready_or_ended_after_the_end() -> None:
    spans = [_span("a", 0, "read", 1, 4), _span("a", 0, "write", 4, 9)]
    when = window(Trace(spans, ["a"], meta={"start_ns": 2 * S, "ready_ns": 3 * S, "end_ns": 8 * S}))
    assert (when.start_ns, when.ready_ns, when.end_ns) == (1 * S, 1 * S, 9 * S)


def test_a_slot_that_the_trace_does_not_list_is_counted() -> None:
    summary = summarise(Trace([_span("b", 0, "read", 0, 2)], ["a"]))
    assert (summary.slots, summary.slots_used, list(summary.busy_by_slot_s)) == (2, 1, ["a", "b"])


def test_an_unknown_counter_makes_its_sum_unknown() -> None:
    spans = [_span("a", 0, "read", 0, 1), _span("a", 0, "write", 1, 2, runq_ns=-1)]
    summary = summarise(Trace(spans, ["a"]))
    assert summary.runq_s is None
    assert summary.cpu_s == 0.5
    assert "run-queue wait" in {row.label for row in measures(summary)}
    assert {m.label: m.value for m in measures(summary)}["run-queue wait"] == "unknown"


def test_the_cost_of_tracing_prefers_the_cpu_time_of_the_whole_run() -> None:
    trace = _hand_made()
    trace.meta["cpu_ns"] = 9 * S
    assert summarise(trace).tracing_cost == 0.001


SPANS = st.builds(
    lambda slot, kind, start, length, lost: Span(
        0, 0, slot, kind, start, start + length, 1, 1, 1, lost
    ),
    st.sampled_from("abc"),
    st.sampled_from(["open", "read", "compute", "write", "fold"]),
    st.integers(0, 1000),
    st.integers(0, 300),
    st.booleans(),
)


@given(st.lists(SPANS, max_size=30), st.integers(0, 500), st.integers(0, 2000))
def test_the_parts_add_up_to_slots_times_makespan(spans: list[Span], ready: int, end: int) -> None:
    trace = Trace(
        spans, ["a", "b", "c", "d"], meta={"start_ns": 0, "ready_ns": ready, "end_ns": end}
    )
    summary = summarise(trace)
    nanoseconds = [round(part.seconds * 1e9) for part in split(summary)]
    assert min(nanoseconds) >= 0
    assert sum(nanoseconds) == summary.slots * round(summary.makespan_without_startup_s * 1e9)
    for slot, busy_s in summary.busy_by_slot_s.items():
        assert round(busy_s * 1e9) == union_ns(
            [(s.start_ns, s.end_ns) for s in spans if s.slot == slot]
        )


def test_a_saved_summary_is_the_same_when_loaded(tmp_path: Path) -> None:
    summary = summarise(_hand_made())
    summary.save(tmp_path / "summary.json")
    assert Summary.load(tmp_path / "summary.json") == summary
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_a_summary_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    save_record(path, {"version": SUMMARY_VERSION + 1})
    with pytest.raises(ValueError, match=r"summary\.json was written by a newer hyperslab"):
        Summary.load(path)


def test_a_text_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "page.html"
    replace_text(path, "old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_the_terminal_shows_the_answer_and_the_values_that_matter() -> None:
    summary = summarise(_hand_made())
    assert headline(summary) == "2 tasks in 12.0 s on 3 slots, 18 B/s"
    lines = numbers(summary)
    shown = {line[2:].split("  ")[0]: line for line in lines}
    assert "3.00 s (10 %)" in shown["overhead"]
    assert shown["lost attempts"].endswith(" 1")
    assert "0.40 %" in shown["cost of tracing"]
    assert "18 B/s" in shown["throughput"]
    assert "3.00 kB" in shown["peak memory"]
    assert not any("iB" in line for line in lines)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9994, "9.99 kB"),
        (9996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (2**30, "1.07 GB"),
        (10**21, "1000 EB"),
    ],
)
def test_bytes_in_si_units(nbytes: int, text: str) -> None:
    assert show_bytes(nbytes) == text
    assert show_rate(nbytes) == f"{text}/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (4.2e-6, "4.2 µs"),
        (0.0123, "12.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (12.34, "12.3 s"),
        (119.4, "119.4 s"),
        (119.6, "2 min 00 s"),
        (3599, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


def test_shares_and_counts() -> None:
    assert [show_share(s) for s in (0, 0.00031, 0.042, 0.5, 1)] == [
        "0 %",
        "0.031 %",
        "4.2 %",
        "50 %",
        "100 %",
    ]
    assert [show_count(n, "task") for n in (0, 1, 12500)] == ["0 tasks", "1 task", "12,500 tasks"]
    assert [show_count(n, "process", "processes") for n in (1, 2)] == ["1 process", "2 processes"]
