"""Whoever dies while operations are counted, nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.storage.accounting import bpf, strace
from tests.system.clusters.required import required_to_count
from tests.system.faults.command import PATIENCE_S, await_that

WAYS = {strace.WAY: strace, bpf.WAY: bpf}


@pytest.mark.parametrize(
    ("way", "victim"), [("strace", "counter"), ("strace", "hyperslab"), ("bpf", "counter")]
)
def test_a_death_takes_the_command_along(tmp_path: Path, way: str, victim: str) -> None:
    """A command whose calls nobody would answer or count any more must not go on."""
    required_to_count(WAYS[way])
    mark = tmp_path / "pid"
    script = f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 1000"
    code = (
        "import os; from hyperslab.apps.files.kept import count_kept;"
        f"print(count_kept(['sh', '-c', {script!r}], os.environ, {way!r})[0])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(_when_there(mark))
    if victim == "counter":
        counter = _parent(pid)  # both start the command themselves
        os.kill(counter, signal.SIGKILL)
        told = process.communicate(timeout=PATIENCE_S)[0].strip()
        assert told == {"strace": str(128 + 9), "bpf": ""}[way]
        assert process.returncode == {"strace": 0, "bpf": 1}[way]
    else:
        process.kill()
        process.communicate()
    await_that("the end of the command", lambda: not _runs(pid))


def _when_there(mark: Path) -> str:
    await_that("a command under way", mark.exists)
    return mark.read_text()


def _parent(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid"))


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
