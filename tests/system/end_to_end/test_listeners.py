"""Who listens to a run may be slow, leave, or never have been there: the run goes on to its end,
and says so.
"""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hyperslab.report import listener
from hyperslab.report.listener import PATIENCE_S, Listener
from tests.repetitions import few, repeats
from tests.system.end_to_end.command import (
    ANATOMICAL,
    PROGRAM,
    assembled,
    call,
    call_into,
    values_of,
)
from tests.system.faults.command import PATIENCE_S as WAIT_S
from tests.system.faults.command import await_that

pytestmark = pytest.mark.usefixtures("on_threads")

ADD = "hyperslab.testing.functions:add"
SLOW = ("--blocks", "1x1x8", "--engine", "threads", "--workers", "2", "-p", "seconds=0.1")


def in_shell(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program as "$@" of a shell script."""
    line = ["bash", "-c", script, "bash", *PROGRAM, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT_S)


def assert_done(out: Path) -> None:
    assert call("status", out).out.startswith("state      done\n")
    assert np.array_equal(assembled(out, ANATOMICAL), values_of(ANATOMICAL) + 1)


def test_a_terminal_that_vanishes(tmp_path: Path) -> None:
    """Where the signal of it is ignored, as by nohup, every write fails from then on."""
    ours, theirs = pty.openpty()
    command = ("run", ADD, ANATOMICAL, "-o", tmp_path / "out", *SLOW)
    terminal = os.fdopen(theirs, "w")
    with ThreadPoolExecutor(1) as pool:
        vanishing = pool.submit(vanish, ours)
        assert call_into(terminal, terminal, *command) == 0
    assert vanishing.result(), "it has begun to show something"
    with contextlib.suppress(OSError):  # of what nobody has taken
        terminal.close()
    assert_done(tmp_path / "out")


def vanish(terminal: int) -> bytes:
    """Close the other end of a terminal as soon as something is shown."""
    shown = os.read(terminal, 1)
    os.close(terminal)
    return shown


@repeats("who leaves while it runs: the terminal above; what a program ends with: streams below")
def test_a_pipe_that_is_closed(tmp_path: Path) -> None:
    done = in_shell(
        '"$@" 2>&1 | head -n 1; exit "${PIPESTATUS[0]}"',
        "run",
        ADD,
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        *SLOW,
    )
    assert done.returncode == 0
    assert re.match(r" *\d+%  \d/8 tasks", done.stdout)
    assert_done(tmp_path / "out")


STREAMS = ["> /dev/full 2> /dev/full", "<&- >&- 2>&-", ">&-"]


@pytest.mark.parametrize("streams", few(STREAMS[:2], STREAMS, "a stream that takes nothing"))
def test_streams_that_take_nothing(tmp_path: Path, streams: str) -> None:
    done = in_shell(
        f'"$@" {streams}', "convert", ANATOMICAL, tmp_path / "new.nii", "--engine", "serial"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert np.array_equal(values_of(tmp_path / "new.nii"), values_of(ANATOMICAL))


def test_what_is_asked_for_and_cannot_be_written_is_a_failure() -> None:
    done = in_shell('"$@" > /dev/full', "info", ANATOMICAL)
    assert (done.returncode, done.stderr) == (1, "hyperslab: No space left on device\n")


def test_a_pipe_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that is stopped is the same; the work is done all the same. What waits when
    somebody reads again is heard in order, as far as the command's end leaves time for it.
    """
    monkeypatch.setattr(listener, "PATIENCE_S", 100.0)  # the end waits for a test that reads late
    reading, writing = os.pipe()
    fill(writing)
    line = ("run", ADD, ANATOMICAL, "-o", tmp_path / "out", *SLOW)
    with ThreadPoolExecutor(1) as pool:
        with os.fdopen(writing, "w") as pipe:
            hearing = pool.submit(read_late, reading, tmp_path / "out")
            assert call_into(io.StringIO(), pipe, *line) == 0
        heard = hearing.result()
    lines = heard.lstrip(b"\0").decode().splitlines()
    assert lines
    assert all(re.match(r" *\d+%  \d/8 tasks", line) for line in lines)
    assert_done(tmp_path / "out")


def read_late(pipe: int, out: Path) -> bytes:
    """All that comes out of a pipe, which is read when the run has all its outputs."""
    await_that("the end of the run", lambda: len([*out.glob("[!.]*.nii")]) == 8)
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.set_blocking(pipe, True)


def test_a_listener_hears_all_in_order_or_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PATIENCE_S < 10
    monkeypatch.setattr(listener, "PATIENCE_S", 60)
    with (tmp_path / "heard").open("w+") as file:
        told = Listener(file)
        said = [f"{number}\n" for number in range(500)]
        for text in said:
            told.write(text)
        told.drain()
        assert (tmp_path / "heard").read_text() == "".join(said)
        assert (told.name, told.isatty()) == (file.name, False)
    told.write("to a file that is closed")
    told.drain()
