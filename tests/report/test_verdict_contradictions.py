"""The verdict does not contradict itself: on random small runs it gives no advice that the array,
the slots or the planner leave no room for, and names what took most.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.plan.settings import Settings
from hyperslab.report.summary import Summary, summarise
from hyperslab.report.verdict import CIRCUMSTANCES, EXPLAINS, Verdict, judge
from hyperslab.report.verdict.agreement import PULLS, RULES_OUT
from hyperslab.trace import Span, Trace
from tests.repetitions import repeats
from tests.report.contradictions import assert_agreed, assert_sound
from tests.report.made_traces import LOAD
from tests.system.end_to_end.command import save

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


def troubled(seed: int) -> Trace:
    """A run like the others, on a machine that lacks memory or processors, or from gzip streams, a
    queue, or storage that was probed.
    """
    trace = made(seed)
    draw = random.Random(-seed)
    meta, run = dict(trace.meta), dict(trace.meta["run"])
    load = dict(meta["load"])
    if draw.random() < 0.3:
        load |= {**LOAD, "stalled_shares": {"memory_some": draw.uniform(0, 0.6)}}
    if draw.random() < 0.3:
        load |= {**LOAD, "busy_share": 1.0, "others_share": draw.uniform(0, 0.6)}
    if draw.random() < 0.4:
        run["times_inflated"] = draw.uniform(1, 9)
    if draw.random() < 0.4:
        rate = 10 ** draw.uniform(6, 10)
        meta["probe"] = {"read_nbytes_per_s": rate, "write_nbytes_per_s": rate}
    if draw.random() < 0.2:
        missing_s = draw.uniform(0, 3) * len(trace.slots)
        queue = {"system": "Slurm", "jobs": 3, "waited_s": draw.uniform(0, 9)}
        meta["queue"] = {**queue, "missing_s": missing_s}
    return Trace(trace.spans, trace.slots, meta={**meta, "run": run, "load": load})


def test_no_two_causes_of_a_troubled_run_are_given_opposite_remedies() -> None:
    together: set[tuple[str, str]] = set()
    advised: dict[str, set[str]] = {}
    for seed in range(600):
        trace = troubled(seed)
        verdict = judge(trace, summarise(trace))
        if verdict.findings:
            assert_agreed(trace, verdict)
        rules = sorted({finding.rule for finding in verdict.findings})
        together.update(itertools.combinations(rules, 2))
        for finding in verdict.findings:
            advised.setdefault(finding.rule, set()).add(finding.advice)
    assert len(together) > 60, "causes meet"
    assert all(any(advised[rule]) for rule in advised if rule in PULLS), "and are still advised on"


def test_rules_that_say_nothing_against_themselves() -> None:
    assert PULLS.keys() | RULES_OUT.keys() <= EXPLAINS.keys() | set(CIRCUMSTANCES)
    for rule, pulls in PULLS.items():
        assert not pulls & RULES_OUT.get(rule, frozenset()), rule


def waiting_opens(queued_ns: int) -> list[Span]:
    """Phases of two slots, which mostly wait for files to be opened, and this long for a
    processor.
    """
    spans = []
    for task in range(12):
        begin = task // 2 * S
        took = 9 * S // 10
        slot = f"h/w{task % 2}/t0"
        spans.append(Span(task, 0, slot, "open", begin, begin + took, 0, 10**6, queued_ns))
        spans.append(Span(task, 0, slot, "compute", begin + took, begin + S, 0, S // 10, 0))
    return spans


def judged(spans: list[Span], load: dict[str, Any]) -> Verdict:
    """What is said of twelve tasks on two slots of a machine with such a load."""
    run = {"engine": "processes", "workers": 2, "threads": 1, "cpus": 8, "is_light": True}
    run |= {"rule": "blocks=12", "blocks": 12, "arrays": 1, "most_blocks": 10**6}
    meta = {"run": run, "load": load, "start_ns": 0, "ready_ns": 0, "end_ns": 6 * S}
    made = Trace(spans, ["h/w0/t0", "h/w1/t0"], meta=meta)
    return judge(made, summarise(made))


def test_memory_that_was_short_rules_out_more_slots() -> None:
    """Opens that wait would gain by more slots, which have no memory."""
    spans = waiting_opens(queued_ns=0)
    before = judged(spans, {})
    after = judged(spans, {**LOAD, "stalled_shares": {"memory_some": 0.3}})
    assert "more slots" in before.remedy
    assert "larger blocks" in before.remedy
    assert [one.rule for one in after.findings] == ["metadata-latency", "memory-pressure"]
    assert "fewer --workers or smaller blocks" in after.findings[1].advice
    assert "more slots" not in after.remedy
    assert "larger blocks" not in after.remedy
    assert "a few large files" in after.remedy


@pytest.mark.parametrize(("queued_ns", "is_cautioned"), [(S // 20, False), (S // 3, True)])
def test_processors_that_were_short_rule_out_more_slots(queued_ns: int, is_cautioned: bool) -> None:
    """Also where they are no more than a circumstance."""
    crowded = {**LOAD, "busy_share": 1.0, "others_share": 0.6}
    verdict = judged(waiting_opens(queued_ns), crowded)
    first, *_, last = verdict.findings
    assert (first.rule, last.rule) == ("metadata-latency", "cpu-starved")
    assert bool(verdict.caution) == is_cautioned
    assert "when it is quiet, or with fewer --workers" in last.advice
    assert "more slots" not in verdict.paragraph
    assert "a few large files" in verdict.remedy
    assert not PULLS["gil"] & RULES_OUT["cpu-starved"], "as many processes are no more slots"


REAL_RUNS = 60
AT_A_TIME = 20
"Real runs beside each other: what they do is mostly to sleep, as only a run of a second is judged."


def behaviour() -> Callable[..., Array]:
    """A function that sleeps, longer in the block at the origin, and uses the interpreter."""

    def behave(
        block: Array, slab: hyperslab.Hyperslab, idle_s: float, late_s: float, steps: int
    ) -> Array:
        time.sleep(idle_s)
        if not any(slab.start):
            time.sleep(late_s)
        for _ in range(steps):
            pass
        return block

    return behave


def of_files(draw: random.Random, folder: Path) -> Any:
    """An array, or a file that holds one: with and without chunks, compressed and not."""
    shape = tuple(draw.randint(1, 24) for _ in range(draw.randint(1, 4)))
    values = np.zeros(shape, draw.choice(["u1", "i2", "f4"]))
    path = folder / f"{draw.random()}.{draw.choice(['npy', 'nii', 'nii.gz', 'h5'])}"
    if path.suffix == ".npy":
        return values
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, chunks=draw.choice([None, True]))
        return path
    return save(path, values.reshape(*shape, *[1] * (3 - len(shape))))


def drawn(seed: int, folder: Path) -> tuple[hyperslab.Pipeline, Settings]:
    """A pipeline, and how it is run in this process; most take a little more than a second."""
    draw = random.Random(seed)
    pipeline = hyperslab.Pipeline(of_files(draw, folder))
    engine = draw.choice(["serial", "threads"])
    slots = 1 if engine == "serial" else draw.choice([1, 2, 3, 8])
    wanted = draw.choice([1, 2, 3, 7, 20, 60])
    seconds = draw.choice([0.2, 1.1, 1.1, 1.3])
    rounds = max(1, wanted // slots)
    late_s = draw.choice([0.0, 0.0, 0.5 * seconds, seconds])
    idle_s = max(0.0, seconds - late_s) / rounds
    steps = draw.choice([0, 0, 10**4, 10**6]) // wanted
    given = {"idle_s": idle_s, "late_s": late_s, "steps": steps}
    pipeline = pipeline.map(behaviour(), given, dtype=draw.choice([None, "f8"]))
    end = pipeline.reduce(hyperslab.Fold(np.sum, np.add))
    if draw.random() < 0.5:
        end = pipeline.write(folder / f"out{seed}", keep=draw.choice(["blocks", "volume"]))
    most = pipeline.source.sources[0].shape
    settings: Settings = {
        "engine": engine,
        "threads": slots,
        "report": False,
        "trial": draw.random() < 0.2,
        "granularity": draw.choice(["fused", "stepwise"]),
    }
    cut = draw.choice(["blocks", "slabs", "automatic"])
    if cut == "blocks" and wanted <= np.prod(most):
        settings["blocks"] = wanted
    if cut == "slabs":
        settings["partition"] = "slabs"
    return end, settings


def real(job: tuple[hyperslab.Pipeline, Settings]) -> tuple[Trace, Summary, Verdict]:
    """A run, and what is said of it."""
    pipeline, settings = job
    result = hyperslab.run(pipeline, **settings)
    return result.trace, result.summary, judge(result.trace, result.summary)


@repeats(
    "made runs are judged without contradiction: above; real ones: end_to_end/test_drawn_runs.py"
)
def test_many_real_runs_are_judged_without_contradiction(tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = list(pool.map(real, [drawn(seed, tmp_path) for seed in range(REAL_RUNS)]))
    rules: Counter[str] = Counter()
    for trace, summary, verdict in found:
        assert_sound(trace, summary, verdict)
        rules.update(finding.rule for finding in verdict.findings)
    judged = sum(bool(verdict.findings) for _, _, verdict in found)
    assert judged > REAL_RUNS // 2
    assert len(rules) > 4, "the runs are of many kinds"


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
