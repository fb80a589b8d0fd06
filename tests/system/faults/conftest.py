"""A volume to be converted, and runs without a report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hyperslab.apps.experiment.pages.gantts
import hyperslab.cli.report  # noqa: F401  these keep what a fixture takes away, if it is there
from hyperslab.arrays import Array
from hyperslab.driver import submission
from tests.system.end_to_end.command import save
from tests.system.faults import conversions


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The volume in a file, of which tests have copies."""
    path = tmp_path_factory.mktemp("saved") / "in.nii"
    return save(path, conversions.values(), conversions.AFFINE)


@pytest.fixture
def source(tmp_path: Path, saved: Path) -> Path:
    return shutil.copyfile(saved, tmp_path / "in.nii")


@pytest.fixture
def without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than a small conversion, and has tests of its own."""
    monkeypatch.setattr(submission, "write_report", lambda *_: None)


@pytest.fixture(scope="session")
def values() -> Array:
    """Of the volume; not to be written to."""
    return conversions.values()


@pytest.fixture
def held(tmp_path: Path) -> dict[str, str]:
    """The environment of a command whose writes wait, but for the first ones."""
    return conversions.held_writes(tmp_path)
