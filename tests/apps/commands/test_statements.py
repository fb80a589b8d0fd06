"""What commands say of all that is there, beside others who do."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab import CommandTask
from hyperslab.driver import statements
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.statements import Statement
from tests.apps.commands.test_commands import run, sh
from tests.system.end_to_end.command import call

NAME = "about/all.txt"


def saying(label: str, text: str, speaker: str = "") -> CommandTask:
    script = (
        'mkdir "$0/about"; echo "$1" > "$0/$2.txt"; test -z "$1" || echo "$1" > "$0/about/all.txt"'
    )
    task = sh(label, script, "{out}", text, label)
    return replace(task, statements=(NAME,), speaker=speaker)


def said(out: Path) -> list[Statement]:
    return statements.said(RunDirectory(out).top, NAME)


@pytest.mark.parametrize("tier", ["", "/dev/shm"])
def test_many_say_something_of_all(tmp_path: Path, tier: str) -> None:
    """What several say is kept once; none of it is a result."""
    out = tmp_path / "out"
    tasks = [saying("a", "one"), saying("b", "two"), saying("c", "one")]
    result = run(tasks, out, stage_out=tier)
    assert result.ok, result.failures
    assert {(one.speaker, one.text) for one in said(out)} == {("", "one\n"), ("", "two\n")}
    assert not (out / "about").exists()
    assert "3 of 3 outputs unchanged" in call("verify", out).out


def test_the_last_word_of_who_speaks_alone_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for text in ("one", "two", ""):
        task = saying("a", text, "group")
        assert run([task], out, resume=text != "one").ok
        assert [one.text for one in said(out)] == [f"{text}\n"] * bool(text)


def test_who_says_something_alone_has_made_something(tmp_path: Path) -> None:
    script = 'mkdir $0/about; echo one > "$0/about/all.txt"'
    task = replace(sh("a", script, "{out}"), statements=(NAME,))
    result = run([task], tmp_path / "out")
    assert result.ok, result.failures
    assert [one.text for one in said(tmp_path / "out")] == ["one\n"]
    shutil.rmtree(tmp_path / "out" / ".hyperslab")
    assert said(tmp_path / "out") == []
