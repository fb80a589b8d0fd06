"""Commands that memory is not enough for when they run side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hyperslab
from hyperslab import CommandTask
from hyperslab.trace import Span
from tests.system.clusters.required import required
from tests.system.faults.command import await_that

LIMIT = 200_000_000
GROUPS = {
    "memory.limit_in_bytes": Path("/sys/fs/cgroup/memory"),
    "memory.max": Path("/sys/fs/cgroup"),
}
"Folders in which groups with a limit of memory are made, versions 1 and 2, by its file."
SCRIPT = """
import os, sys, time
from pathlib import Path
group, place, out, name = sys.argv[1:]
Path(group, "cgroup.procs").write_text(str(os.getpid()))
own = Path(place, name)
own.with_suffix(".new").write_text(str(os.getpid()))
own.with_suffix(".new").replace(own)
while len(found := [path for path in Path(place).iterdir() if not path.suffix]) < 3:
    time.sleep(0.01)
held = b"x" * 150_000_000
pids = {path.read_text() for path in found} - {str(os.getpid())}
while any(os.path.exists("/proc/" + pid) for pid in pids):
    time.sleep(0.01)
Path(out, name).write_text("done")
"""
"It needs three quarters of the limit, and ends when it is the only one left."


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with a limit of memory."""
    files = [file for file, top in GROUPS.items() if _has_limits(file, top)]
    if not files:
        required("no control group with a limit of memory can be made here: run the tests as root")
    made = GROUPS[files[0]] / f"hyperslab-test-{os.getpid()}"
    made.mkdir()
    (made / files[0]).write_text(str(LIMIT))
    yield made
    await_that(
        "the end of all processes of a group", lambda: not (made / "cgroup.procs").read_text()
    )
    made.rmdir()


def _has_limits(file: str, top: Path) -> bool:
    trial = top / f"hyperslab-trial-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return os.access(trial / file, os.W_OK)
    finally:
        trial.rmdir()


def test_those_that_were_killed_run_alone(tmp_path: Path, group: Path) -> None:
    """Two of three are killed, and would be again side by side."""
    place = tmp_path / "pids"
    place.mkdir()
    words = (sys.executable, "-c", SCRIPT, str(group), str(place), "{out}", "{name}")
    tasks = [CommandTask(f"t{n}", words) for n in range(3)]
    settings = {"engine": "threads", "workers": 3, "retries": 1, "report": False}
    result = hyperslab.run_commands(tasks, tmp_path / "out", check=False, **settings)  # type: ignore[arg-type]
    assert result.ok, result.failures
    again = [one for one in result.trace.spans if one.attempt]
    first, second = sorted(
        (one for one in again if one.kind == "compute"), key=lambda one: one.start_ns
    )
    assert first.end_ns <= second.start_ns
    waited = max((one for one in again if one.kind == "wait"), key=_length_ns)
    assert waited.task == second.task
    assert waited.end_ns >= first.end_ns


def _length_ns(span: Span) -> int:
    return span.end_ns - span.start_ns
