"""Every rule of the verdict on traces made for it, with its boundaries, and what it must not
claim.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.report.verdict.evidence import collect, exclusive
from hyperslab.trace import LOST, Span, Trace
from tests.report.made_traces import LOAD, MB, RUN, S, found, of, rules, side_by_side, span, trace


def test_nothing_ran() -> None:
    verdict = of(trace([]))
    assert verdict.findings == ()
    assert "No task ran" in verdict.paragraph
    assert of(Trace([], [])).findings == ()


def between_gaps(length_s: float, gap_s: float, tasks: int = 40) -> list[Span]:
    step = length_s + gap_s
    return [
        span(f"w{i % 2}/t0", i, "compute", i // 2 * step, length_s, cpu=1.0) for i in range(tasks)
    ]


def test_tiny_tasks_are_overhead() -> None:
    gaps = between_gaps(0.001, 0.004, tasks=800)
    tiny = found(trace(gaps), "engine-overhead")
    assert tiny.share == pytest.approx(0.79, abs=0.02)
    assert "800 tasks with a median length of 1 ms cost 3.99 ms each" in tiny.evidence
    assert "about 80 times larger" in tiny.advice
    assert "--engine processes" not in tiny.advice
    assert (
        "--engine processes" in found(trace(gaps, run={**RUN, "is_light": False}), tiny.rule).advice
    )
    automatic = found(trace(gaps, run={**RUN, "rule": "auto", "blocks": 800}), tiny.rule).advice
    assert automatic == (
        "Use --engine threads or serial: there is too little work for processes to share."
    )
    many = trace(gaps, run={**RUN, "rule": "blocks=800", "blocks": 800, "arrays": 200})
    assert "about 4 times larger" in found(many, tiny.rule).advice


def test_a_seventh_of_overhead_is_not_worth_a_word() -> None:
    assert "engine-overhead" not in rules(trace(between_gaps(1.0, 0.16)))
    assert "engine-overhead" in rules(trace(between_gaps(1.0, 0.25)))


def test_gaps_on_a_crowded_machine_are_overhead_only_where_they_exceed_the_tasks() -> None:
    crowded = {**LOAD, "busy_share": 1.0, "others_share": 0.6}
    assert "engine-overhead" in rules(trace(between_gaps(0.001, 0.004, 800), load=crowded))
    assert "engine-overhead" not in rules(trace(between_gaps(1.0, 0.8), load=crowded))


def test_streams_that_are_inflated_again_are_named_and_no_sound_work() -> None:
    spans = [span(f"w{i % 2}/t0", i, "read", i // 2, 1.0, MB, cpu=1.0) for i in range(10)]
    again = found(trace(spans, run={**RUN, "times_inflated": 5.0}), "inflating")
    assert again.share == pytest.approx(0.8)
    assert "read the streams 5.0 times" in again.evidence
    assert "compute-bound" not in rules(trace(spans, run={**RUN, "times_inflated": 5.0}))
    for times in (1.0, 1.9):
        assert rules(trace(spans, run={**RUN, "times_inflated": times})) == ["compute-bound"]


def threads(workers: int, blocked: float, cpu: float | None = None, **shares: Any) -> list[Span]:
    """Two slots in one worker, or in two, that compute all the time."""
    slots = ("w0/t0", "w0/t1") if workers == 1 else ("w0/t0", "w1/t0")
    share = {"cpu": 1 - blocked if cpu is None else cpu, **shares}
    return [span(slots[i % 2], i, "compute", i // 2, 1.0, **share) for i in range(12)]


ONE_WORKER = ("w0/t0", "w0/t1")


def test_threads_that_wait_for_one_another_are_bound_by_the_lock() -> None:
    verdict = of(trace(threads(1, 0.5), ONE_WORKER, run={**RUN, "workers": 1, "threads": 2}))
    assert verdict.findings[0].rule == "gil"
    assert "--workers 2 --threads 1" in verdict.paragraph
    assert "compute-bound" not in [f.rule for f in verdict.findings]


def test_the_boundary_of_the_lock() -> None:
    assert "gil" not in rules(trace(threads(1, 0.24), ONE_WORKER))
    assert "gil" in rules(trace(threads(1, 0.26), ONE_WORKER))


def test_the_queue_for_a_processor_is_left_out_of_the_lock() -> None:
    assert "gil" in rules(trace(threads(1, 0.0, cpu=0.3, runq=0.5), ONE_WORKER))
    assert "gil" not in rules(trace(threads(1, 0.0, cpu=0.4, runq=0.5), ONE_WORKER))


@pytest.mark.parametrize(
    ("spans", "slots", "meta"),
    [
        (threads(2, 0.5), ("w0/t0", "w1/t0"), {}),
        (threads(1, 0.5, runq=None), ONE_WORKER, {}),
        (threads(1, 0.5), ONE_WORKER, {"run": {**RUN, "process_per_slot": True}}),
        (threads(1, 0.9), ONE_WORKER, {}),
        (threads(1, 0.5), ONE_WORKER, {"load": {**LOAD, "group": {"throttled_share": 0.4}}}),
        (threads(1, 0.5), ONE_WORKER, {"load": {**LOAD, "stolen_share": 0.4}}),
        (threads(1, 0.5), ONE_WORKER, {"load": {**LOAD, "stalled_shares": {"memory_some": 0.4}}}),
    ],
    ids=[
        "one thread a worker",
        "unknown queue",
        "a process per slot",
        "asleep",
        "quota",
        "stolen",
        "memory",
    ],
)
def test_no_claim_about_the_lock(
    spans: list[Span], slots: tuple[str, ...], meta: dict[str, Any]
) -> None:
    assert "gil" not in rules(trace(spans, slots, **meta))


def test_reads_that_wait_for_the_lock_are_not_storage() -> None:
    reads = [span(f"w0/t{i % 2}", i, "read", i // 2 + 0.99, 0.01, MB, cpu=0.1) for i in range(12)]
    assert rules(trace([*threads(1, 0.5), *reads], ONE_WORKER))[0] == "gil"


def test_a_function_that_sleeps_is_said_to_wait() -> None:
    verdict = of(trace(threads(2, 0.9)))
    assert verdict.findings[0].rule == "waiting-function"
    assert "cannot be seen from here" in verdict.paragraph
    assert "waiting-function" not in rules(trace(threads(2, 0.9, runq=None)))


def test_one_task_on_two_slots() -> None:
    few = of(trace([span("w0/t0", 0, "compute", 0, 5.0, cpu=1.0)])).findings[0]
    assert (few.rule, few.share) == ("too-few-partitions", 0.5)
    assert "1 task for 2 slots" in few.sentence


def test_nothing_is_between_tasks_where_no_slot_has_had_two() -> None:
    begun = span("w0/t0", 0, "compute", 0.0, 0.2, cpu=0.2)
    ended = span("w0/t0", 0, "write", 3.0, 0.1, MB)
    verdict = of(trace([begun, ended], ("w0/t0", "w1/t0")))
    assert "between-tasks" not in [finding.rule for finding in verdict.findings]
    assert "Between tasks" not in verdict.paragraph
    assert "went to idle slots" not in verdict.paragraph


def test_the_last_wave_leaves_slots_idle() -> None:
    equal = [span(f"w{i % 2}/t0", i, "compute", i // 2, 1.0, cpu=1.0) for i in range(3)]
    assert found(trace(equal), "too-few-partitions").share == pytest.approx(0.25)
    assert "too-few-partitions" not in rules(trace(side_by_side("compute", tasks=21, cpu=1.0)))


def straggling(length_s: float, **shares: Any) -> Trace:
    spans = [span(f"w{i % 2}/t0", i, "compute", i // 2, 1.0, cpu=1.0) for i in range(9)]
    labels = [f"scan.nii[{i}]" for i in range(10)]
    return trace(
        [*spans, span("w1/t0", 9, "compute", 4, length_s, **{"cpu": 1.0, **shares})], labels=labels
    )


def test_a_straggler_is_named_with_its_slot() -> None:
    verdict = of(straggling(20.0))
    assert verdict.findings[0].rule == "stragglers"
    assert "scan.nii[9] on h/w1/t0 took 20.0 s; the median is 1.00 s" in verdict.paragraph
    assert verdict.findings[0].share == pytest.approx((19 + 19) / 48)


def test_the_boundary_of_a_straggler() -> None:
    assert "stragglers" not in rules(straggling(2.9))
    assert "stragglers" in rules(straggling(4.1))


def test_a_task_that_queued_for_a_processor_is_no_straggler() -> None:
    assert "stragglers" not in rules(straggling(20.0, cpu=0.1, runq=0.9))


def test_a_long_task_that_nobody_waits_for_is_no_straggler() -> None:
    first = span("w0/t0", 0, "compute", 0, 5.0, cpu=1.0)
    others = [span("w1/t0", i, "compute", 0.5 * (i - 1), 0.5, cpu=1.0) for i in range(1, 11)]
    assert "stragglers" not in rules(trace([first, *others]))


def test_a_slow_slot_is_told_from_a_hard_block() -> None:
    quick = [span(f"w{i % 3}/t0", i, "compute", i // 3, 1.0, cpu=1.0) for i in range(60)]
    slow = [span("w3/t0", 100 + i, "compute", 2.5 * i, 2.5, cpu=1.0) for i in range(8)]
    spans = [*quick, *slow, span("w3/t0", 200, "compute", 20, 20.0, cpu=1.0)]
    slots = tuple(f"w{n}/t0" for n in range(4))
    assert "All tasks of h/w3/t0 were slow" in found(trace(spans, slots), "stragglers").advice


def test_stalls_for_memory_come_before_what_they_explain() -> None:
    stalled = {**LOAD, "stalled_shares": {"memory_some": 0.4}, "major_faults": 5000}
    verdict = of(trace(threads(2, 0.8), load=stalled))
    assert verdict.findings[0].rule == "memory-pressure"
    assert "waited for memory for 40 % of the time; 5,000 major faults" in verdict.paragraph
    assert "waiting-function" not in rules(trace(threads(2, 0.8), load=stalled))
    assert "memory-pressure" not in rules(
        trace(threads(2, 0.1), load={**stalled, "stalled_shares": {"memory_some": 0.09}})
    )


def test_the_out_of_memory_killer_explains_lost_attempts() -> None:
    killed = [
        span("w0/t0", 0, LOST, 0, 6.0, lost=True),
        span("w1/t0", 1, "compute", 0, 2.0, cpu=1.0),
        span("w0/t0", 0, "compute", 6, 1.0, cpu=1.0, attempt=1),
    ]
    verdict = of(trace(killed, load={**LOAD, "oom_kills": 1}))
    assert verdict.findings[0].rule == "memory-pressure"
    assert re.search(r"out-of-memory killer ended 1 process\b", verdict.paragraph)
    more = of(trace(killed, load={**LOAD, "oom_kills": 2}))
    assert re.search(r"out-of-memory killer ended 2 processes\b", more.paragraph)
    assert "lost-attempts" in rules(trace(killed))
    assert found(trace(killed), "lost-attempts").evidence == "6.00 s over all slots."


def test_workers_that_outgrow_their_memory_are_told_without_a_share() -> None:
    spans, large = threads(2, 0.0), {"h/w0": 2 * 10**9, "h/w1": 10**9}
    outgrown = found(trace(spans, max_rss=large), "memory-pressure")
    assert outgrown.share == 0.0
    assert "1.00 GB were allowed" in outgrown.evidence
    for harmless in (
        {"max_rss": large, "run": {**RUN, "in_caller": True}},
        {"max_rss": {"h/w0": 10**9}},
    ):
        assert "memory-pressure" not in rules(trace(spans, **harmless))


def test_sound_work() -> None:
    verdict = of(trace(threads(2, 0.05)))
    assert [f.rule for f in verdict.findings] == ["compute-bound"]
    assert "Nothing is wrong" in verdict.paragraph
    assert "Use --workers 12" in of(trace(threads(2, 0.05), run={**RUN, "cpus": 16})).paragraph


def test_a_crowded_machine_is_told_beside_any_verdict() -> None:
    crowded = {**LOAD, "busy_share": 1.0, "others_share": 0.6}
    for spans in (
        threads(2, 0.0, cpu=0.5, runq=0.5),
        side_by_side("read", nbytes=MB, cpu=0.1, runq=0.2),
    ):
        verdict = of(trace(spans, load=crowded))
        assert verdict.findings[-1].rule == "cpu-starved"
        assert verdict.findings[-1].sentence.startswith("The machine was short of processors")
        assert len(verdict.findings) > 1
        assert verdict.findings[-1].sentence in verdict.paragraph
    assert "cpu-starved" in rules(trace(threads(2, 0.0, runq=None), load=crowded))


def test_a_crowd_that_is_not_felt_or_elsewhere_is_not_told() -> None:
    crowded = {**LOAD, "busy_share": 1.0, "others_share": 0.6}
    assert "cpu-starved" not in rules(trace(threads(2, 0.0, cpu=0.98, runq=0.02), load=crowded))
    assert "cpu-starved" not in rules(
        trace(threads(2, 0.0, runq=None), load={**crowded, "host": "elsewhere"})
    )
    assert "cpu-starved" not in rules(trace(threads(2, 0.0, runq=None), load={}))


def test_more_slots_than_processors_are_the_runs_own_doing() -> None:
    slots = tuple(f"w{n}/t0" for n in range(4))
    spans = [span(slot, n, "compute", 0, 5.0, cpu=0.5, runq=0.5) for n, slot in enumerate(slots)]
    assert "4 slots shared 2 of them" in found(trace(spans, slots), "cpu-starved").sentence


def test_a_long_start_of_a_short_run() -> None:
    spans = [
        dataclasses.replace(s, start_ns=s.start_ns + 9 * S, end_ns=s.end_ns + 9 * S)
        for s in threads(2, 0.0)
    ]
    late = trace(spans, ready_ns=8 * S)
    assert found(late, "start-up").share == pytest.approx(9 / 15)
    assert rules(late)[0] == "start-up"
    assert "start-up" not in rules(trace(threads(2, 0.0), start_ns=-2 * S))


def test_a_long_end_and_a_slot_that_got_nothing() -> None:
    assert "closing" in rules(trace(threads(2, 0.0), end_ns=9 * S))
    alone = [span("w0/t0", i, "compute", i, 1.0, cpu=1.0) for i in range(12)]
    unfed = found(trace(alone), "unfed-slots")
    assert unfed.share == pytest.approx(0.5, abs=0.1)
    assert "h/w1/t0" in unfed.evidence


def test_an_end_that_goes_into_names_is_told_by_the_number_of_files() -> None:
    long = trace(threads(2, 0.0), end_ns=9 * S)
    assert "1,728" not in found(long, "closing").advice
    long.meta["naming"] = {"files": 1728, "seconds": 2.9}
    assert "syncing and naming 1,728 files" in found(long, "closing").advice
    long.meta["naming"] = {"files": 1728, "seconds": 0.1}
    assert "1,728" not in found(long, "closing").advice


def test_findings_are_sorted_and_the_paragraph_begins_with_the_first() -> None:
    verdict = of(straggling(20.0))
    shares = [f.share for f in verdict.findings]
    assert shares == sorted(shares, reverse=True)
    assert verdict.paragraph.startswith(verdict.findings[0].sentence)


def test_spans_inside_others_are_counted_once() -> None:
    outer, inner = (
        span("a", 0, "transfer", 0, 10, cpu=0.5),
        span("a", 0, "read", 2, 4, cpu=0.25, runq=0.5),
    )
    parts = {
        s.kind: (wall / S, cpu / S, runq / S) for s, wall, cpu, runq in exclusive([outer, inner])
    }
    assert parts == {"transfer": (6.0, 4.0, 0.0), "read": (4.0, 1.0, 2.0)}


SPANS = st.builds(
    lambda slot, task, kind, start, length, nbytes, cpu, runq, lost: Span(
        task, 0, slot, kind, start, start + length, nbytes, cpu, runq, lost
    ),
    st.sampled_from(["h/w0/t0", "h/w0/t1", "h/w1/t0"]),
    st.integers(0, 12),
    st.sampled_from(["open", "read", "compute", "write", "merge", LOST]),
    st.integers(0, 10 * S),
    st.integers(0, 3 * S),
    st.sampled_from([0, 1000, 10**7]),
    st.integers(-1, 3 * S),
    st.integers(-1, 3 * S),
    st.booleans(),
)
SHARES = st.one_of(st.none(), st.floats(0, 1))
LOADS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "host": st.sampled_from(["h", "other"]),
            "busy_share": SHARES,
            "others_share": SHARES,
            "stolen_share": SHARES,
        },
        optional={
            "stalled_shares": st.dictionaries(
                st.sampled_from(["io_some", "memory_some"]), st.floats(0, 1)
            ),
            "group": st.fixed_dictionaries(
                {"throttled_share": SHARES, "oom_kill": st.sampled_from([None, 0, 3])}
            ),
            "oom_kills": st.sampled_from([None, 0, 2]),
            "swapped_in_nbytes": st.sampled_from([None, 0, 10**9]),
        },
    ),
)


@given(st.lists(SPANS, max_size=25), LOADS, st.sampled_from([{}, RUN]), st.integers(0, 12 * S))
def test_no_trace_is_too_odd_to_judge(
    spans: list[Span], load: dict[str, Any], run: dict[str, Any], end: int
) -> None:
    odd = Trace(
        spans,
        ["h/w0/t0", "h/w2/t0"],
        meta={"start_ns": 0, "ready_ns": S, "end_ns": end, "load": load, "run": run},
    )
    verdict = of(odd)
    assert verdict.paragraph
    assert all(0 <= f.share <= 1 and f.sentence and f.evidence for f in verdict.findings)
    evidence = collect(odd)
    parts = [
        evidence.everything.wall,
        evidence.lost,
        evidence.gaps,
        evidence.leading,
        evidence.closing,
    ]
    assert min(parts) >= 0
    assert sum(parts) + evidence.waited_slots + sum(evidence.unfed.values()) == pytest.approx(
        evidence.total, abs=1
    )


def test_a_cause_is_doubted_only_where_a_lack_of_processors_may_have_put_it_first() -> None:
    """Reads that wait lead by more than what was lost; or by less; and work that is counted."""
    crowded = {**LOAD, "busy_share": 1.0, "others_share": 0.6}
    sure = of(trace(side_by_side("read", nbytes=MB, cpu=0.05, runq=0.16), load=crowded))
    doubtful = of(trace(side_by_side("read", nbytes=MB, cpu=0.05, runq=0.35), load=crowded))
    counted = of(trace(threads(2, 0.0, cpu=0.5, runq=0.5), load=crowded))
    assert [v.findings[-1].rule for v in (sure, doubtful, counted)] == ["cpu-starved"] * 3
    assert [v.is_doubtful for v in (sure, doubtful, counted)] == [False, True, False]
    told = ["less certain" in v.paragraph for v in (sure, doubtful, counted)]
    assert told == [False, True, False]
    assert not sure.caution
    assert doubtful.caution.count("less certain") == 1
    assert counted.caution.startswith("The machine was short of processors")
