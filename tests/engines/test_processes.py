"""The processes engine keeps the contract of engines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.engines.environment import OOM_SCORE, program
from hyperslab.testing import EngineTests
from tests.engines.chosen import DIFFERING, only
from tests.engines.images import IMAGES

SCORE = Path("/proc/self/oom_score_adj")


class TestProcesses(EngineTests):
    engine, images, stops_late_tasks = "processes", IMAGES, True
    every = frozenset({"end"})


@only(DIFFERING)
class TestProcessesWithThreads(EngineTests):
    engine, slots, stops_late_tasks = "processes", (2, 2), True


def test_workers_are_ended_before_the_driver_when_memory_is_short() -> None:
    before = SCORE.read_text()
    ask = hyperslab.Fold(lambda block: {int(SCORE.read_text())}, lambda a, b: a | b)
    pipeline = hyperslab.Pipeline(np.ones((2, 8))).reduce(ask)
    assert hyperslab.run(pipeline, rule=hyperslab.Rule("blocks", (2,))).value == {
        max(int(before), OOM_SCORE)
    }
    assert SCORE.read_text() == before


def test_a_worker_collects_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "import gc\nloading = gc.isenabled()\n"
    (tmp_path / "asked.py").write_text(
        module + "def main(word):\n    print(word, loading, gc.isenabled())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = program("asked", ["said"])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "said False True\n"
