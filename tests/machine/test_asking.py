"""Programs that are asked once: what they print, whatever it is, and in time."""

from __future__ import annotations

import subprocess

import pytest

from hyperslab.machine.asking import asked, last_line


def test_a_program_that_answers() -> None:
    done = asked(["sh", "-c", r"cat; printf 'a\377\n'; echo $WORD >&2; exit 3"], 10, {"WORD": "b"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\ufffd\n", "b\n")
    assert last_line(done) == "b"


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("echo first; echo last", "last"),
        ("echo said; echo >&2", "said"),
        ("exit 4", "exit status 4"),
    ],
)
def test_the_last_line_of_a_program(script: str, last: str) -> None:
    assert last_line(asked(["sh", "-c", script])) == last


def test_programs_that_are_not_there_or_do_not_end() -> None:
    with pytest.raises(FileNotFoundError):
        asked(["hyperslab-no-such-program"])
    with pytest.raises(subprocess.TimeoutExpired):
        asked(["sleep", "10"], 0.05)
