"""The verdict does not contradict itself: on random small runs it gives no advice that the array,
the slots or the planner leave no room for, and names what took most.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.report.summary import summarise
from hyperslab.report.verdict import judge
from hyperslab.trace import Span, Trace
from tests.report.contradictions import assert_sound
from tests.report.made_traces import LOAD

S = 10**9
KINDS = ("open", "read", "compute", "write")
ENGINES = {
    "serial": {"in_caller": True, "is_light": True, "has_one_slot": True},
    "threads": {"in_caller": True, "is_light": True},
    "processes": {"in_caller": False, "is_light": True},
    "dask-bag": {"in_caller": False, "is_light": False},
}


def made(seed: int) -> Trace:
    """A run of some tasks of random phases on some slots, of an array and a plan such as users
    have.
    """
    draw = random.Random(seed)
    engine = draw.choice(list(ENGINES))
    workers = 1 if ENGINES[engine]["in_caller"] else draw.choice([1, 2, 4, 8])
    threads = 1 if engine == "serial" else draw.choice([1, 2])
    slots = [f"h/w{w}/t{t}" for w in range(workers) for t in range(threads)]
    tasks = draw.choice([1, 2, 3, 5, 9, 20, 60])
    elements = tasks * draw.choice([1, 10, 10**6])
    usual_ns = 10 ** draw.uniform(5, 9.5)
    gap_ns = 10 ** draw.uniform(4, 9)
    share = {kind: draw.random() ** 3 for kind in KINDS}
    waits = {kind: draw.random() for kind in KINDS}
    now = dict.fromkeys(slots, 0.0)
    start_up = draw.choice([0, 10 ** draw.uniform(6, 10)])
    spans: list[Span] = []
    for task in range(tasks):
        slot = min(slots, key=lambda name: now[name])
        length = usual_ns * draw.choice([1, 1, 1, draw.uniform(0.5, 6)])
        now[slot] += gap_ns * draw.uniform(0.2, 2)
        for kind in KINDS:
            nbytes = draw.choice([100, 10**6, 10**8])
            begin = now[slot]
            now[slot] += length * share[kind] / sum(share.values())
            took = round(now[slot]) - round(begin)
            cpu = round(took * (1 - waits[kind]))
            runq = draw.choice([-1, 0, round((took - cpu) * 0.3)])
            at = round(begin + start_up)
            spans.append(Span(task, 0, slot, kind, at, at + took, nbytes, cpu, runq))
    end = round(max(now.values()) + start_up + draw.choice([0, 10 ** draw.uniform(6, 9.5)]))
    run = {
        "engine": engine,
        "workers": workers,
        "threads": threads,
        "cpus": draw.choice([2, 8, 64]),
        "memory_nbytes": 10**9,
        "rule": draw.choice(["auto", f"blocks={tasks}", "slabs"]),
        "blocks": tasks,
        "arrays": draw.choice([1, 1, tasks]),
        "most_blocks": elements,
        **ENGINES[engine],
    }
    if engine == "dask-bag" and seed % 2:
        run["connect"] = "tcp://10.0.0.1:8786"
    load = draw.choice([{}, LOAD, {**LOAD, "busy_share": 1.0, "others_share": 0.6}])
    meta: dict[str, Any] = {"start_ns": 0, "ready_ns": round(start_up), "end_ns": end}
    return Trace(spans, slots, meta={**meta, "run": run, "load": load})


def test_two_hundred_random_runs_are_judged_without_contradiction() -> None:
    judged = 0
    rules: set[str] = set()
    for seed in range(200):
        trace = made(seed)
        summary = summarise(trace)
        verdict = judge(trace, summary)
        assert_sound(trace, summary, verdict)
        judged += bool(verdict.findings)
        rules.update(finding.rule for finding in verdict.findings)
    assert judged > 60
    assert len(rules) > 10, "the runs are of many kinds"


def idle_a_while(block: np.ndarray[Any, Any], seconds: float) -> np.ndarray[Any, Any]:
    time.sleep(seconds)
    return block


@pytest.mark.parametrize("blocks", [1, 3, 7, 20])
@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_real_short_runs(blocks: int, engine: str) -> None:
    total = hyperslab.Fold(np.sum, np.add)
    pipeline = hyperslab.Pipeline(np.zeros((20, 6, 5))).map(idle_a_while, {"seconds": 0.001})
    rule = hyperslab.Rule("blocks", (blocks,))
    result = hyperslab.run(
        pipeline.reduce(total), engine=engine, rule=rule, report=False, threads=1
    )
    verdict = judge(result.trace, result.summary)
    assert_sound(result.trace, result.summary, verdict)


def test_five_automatic_blocks_are_not_told_to_be_larger() -> None:
    """Nor a task of 2 ms to be long, nor most of the time to be nobody's."""
    spans = [
        Span(i, 0, "h/w0/t0", "compute", i * S // 4, i * S // 4 + 2_000_000, 0, 2_000_000, 0)
        for i in range(5)
    ]
    run = {"engine": "processes", "workers": 1, "threads": 1, "cpus": 2, "is_light": True}
    run |= {"rule": "auto", "blocks": 5, "arrays": 1, "most_blocks": 10**6}
    trace = Trace(spans, ["h/w0/t0"], meta={"run": run, "start_ns": 0, "end_ns": 2 * S})
    verdict = judge(trace, summarise(trace))
    assert "larger" not in verdict.paragraph
    assert "long" not in verdict.paragraph
    assert "cannot be told" not in verdict.paragraph
    assert verdict.cause
