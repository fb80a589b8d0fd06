"""A round of an engine that sends tasks in batches, with work that is made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperslab.arrays.slab import Hyperslab
from hyperslab.engines import EngineOptions
from hyperslab.engines.batches import batch, patience
from hyperslab.engines.batches.engine import BatchEngine
from hyperslab.engines.batches.patience import Solitude
from hyperslab.engines.batches.tally import Tally
from hyperslab.errors import RunStopped
from hyperslab.plan.task import Task
from hyperslab.trace import Slot

TASKS = [Task(0, 0, Hyperslab((0,), (1,)), ((0, 0),), (), (), 0, 0, 0)]


@pytest.mark.parametrize("tasks", [0, 1, 5, 12, 1397])
def test_batches_that_shrink_are_few(tasks: int) -> None:
    sizes = batch.shrinking(tasks, slots=2, of_slot=3)
    assert sum(sizes) == tasks
    assert len(sizes) == min(tasks, 6)
    assert all(sizes)


def test_sizes_of_batches() -> None:
    assert batch.shrinking(12, slots=2, of_slot=3) == [3, 3, 2, 2, 1, 1]
    assert batch.shrinking(600, slots=1, of_slot=3) == [300, 200, 100]
    assert batch.equal(12, 5) == [3, 3, 3, 3]
    assert batch.equal(13, 5) == [3, 3, 3, 3, 1]
    assert batch.equal(2, 64) == [1, 1]


class Forever:
    """Work that nobody ends."""

    def __init__(self) -> None:
        self.cancelled = 0

    def is_over(self, limit_s: float) -> bool:
        return False

    def tallies(self) -> Iterator[Tally]:
        raise AssertionError("it is not over")

    def cancel(self) -> None:
        self.cancelled += 1


class Idle(BatchEngine):
    """An engine on which nothing gets done."""

    def __init__(self, folder: Path, slots: int) -> None:
        super().__init__(EngineOptions(folder, slots))
        self._slots = [Slot("h", n, 0) for n in range(slots)]
        self.work = Forever()
        self.looks = 0

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Forever:
        assert Path(place).is_file()
        return self.work

    def look(self) -> None:
        self.looks += 1
        if self.looks == 3:
            raise RunStopped("nobody is left")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_round_that_nobody_can_end_is_cancelled(tmp_path: Path) -> None:
    engine = Idle(tmp_path, slots=2)
    with pytest.raises(RunStopped, match="nobody is left"):
        list(engine.run(TASKS, [], None))
    assert (engine.looks, engine.work.cancelled) == (3, 1)
    assert left(tmp_path) != []
    engine.stop()
    assert left(tmp_path) == []


def test_a_round_that_is_closed_early_is_cancelled_once(tmp_path: Path) -> None:
    engine = Idle(tmp_path, slots=1)
    going = engine.run(TASKS, [], None)
    assert next(going) is None
    going.close()
    engine.cancel()
    assert engine.work.cancelled == 1


def test_workers_that_have_all_gone_before_the_round(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="all workers left"):
        list(Idle(tmp_path, slots=0).run(TASKS, [], None))


def test_solitude_begins_when_somebody_was_last_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now[0]))
    solitude = Solitude()
    now[0] = 129.0
    assert not solitude.is_too_long(False)
    assert not solitude.is_too_long(True)
    now[0] = 159.0
    assert not solitude.is_too_long(False)
    now[0] = 159.5
    assert solitude.is_too_long(False)
