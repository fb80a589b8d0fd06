"""An engine may run a batch or a merge twice, one after the other or at the same time: every block
counts once.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays.partition import Rule
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.engines.batches import batch, inflight, orders, tally
from hyperslab.engines.batches.batch import Batch
from hyperslab.engines.batches.inflight import Mark, Marked
from hyperslab.engines.batches.tally import Tally
from hyperslab.machine.clock import reference
from hyperslab.plan.journal import Tail, load_partials, merge_partials
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.shipment import Shipment
from hyperslab.plan.steps import merge_of, steps_of
from hyperslab.storage import fence
from tests.system.faults.command import make_volume

TASKS = 32
LIMITS = {"in memory": 2**40, "in files": 0}


def extend(a: list[int], b: list[int]) -> list[int]:
    """A merge that changes its first argument, as it may."""
    a.extend(b)
    return a


class Round:
    """A reduction's orders and batches, as an engine would hand them out."""

    def __init__(
        self, folder: Path, limit_nbytes: int = 2**40, seconds: float = 0.0, batches: int = 8
    ) -> None:
        def lift(block: np.ndarray, seconds: float = 0.0) -> list[int]:
            import time

            time.sleep(seconds)
            return [int(block.sum(dtype=np.int64))]

        self.values = make_volume(folder / "in.nii")
        fold = hyperslab.Fold(lift, extend, finish=sorted)
        plan = prepare(
            Pipeline(str(folder / "in.nii")).reduce(fold, {"seconds": seconds}),
            Options(rule=Rule("slabs"), workers=2),
        ).plan
        job, tasks = plan.stages[0].job, plan.stages[0].tasks
        self.folder, self.name = folder / "run", orders.round_name(1)
        for part in ("journal", "partials"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        fence.raise_fence(self.folder)
        self.place = orders.write_orders(
            self.folder,
            self.name,
            steps_of(job, stepwise=False),
            merge_of(job),
            Shipment(),
            reference(None),
            limit_nbytes,
        )
        size = TASKS // batches
        self.batches = [
            pickle.dumps(Batch(f"b{i}", tuple(tasks[i * size : (i + 1) * size])))
            for i in range(batches)
        ]

    def run(self, number: int) -> Tally:
        return batch.run(self.place, self.batches[number])

    def merge(self, *tallies: Tally) -> Tally:
        return tally.merge(self.place, tallies)

    def result(self) -> list[int]:
        """What the driver makes of the records."""
        merge = orders.load_orders(self.place).merge
        assert merge is not None
        total = merge_partials(load_partials([(self.folder, None)], range(TASKS)), merge)
        assert sorted(total.tasks) == list(range(TASKS))
        return sorted(total.value)

    @property
    def expected(self) -> list[int]:
        return sorted(int(self.values[:, :, z].sum(dtype=np.int64)) for z in range(TASKS))


@pytest.mark.parametrize("limit", LIMITS)
def test_batches_and_merges_one_after_the_other(tmp_path: Path, limit: str) -> None:
    round_ = Round(tmp_path, LIMITS[limit])
    for number in range(8):
        round_.run(number)
    leaves = [round_.run(number) for number in range(8)]
    left, right = leaves[:4], leaves[4:]
    round_.merge(*left)
    halves = round_.merge(*left), round_.merge(*right)
    round_.merge(*halves)
    root = round_.merge(*halves)
    assert sorted(root.tasks) == list(range(TASKS))
    tally.keep(round_.folder, round_.name, root)
    assert round_.result() == round_.expected
    assert bool(root.path) == (limit == "in files")
    assert bool(root.spent) == (limit == "in files")
    assert not [path for path in root.spent if Path(path).exists()]


def test_a_batch_twice_at_the_same_time(tmp_path: Path) -> None:
    round_ = Round(tmp_path, seconds=0.05, batches=2)
    tallies: list[Tally] = []
    threads = [
        threading.Thread(target=lambda n=n: tallies.append(round_.run(n))) for n in (0, 0, 1, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(t.tasks) for t in sorted(tallies, key=lambda t: t.tasks)] == [
        list(range(16))
    ] * 2 + [list(range(16, 32))] * 2, "nobody takes the other, who lives, for dead"
    assert {o.status for o in Tail(round_.folder).poll()} == {"done"}
    assert round_.result() == round_.expected


def test_a_batch_goes_on_behind_the_task_that_its_worker_died_of(tmp_path: Path) -> None:
    round_ = Round(tmp_path, batches=2)
    with Mark(orders.load_orders(round_.place).marks, "b0") as left:
        left.set(Marked(task=5, attempt=0, slot="elsewhere/w77/t78", start_ns=1))
        (left.folder / "copy").write_bytes((left.folder / "b0").read_bytes())
    (left.folder / "copy").rename(left.folder / "b0")
    done = round_.run(0)
    assert sorted(done.tasks) == list(range(6, 16))
    (lost,) = [o for o in Tail(round_.folder).poll() if o.status == "lost"]
    assert (lost.task, lost.slot) == (5, "elsewhere/w77/t78")
    assert list(left.folder.iterdir()) == []


def test_marks_can_be_taken_away_while_they_are_made(tmp_path: Path) -> None:
    folder, stop = tmp_path / "r1", threading.Event()

    def make() -> None:
        number = 0
        while not stop.is_set():
            try:
                with Mark(folder, f"b{threading.get_native_id()}.{number}") as one:
                    one.set(Marked(1, 0, "elsewhere/w1/t1", 1))
            except hyperslab.HyperslabError:  # the run has been stopped
                stop.wait(0.001)
            number += 1

    def remove_often(act: Callable[[], object]) -> None:
        for _ in range(50):
            folder.mkdir(exist_ok=True)
            stop.wait(0.002)
            act()
            assert not folder.exists()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        remove_often(lambda: inflight.remove(folder))
        remove_often(lambda: list(inflight.leftovers(folder, lambda _: True)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
