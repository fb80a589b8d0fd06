"""Tiers with a lifeline are there as long as the process that has made them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hyperslab.storage.emulation import making, registry, removing
from hyperslab.storage.emulation.program import begun
from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import require_program
from tests.system.faults.command import await_that


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    require_program()
    yield
    for emulation in registry.known():
        removing.remove(emulation, by_force=True)


def test_a_program_is_heard_however_many_files_are_open(tmp_path: Path) -> None:
    beyond = 1024
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = usual[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * beyond), most))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < beyond:
            taken.append(os.dup(taken[0]))
        begun(["sh", "-c", "echo ready"], tmp_path / "log", limit_s=60).wait()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def test_a_tier_with_a_lifeline_ends_with_its_maker_that_was_killed(tmp_path: Path) -> None:
    """Also while somebody has a file of it open, who is cut off."""
    place = tmp_path / "tier"
    code = f"""
import os
from hyperslab.storage.emulation import making
from hyperslab.storage.emulation.settings import Settings
settings = Settings(metadata_s=1e-3)
made = making.emulate(
    "metadata", making.Path({str(place)!r}), settings, tolerance=1e9, has_lifeline=True
)
print(made.pid, flush=True)
input()
os.kill(os.getpid(), 9)
"""
    maker = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None
    assert maker.stdin is not None
    assert maker.stdout.readline().strip().isdigit()
    [emulation] = registry.known()
    assert registry.state_of(emulation) == "mounted"
    held = os.open(place / "open", os.O_CREAT | os.O_WRONLY)
    maker.communicate("go\n")
    assert maker.returncode == -signal.SIGKILL
    await_that("its end", lambda: registry.state_of(emulation) == "gone")
    await_that("the end of its program", lambda: not registry.is_alive(emulation))
    with suppress(OSError):  # its file system is gone
        os.close(held)
    assert os.listdir(place) == ["open"], "what lies beneath it"
    removing.remove(emulation)


def test_a_tier_that_is_removed_leaves_no_pipe(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    before = _pipes()
    settings = Settings(metadata_s=1e-4)
    emulation = making.emulate("metadata", place, settings, tolerance=1e9, has_lifeline=True)
    assert len(_pipes() - before) == 1
    removing.remove(emulation)
    assert _pipes() == before
    assert not place.exists()


def _pipes() -> set[str]:
    """The pipes of this process, as proc(5) names them."""
    found: set[str] = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the folder itself
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {name for name in found if name.startswith("pipe:")}
