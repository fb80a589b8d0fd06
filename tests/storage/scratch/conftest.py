"""Scratch of a test is its own: it sees no other, wherever else on this machine tests run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nobody import NOBODY, as_nobody
from hyperslab.storage.scratch import registry
from hyperslab.storage.scratch.removing import remove
from tests.storage.scratch.stage import free_for_all


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of records; whatever a test has left is removed."""
    with free_for_all() as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        yield place
        for scratch in registry.recorded():
            remove(scratch, by_force=True)


@pytest.fixture
def storage() -> Iterator[Path]:
    """A directory in which every user may write."""
    with free_for_all() as place:
        yield place


@pytest.fixture
def nobody(runtime: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts commands of nobody, with a folder of records of their own."""
    own = runtime / "nobody"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)

    def start(words: Sequence[str], **more: Any) -> subprocess.Popen[str]:
        return as_nobody(["env", f"XDG_RUNTIME_DIR={own}", *words], **more)

    return start
