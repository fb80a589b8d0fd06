"""Why commands have failed, in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperslab.machine import shortage
from hyperslab.machine.spawner import Ended
from hyperslab.plan.command import CommandTask
from hyperslab.plan.failing import after

TASK = CommandTask("t", ("true",))


def ended(path: Path, status: int, *, is_late: bool = False) -> Ended:
    path.write_bytes(b"before" + b"x" * 5000 + b"\npassword=hush\n\xffend\n")
    nbytes = path.stat().st_size - 6
    return Ended(status, is_late, 0, 10**9, 0.0, 0.0, 1, str(path), 6, nbytes)


@pytest.mark.parametrize(
    ("status", "is_short", "error", "message"),
    [
        (1, False, "ExitStatus", "exit status 1: "),
        (1, True, "OutOfMemory", "exit status 1, and the kernel has killed a process for want of"),
        (-9, False, "Signal", "ended by signal 9 (SIGKILL): "),
        (-9, True, "OutOfMemory", "out of memory: the kernel has killed it; use fewer --workers"),
        (137, True, "OutOfMemory", "out of memory: "),
        (-63, False, "Signal", "ended by signal 63: "),
    ],
)
def test_ends(tmp_path: Path, status: int, is_short: bool, error: str, message: str) -> None:
    failure = after(TASK, ended(tmp_path / "log", status), None, is_short).failure("t")
    assert failure.error == error
    assert failure.message.startswith(message)
    assert failure.message.endswith("password=*** | �end")
    assert len(failure.traceback) < 4200
    assert "before" not in failure.traceback
    assert "hush" not in failure.traceback


def test_a_long_line(tmp_path: Path) -> None:
    """It keeps its first words and its last ones, and none in part."""
    log = tmp_path / "log"
    log.write_text(f"ValueError: {'word ' * 60}at last")
    told = Ended(1, False, 0, 10**9, 0.0, 0.0, 1, str(log), 0, log.stat().st_size)
    message = after(TASK, told, None, False).failure("t").message
    middle = re.escape("[... 124 characters left out ...]")
    said = f"exit status 1: ValueError: (word )+{middle} (word )+at last"
    assert re.fullmatch(said, message), message


def test_what_a_command_has_printed_for_a_terminal_and_in_long_lines(tmp_path: Path) -> None:
    """The beginning of a line stays, as the name of a file, and its end, as what is wrong."""
    log = tmp_path / "log"
    coloured = "\x1b[31mred\x1b[0m\x1b]0;title\x07"
    long = f"brain: /a/head.nii.gz: {'of many words ' * 30}is empty"
    text = f"{coloured}\n{long}\n".encode()
    log.write_bytes(text)
    done = Ended(3, False, 0, 10**9, 0.0, 0.0, 1, str(log), 0, len(text))
    message = after(TASK, done, None, False).failure("t").message
    assert message.startswith("exit status 3: red | brain: /a/head.nii.gz: of many")
    assert message.endswith("is empty")


def test_a_late_command(tmp_path: Path) -> None:
    failure = after(TASK, ended(tmp_path / "log", -15, is_late=True), 2.5, False).failure("t")
    assert failure.error == "TimeLimit"
    assert failure.message.startswith("it took longer than 2.5 s: ")


def test_a_late_command_that_may_wait_for_one_that_was_killed(tmp_path: Path) -> None:
    failure = after(TASK, ended(tmp_path / "log", -15, is_late=True), 2.5, True).failure("t")
    assert failure.error == "OutOfMemory"
    assert failure.message.startswith("it took longer than 2.5 s, and the kernel has killed a")


def test_the_kernel_counts_whom_it_kills() -> None:
    assert shortage.killed() >= 0
