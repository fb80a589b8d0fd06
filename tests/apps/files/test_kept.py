"""Whoever dies while operations are counted, nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hyperslab.storage.accounting import strace
from tests.system.clusters.required import required


@pytest.fixture(scope="module", autouse=True)
def _strace_works() -> None:
    required(strace.why_not())


@pytest.mark.parametrize("victim", ["strace", "hyperslab"])
def test_a_death_takes_the_command_along(tmp_path: Path, victim: str) -> None:
    """A command whose calls nobody would answer any more must not go on."""
    mark = tmp_path / "pid"
    script = f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 300"
    code = (
        "import os; from hyperslab.apps.files.kept import count_kept;"
        f"print(count_kept(['sh', '-c', {script!r}], os.environ)[0])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(_when_there(mark))
    tracer = next(
        int(line.split()[1])
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("TracerPid")
    )
    if victim == "strace":
        os.kill(tracer, signal.SIGKILL)
        assert process.communicate(timeout=30)[0].strip() == str(128 + 9)
    else:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 30
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _when_there(mark: Path) -> str:
    deadline = time.monotonic() + 30
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return mark.read_text()


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
