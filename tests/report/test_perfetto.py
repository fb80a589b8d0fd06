"""The Perfetto export, read as Perfetto's importer of JSON traces reads it."""

from __future__ import annotations

import itertools
import json
import random
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.report.perfetto import write_perfetto
from hyperslab.report.summary import lanes, window
from hyperslab.storage.whole import replacement
from hyperslab.trace import NO_TASK, Span, Trace
from tests.importer import Importer

S = 10**9
HOSTILE = "</script> \x7f \x00 \n \" \\ 'é' \U0001f9e0 \udcff"
ESCAPED = HOSTILE.replace("\udcff", "\\udcff")


def _span(
    slot: str, task: int, kind: str, start_s: float, end_s: float, nbytes: int = 0, **other: Any
) -> Span:
    known = {"attempt": 0, "cpu_ns": 1234567, "runq_ns": 1, **other}
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


def _trace() -> Trace:
    """Two hosts; one slot is never used, one task is lost and repeated, two spans of a slot
    overlap.
    """
    spans = [
        _span("a/w0/t0", 0, "read", 12, 14, 4_000_000),
        _span("a/w0/t0", 0, "compute", 14, 15),
        _span("a/w0/t0", 0, "transfer", 14.25, 14.5, 10),
        _span("a/w0/t0", 0, "write", 15, 16, 1_000_000),
        _span("b/w0/t1", 1, "read", 12, 13, 100, lost=True, runq_ns=-1),
        _span("b/w0/t1", 1, "read", 13, 15, 100, attempt=1),
        _span("b/w0/t1", 2, "compute", 14, 18),
        _span("a/w0/t1", NO_TASK, "transfer", 18, 19, 8),
    ]
    slots = ["a/w0/t0", "a/w0/t1", "b/w0/t0", "b/w0/t1"]
    meta = {
        "start_ns": 10 * S,
        "ready_ns": 12 * S,
        "end_ns": 20 * S,
        "labels": [HOSTILE, "one"],
        "plan": "abc",
    }
    return Trace(spans, slots, meta=meta)


def _imported(trace: Trace, path: Path) -> Importer:
    write_perfetto(trace, path)
    return Importer(path)


