"""A test that failed beside others is played once more, and a fault is there each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.again import MOST

ONCE = """
from pathlib import Path

def test_once():
    been = Path(__file__).with_name("been")
    before = been.exists()
    been.touch()
    assert before

def test_always():
    assert False
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(ONCE)
    (tmp_path / "been").touch()
    folder = tmp_path / "cache" / "v" / "cache"
    folder.mkdir(parents=True)
    return folder


def again(cache: Path, *names: str) -> tuple[int, str]:
    """Exit code and words of another try of tests that have failed."""
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(names, True)))
    line = [sys.executable, "-m", "tests.again", str(cache.parents[1])]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_what_passes_alone_is_named(cache: Path) -> None:
    name = f"{cache.parents[2]}/test_some.py::test_once"
    code, said = again(cache, name)
    assert code == 0, said
    assert f"played once more alone:\n  {name}\n" in said


def test_what_fails_each_time_is_a_failure(cache: Path) -> None:
    code, said = again(cache, f"{cache.parents[2]}/test_some.py::test_always")
    assert (code, "1 failed" in said) == (1, True), said


def test_many_failures_are_not_played_again(cache: Path) -> None:
    assert again(cache, *(f"test_some.py::test_{n}" for n in range(MOST + 1))) == (1, "")
