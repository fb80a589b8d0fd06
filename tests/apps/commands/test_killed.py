"""Commands of which a process was killed for want of memory, as far as anybody can know."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hyperslab import CommandTask, run_commands
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.machine import shortage
from hyperslab.plan import killed
from hyperslab.plan.command import PRIVATE
from hyperslab.report.progress import Quiet


class Heard(Quiet):
    """Progress that remembers what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel kills something whenever somebody looks."""
    count = itertools.count()
    monkeypatch.setattr(shortage, "killed", lambda: next(count))
    monkeypatch.setattr(killed, "PATIENCE_S", 0.3)


@pytest.mark.usefixtures("short")
def test_a_command_that_goes_on_is_told(tmp_path: Path) -> None:
    """While it runs, once, and in its log; it is not ended, and what it makes counts."""
    out = tmp_path / "out"
    heard = Heard()
    waits = CommandTask("sub-1", ("sh", "-c", "sleep 3.5; echo x > {out}/x"))
    ends = CommandTask("sub-2", ("sh", "-c", "echo x > {out}/y"))
    result = run_commands([waits, ends], out, engine="threads", workers=2, progress=heard)
    assert result.ok
    (line,) = (line for line in heard.lines if line.startswith("memory"))
    assert "sub-1 goes on, though the kernel has killed a process of its machine" in line
    printed = {one.label: one.printed().decode() for one in logged(RunDirectory(out))}
    assert "which it may wait for without end" in printed["sub-1"]
    assert printed["sub-2"] == ""


def test_words_that_cannot_be_read_end_no_run(tmp_path: Path) -> None:
    """As on storage that does not answer; others are told."""
    private = tmp_path / PRIVATE
    (private / "killed.0").mkdir(parents=True)
    (private / "killed.1").write_text("sub-1 goes on")
    heard: list[str] = []
    killed.Told(tmp_path, heard.append).look()
    assert [line.partition(":")[0] for line in heard] == ["memory     sub-1 goes on"]


@pytest.mark.usefixtures("short")
def test_a_command_that_tells_of_no_signal(tmp_path: Path) -> None:
    """It has lost a process, and ends with a status of its own; it is tried again alone."""
    tasks = [CommandTask("sub-1", ("sh", "-c", "exit 1"))]
    result = run_commands(
        tasks, tmp_path / "out", engine="serial", retries=0, report=False, check=False
    )
    (failure,) = result.failures
    assert "exit status 1, and the kernel has killed a process" in failure.message
