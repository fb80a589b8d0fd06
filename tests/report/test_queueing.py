"""What the verdict says of time in the queue of a batch system."""

from __future__ import annotations

from typing import Any

import pytest

from hyperslab.engines.facts import recorded
from hyperslab.trace import Trace
from tests.report.made_traces import RUN, S, found, of, rules, span, trace

QUEUE = {"system": "Slurm", "first_ns": 6 * S, "waited_s": 5.0, "missing_s": 0.0, "jobs": 8}


def run(queue: dict[str, Any], ready_s: float = 6.0, **more: Any) -> Trace:
    """Two slots that compute for 4 s from when the first job begins, and pause for 1 s between."""
    spans = [
        span(f"w{slot}/t0", 2 * n + slot, "compute", ready_s + 1.25 * n, 0.25, cpu=1.0)
        for n in range(4)
        for slot in range(2)
    ]
    meta: dict[str, Any] = {"ready_ns": round(ready_s * S), "run": {**RUN, "is_light": False}}
    return trace(spans, **{**meta, **more}, queue=queue)


def test_the_wait_for_the_first_job_is_no_start_up() -> None:
    finding = found(run(QUEUE), "queueing")
    assert finding.share == pytest.approx(0.5)
    assert finding.sentence == "Waiting in Slurm's queue took 5.00 s, 50 % of the makespan."
    assert finding.evidence.startswith("The first of 8 jobs began after 5.00 s;")
    assert "--slurm-option" in finding.advice
    assert "start-up" not in rules(run(QUEUE))
    assert "start-up" in rules(run({**QUEUE, "waited_s": 1.0}))


def test_gaps_of_slots_whose_jobs_waited_are_the_queue_s() -> None:
    """Slots had 3 s each without a task."""
    waiting = {**QUEUE, "missing_s": 6.5}
    assert found(run(waiting), "queueing").share == pytest.approx(0.825)
    assert of(run(waiting)).findings[0].rule == "queueing"
    without = rules(run({**QUEUE, "missing_s": 0.0}))
    assert set(without) & {"between-tasks", "engine-overhead"}
    assert not set(rules(run(waiting))) & {"between-tasks", "engine-overhead"}


def test_workers_that_are_jobs_may_have_waited_in_the_queue() -> None:
    """As Dask's of `--connect slurm`, of which nobody tells how long."""
    dask = {**RUN, "is_light": False, "connect": "slurm", "takes_slots": True}
    advice = found(run({}, run=dask), "start-up").advice
    assert advice.startswith("Its workers are jobs of a batch system")
    assert "or --connect" not in advice
    of_others = {**dask, "connect": "tcp://there", "takes_slots": False}
    advice = found(run({}, run=of_others), "start-up").advice
    assert advice.endswith("for short runs use --engine processes or threads.")


@pytest.mark.parametrize(("engine", "helps"), [("dask-bag", True), ("spark", True), ("mpi", False)])
def test_to_connect_is_advised_where_workers_wait_for_runs(engine: str, helps: bool) -> None:
    """Not of ranks, or jobs, that are started for each run wherever they are."""
    own = {**RUN, **recorded(engine), "connect": ""}
    assert (", or --connect." in found(run({}, run=own), "start-up").advice) == helps


def test_gaps_are_told_where_the_queue_is_not() -> None:
    """They are as long as above, and the queue took less than what is worth a word."""
    told = rules(run({**QUEUE, "waited_s": 1.0, "missing_s": 6.5}))
    assert "queueing" not in told
    assert set(told) & {"between-tasks", "engine-overhead"}


def test_a_short_wait_is_nobody_s_concern() -> None:
    assert "queueing" not in rules(run({**QUEUE, "waited_s": 4.9}, ready_s=5.0))
    assert "queueing" not in rules(run({}))
