"""The threads engine keeps the contract of engines."""

from __future__ import annotations

from pathlib import Path

import pytest

import hyperslab
from hyperslab.errors import RunStopped
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.task import Outcome
from hyperslab.testing import EngineTests
from tests.engines.images import IMAGES
from tests.system.faults.command import make_volume


class TestThreads(EngineTests):
    engine, images = "threads", IMAGES
    every = frozenset({"end", "crew"})


def test_what_a_slot_cannot_record_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(journal: SlotJournal, outcome: Outcome) -> None:
        raise RunStopped("there is no room")

    make_volume(tmp_path / "in.nii")
    pipeline = hyperslab.Pipeline(str(tmp_path / "in.nii")).write(tmp_path / "out")
    monkeypatch.setattr(SlotJournal, "take", take)
    with pytest.raises(RunStopped, match="there is no room"):
        hyperslab.run(pipeline, engine="threads", workers=1)
