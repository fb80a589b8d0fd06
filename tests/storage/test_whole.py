"""Files that are whole or not there: what writers leave that die, and what they do not."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hyperslab.storage.whole import replacement, sweep, sweep_folder

DYING = """\
import os, signal, sys
from pathlib import Path
from hyperslab.storage.whole import replacement
with replacement(Path(sys.argv[1])) as file:
    file.write("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_writer_has_left_is_swept(tmp_path: Path) -> None:
    """Nothing of one that is at work, nor of another file."""
    page = tmp_path / "page[1].html"
    died = subprocess.run([sys.executable, "-c", DYING, page], check=False)
    assert died.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    other = tmp_path / ".other.html.1.2.partial"
    other.touch()
    with replacement(page) as file:
        file.write("whole")
        sweep(page)
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, page.name]
    assert page.read_text() == "whole"
    sweep_folder(tmp_path)
    assert list(tmp_path.iterdir()) == [page]


def _fail(path: Path) -> None:
    with replacement(path) as file:
        file.write("after")
        raise ZeroDivisionError


def test_a_file_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    for name in ("page.html", "table.csv.gz"):
        path = tmp_path / name
        path.write_bytes(b"before")
        with pytest.raises(ZeroDivisionError):
            _fail(path)
        assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 2


def test_who_sweeps_takes_nothing_away_from_who_begins_to_write(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    is_done = threading.Event()

    def sweep_all_the_time() -> None:
        while not is_done.is_set():
            sweep(page)

    sweeper = threading.Thread(target=sweep_all_the_time)
    sweeper.start()
    try:
        for number in range(200):
            with replacement(page) as file:
                file.write(str(number))
            assert page.read_text() == str(number)
    finally:
        is_done.set()
        sweeper.join()


def test_two_write_the_same_file(tmp_path: Path) -> None:
    """As processes of the same number may, in containers on two hosts: the last one stays."""
    path = tmp_path / "page.html"
    with replacement(path) as one, replacement(path) as other:
        other.write("first to end")
        one.write("last to end")
    assert path.read_text() == "last to end"
    assert list(tmp_path.iterdir()) == [path]