def test_every_span_becomes_a_slice_of_its_slot(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    by_slot = {
        found.slot(tid): slices
        for tid, slices in found.slices.items()
        if "overlap" not in found.threads[tid][1]
    }
    assert [(s.name, s.start_ns, s.end_ns) for s in by_slot["a/w0/t0"]] == [
        ("read", 2 * S, 4 * S),
        ("compute", 4 * S, 5 * S),
        ("transfer", 4 * S + S // 4, 4 * S + S // 2),
        ("write", 5 * S, 6 * S),
    ]
    assert by_slot["a/w0/t0"][0].args == {
        "task": ESCAPED,
        "number": 0,
        "attempt": 0,
        "bytes": 4_000_000,
        "cpu_ms": Decimal("1.234567"),
        "run_queue_ms": Decimal("0.000001"),
    }
    assert found.about == {"program": "hyperslab", "origin": "measured", "plan": "abc"}


def test_workers_and_slots_have_names_and_an_order(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    named = [
        found.slot(tid) for tid in sorted(found.threads, key=lambda tid: found.order["thread", tid])
    ]
    assert named == ["run/engine start-up", "a/w0/t0", "a/w0/t1", "b/w0/t0", "b/w0/t1", "b/w0/t1"]
    assert sorted(found.processes, key=lambda pid: found.order["process", pid]) == sorted(
        found.processes
    )
    assert list(found.processes.values()) == ["run", "a/w0", "b/w0"]
    assert len({*found.processes, *found.threads}) == len(found.processes) + len(found.threads)


def test_lost_attempts_say_so(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    lost = [s for slices in found.slices.values() for s in slices if s.category == "lost"]
    assert [(s.name, s.args["task"], s.args["attempt"]) for s in lost] == [
        ("read (lost attempt)", "one", 0)
    ]
    assert "run_queue_ms" not in lost[0].args, "nobody knows it"
    events = json.loads(found.text)["traceEvents"]
    assert {e["cat"] for e in events if e.get("cname") == "terrible"} == {"lost"}


def test_start_up_is_a_track_of_its_own(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    (tid,) = (tid for tid in found.threads if found.slot(tid) == "run/engine start-up")
    assert [(s.name, s.start_ns, s.end_ns) for s in found.slices[tid]] == [("start-up", 0, 2 * S)]


def test_spans_that_overlap_in_a_slot_get_a_track_each(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    (tid,) = (tid for tid, (_, name) in found.threads.items() if name == "t1 (overlap 1)")
    assert [(s.name, s.args["number"], s.args["task"]) for s in found.slices[tid]] == [
        ("compute", 2, "2")
    ]


def test_work_of_the_engine_for_many_is_no_task(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    (own,) = (slices for tid, slices in found.slices.items() if found.slot(tid) == "a/w0/t1")
    assert [(s.name, s.args["task"]) for s in own] == [("transfer", "many")]
    assert found.counters["running tasks"][-1] == (8 * S, {"tasks": 0}), "before it begins"


def test_counters_follow_tasks_and_bytes(tmp_path: Path) -> None:
    found = _imported(_trace(), tmp_path / "trace.json")
    steps = [(ns // S, values["tasks"]) for ns, values in found.counters["running tasks"]]
    assert steps == [(0, 0), (2, 2), (3, 2), (4, 3), (5, 2), (6, 1), (8, 0)]
    rates = found.counters["throughput"]
    for phase, moved in (("read", 4_000_200), ("write", 1_000_000)):
        lengths = [after[0] - before[0] for before, after in itertools.pairwise(rates)]
        held = [values[f"{phase} MB/s"] for _, values in rates[:-1]]
        total = sum(rate * 1e6 * length / S for rate, length in zip(held, lengths, strict=True))
        assert total == pytest.approx(moved, rel=1e-2)
    assert rates[-1] == (10 * S, {"read MB/s": 0.0, "write MB/s": 0.0})


def test_a_run_in_which_nothing_was_left_to_do_is_written(tmp_path: Path) -> None:
    meta = {"start_ns": 5, "ready_ns": 5, "end_ns": 5}
    found = _imported(Trace([], ["a/w0/t0"], meta=meta), tmp_path / "trace.json")
    assert [name for _, name in found.threads.values()] == ["engine start-up", "t0"]
    assert [values for _, values in found.counters["running tasks"]] == [{"tasks": 0}]
    _imported(Trace([], []), tmp_path / "empty.json")


def test_a_name_in_gz_is_compressed_and_the_file_is_whole(tmp_path: Path) -> None:
    plain, packed = (
        _imported(_trace(), tmp_path / "t.json"),
        _imported(_trace(), tmp_path / "t.json.gz"),
    )
    assert plain.text == packed.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json", "t.json.gz"]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, name: str) -> None:
    before = _imported(_trace(), tmp_path / name).text
    with pytest.raises(KeyboardInterrupt):
        _write_half(tmp_path / name)
    assert Importer(tmp_path / name).text == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _write_half(path: Path) -> None:
    with replacement(path) as file:
        file.write("half")
        raise KeyboardInterrupt


SLOTS = st.sampled_from(["a/w0/t0", "a/w0/t1", "a/w1/t0", "b/w0/t0", "odd", "odd/", "/odd"])
MOMENTS = st.one_of(st.integers(0, 12), st.integers(0, 10**13))


@st.composite
def _spans(draw: st.DrawFn) -> Span:
    start, end = sorted([draw(MOMENTS), draw(MOMENTS)])
    nbytes, cpu, runq = (draw(st.integers(low, 2**40)) for low in (0, -1, -1))
    kind = draw(st.sampled_from(["open", "read", "compute", "write", "lost", HOSTILE]))
    task, attempt = draw(st.integers(-1, 5)), draw(st.integers(0, 2))
    return Span(
        task, attempt, draw(SLOTS), kind, start, end, nbytes, cpu, runq, draw(st.booleans())
    )


@given(
    spans=st.lists(_spans(), max_size=12),
    moments=st.lists(MOMENTS, min_size=3, max_size=3),
    told=st.booleans(),
)
def test_any_trace_is_taken_whole(
    tmp_path_factory: pytest.TempPathFactory, spans: list[Span], moments: list[int], told: bool
) -> None:
    names = (
        dict(zip(("start_ns", "ready_ns", "end_ns"), sorted(moments), strict=True)) if told else {}
    )
    trace = Trace(spans, ["a/w0/t0", "z/w9/t9"], meta={**names, "labels": ["zero", HOSTILE]})
    path = tmp_path_factory.getbasetemp() / "any.json"
    found = _imported(trace, path)
    start = window(trace).start_ns
    written = sorted(
        (s.start_ns + start, s.end_ns + start) for t in found.slices.values() for s in t if s.args
    )
    assert written == sorted((span.start_ns, span.end_ns) for span in spans)
    assert sum("overlap" not in name for _, name in found.threads.values()) == len(lanes(trace)) + 1
    assert found.counters["running tasks"][-1][1] == {"tasks": 0}


def _seconds_to_write(spans: int, path: Path) -> float:
    draw = random.Random(spans)
    slots = [f"node{i // 8:02d}/w{i % 8}/t0" for i in range(64)]
    rows = [
        Span(
            i // 3,
            0,
            slots[i % 64],
            ("read", "compute", "write")[i % 3],
            i // 64 * 1000,
            i // 64 * 1000 + 999,
            draw.randrange(10**6),
            5,
            5,
        )
        for i in range(spans)
    ]
    trace = Trace(rows, slots, meta={"labels": [f"block {i}" for i in range(spans // 3 + 1)]})
    began = time.process_time()
    write_perfetto(trace, path)
    return time.process_time() - began


def test_spans_cost_what_their_number_says(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    _seconds_to_write(1000, path)  # imports
    tenth = min(_seconds_to_write(1_500, path) for _ in range(2))
    whole = _seconds_to_write(15_000, path)
    print(
        f"1,500 spans: {tenth:.2f} s; 15,000 spans: {whole:.2f} s,"
        f" {path.stat().st_size / 1e6:.0f} MB"
    )
    assert whole < 30 * tenth
    assert sum(len(slices) for slices in Importer(path).slices.values()) == 15_001
