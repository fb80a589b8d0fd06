"""Tiers of a test are its own: it sees no others, wherever else on this machine tests run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.storage.emulation import registry
from hyperslab.storage.mounts import Mount, mounts

MEMORY = Path("/dev/shm")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in memory: what is beneath a tier is faster than the tier, whatever the disk has to
    do.
    """
    folder = None
    if MEMORY.is_dir():
        folder = MEMORY
    place = Path(tempfile.mkdtemp(prefix="hyperslab-test-", dir=folder))
    yield place
    shutil.rmtree(place)


@pytest.fixture(autouse=True)
def _no_tiers_of_others(
    tmp_path: Path,
    in_memory: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    own = (tmp_path, in_memory)

    def own_mounts() -> list[Mount]:
        return [one for one in mounts() if any(map(Path(one.mount_point).is_relative_to, own))]

    monkeypatch.setattr(registry, "mounts", own_mounts)
