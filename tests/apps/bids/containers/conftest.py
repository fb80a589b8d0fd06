"""Podman and a dataset, for the tests of containers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.bids.containers.podman import Podman, missing, prepare
from tests.apps.bids.datasets import make, t1w
from tests.system.clusters.required import required


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """Podman in a folder whose path is short, as it makes sockets in there."""
    required(missing())
    with (
        tempfile.TemporaryDirectory(prefix="podman-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        made = prepare(Path(folder))
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
        made("system", "reset", "--force")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two participants, whose labels begin alike."""
    return make(tmp_path / "my data", t1w("1"), t1w("10"), content=b"head\n")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is before all others on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder
