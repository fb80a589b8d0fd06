"""What a task costs that does nothing, in function calls: these are the same on every machine, and
most of what the engines add to short tasks (`benchmarks/bench_mpi.py` measures the time).
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hyperslab
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.engines.batches import batch, orders
from hyperslab.machine.clock import reference
from hyperslab.plan.journal import Tail
from hyperslab.plan.shipment import Shipment
from hyperslab.plan.steps import merge_of, steps_of
from hyperslab.plan.task import Job, Task
from hyperslab.storage import fence

TASKS = 100
MOST_CALLS = 200
"Calls of functions, Python's own among them, from a task to its line in the journal; 189 are made."
MOST_CALLS_OF_PICKLES = 15
"Calls to pickle a task and to load it again; 11 are made."


def _calls(act: Callable[[], object]) -> int:
    """How many functions this thread calls in it."""
    count = 0

    def see(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def _nothing(block: Any) -> int:
    return 0


def _keep(a: int, b: int) -> int:
    return a


def _null_tasks(tasks: int) -> tuple[Job, tuple[Task, ...]]:
    """A reduction of rows to nothing."""
    fold = hyperslab.Fold(_nothing, _keep)
    pipeline = hyperslab.Pipeline(np.zeros((tasks, 8), np.uint8)).reduce(fold)
    rule = hyperslab.Rule("block-shape", (1, 8))
    stage = prepare(pipeline, Options(rule=rule, workers=1)).plan.stages[0]
    return stage.job, tuple(stage.tasks)


def test_a_null_task_takes_few_calls(tmp_path: Path) -> None:
    job, tasks = _null_tasks(TASKS)
    for part in ("journal", "partials"):
        (tmp_path / part).mkdir()
    fence.raise_fence(tmp_path)
    shared = steps_of(job, stepwise=False), merge_of(job), Shipment(), reference(None), 2**20
    place = orders.write_orders(tmp_path, orders.round_name(1), *shared)
    batch.run_tasks(place, "first", tasks)
    found = _calls(lambda: batch.run_tasks(place, "second", tasks))
    assert found / TASKS < MOST_CALLS
    assert len(Tail(tmp_path).poll()) == 2 * TASKS


def test_tasks_are_pickled_in_few_calls() -> None:
    _, tasks = _null_tasks(TASKS)
    assert pickle.loads(pickle.dumps(tasks)) == tasks
    found = _calls(lambda: pickle.loads(pickle.dumps(tasks)))
    assert found / TASKS < MOST_CALLS_OF_PICKLES
