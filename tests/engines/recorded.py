"""Runs that record their messages on a cluster of somebody else, and what is left there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import numpy as np

from hyperslab.driver import run as driver
from hyperslab.driver.submission import load_records
from hyperslab.engines.batches.workers import sent_by_value
from hyperslab.engines.dask import client as clients
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.messages.numbers import Numbers, numbers_of
from tests.system.faults.command import load, make_volume

T = TypeVar("T")


def beside(do: Callable[[], T]) -> T:
    """What a function returns that runs an event loop, in a thread of its own: in that of the tests
    the loop of a browser may run.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(do).result()


def recorded(place: str, engine: str, tmp_path: Path) -> Numbers:
    """The messages of a run over eight blocks, whose outputs are right and which leaves the cluster
    as it was.
    """
    values = make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii")).map("increment").write(tmp_path / "out")
    options: dict[str, Any] = {"engine": engine, "connect": place, "blocks": 8}
    result = driver.run(pipeline, record_messages=True, **options)
    assert result.ok, result.failures
    written = sum(int(load(output).sum(dtype=np.int64)) for output in result.outputs)
    assert written == int(values.sum(dtype=np.int64)) + values.size
    _require_as_before(place)
    records = load_records(tmp_path / "out")
    assert not (records.folder / "messages").exists()
    assert records.traffic is not None
    assert "<h2>Messages</h2>" in (records.folder / "report.html").read_text()
    return numbers_of(records.traffic)


def require_whole(numbers: Numbers, workers: int) -> None:
    """What every run of eight batches has said, at least."""
    assert numbers.notes == ()
    names = {node.name.partition(" ")[0] for node in numbers.nodes}
    assert {"scheduler", "client", "worker"} <= names
    assert sum(node.name.startswith("worker ") for node in numbers.nodes) == workers
    counts = {one.name: one.count for one in numbers.operations}
    assert counts["compute-task"] >= 8
    assert counts["task-finished"] >= 8
    assert counts["update-graph"] >= 1
    assert all(one.nbytes > 0 for one in numbers.operations)
    assert sum(pair.nbytes for pair in numbers.pairs) == numbers.nbytes
    assert sum(sum(node.sent_by_step) for node in numbers.nodes) == numbers.nbytes
    assert sum(size.messages for size in numbers.sizes) == numbers.messages


def _require_as_before(place: str) -> None:
    """Nobody records any more: no worker, and no scheduler."""
    client = clients.connect(place)
    try:
        with sent_by_value(cloudpickle, sys.modules[__name__]):
            left = [client.run_on_scheduler(_is_recording), *client.run(_is_recording).values()]
        assert left == [False] * len(left)
    finally:
        client.close()


def _is_recording() -> bool:
    from distributed.comm.core import Comm
    from distributed.comm.tcp import TCP

    shared = Comm.__dict__.get("hyperslab_recorder")
    is_wrapped = hasattr(TCP.write, "__wrapped__") or hasattr(TCP.read, "__wrapped__")
    return bool(is_wrapped or (shared is not None and shared.logs))
