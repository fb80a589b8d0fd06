"""Who names many files hears how far their opening has come, where that takes long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperslab.blocks import gathering
from tests.system.end_to_end.command import Finished, call, save

FILES = 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images, whose opening is taken to be long."""
    monkeypatch.setattr(gathering, "FIRST_TOLD_S", 0.0)
    for number in range(FILES):
        save(tmp_path / "images" / f"image_{number}.nii", np.zeros((2, 3, 4), np.int16))
    return tmp_path / "images"


def test_it_is_told_while_files_are_opened(folder: Path) -> None:
    told: list[str] = []
    assert len(gathering.gather(folder, tell=told.append).sources) == FILES
    assert told[0].startswith("opened 1 of 3 files in ")
    assert "; the others take about " in told[0]
    assert len(told) < FILES, "nothing is left after the last one"


def test_nothing_is_told_of_what_is_opened_soon(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "FIRST_TOLD_S", 60.0)
    told: list[str] = []
    gathering.gather(folder, tell=told.append)
    assert told == []


def test_commands_tell_it_unless_they_are_to_be_quiet(folder: Path) -> None:
    out = folder.parent / "out"
    for line in (["run", "stats", folder, "-o", out], ["convert", folder, out, "--format", "h5"]):
        assert "opened 1 of 3 files in " in ran(*line).err
        assert ran(*line, "--quiet").err == ""


def ran(*line: object) -> Finished:
    done = call(*line, "--dry-run")
    assert done.code == 0, done
    return done
