"""What commands leave that fail, where a user wants to look at it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab import CommandTask, Options, run_commands
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.driver.result import Result
from hyperslab.errors import UsageError
from hyperslab.machine import spawner
from hyperslab.machine.spawner import Ended
from hyperslab.plan import executing

LEAVES = """echo trace > "$0/crash.txt"; echo half > "$1/node"; exit ${2}"""
"A script that writes to {out} and {work}, and ends with a status."


def run(out: Path, kept: Path, status: int, retries: int = 1) -> Result:
    argv = ("sh", "-c", LEAVES, "{out}", "{work}", str(status))
    options = Options(engine="serial", retries=retries, report=False, keep_failed=kept)
    return run_commands([CommandTask("site/sub-1", argv)], out, options, check=False)


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_what_each_attempt_has_left(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    assert not run(out, kept, 3).ok
    first, second = sorted((kept / "site/sub-1").iterdir())
    for place in (first, second):
        assert contents(place) == {"out/crash.txt": "trace\n", "work/node": "half\n"}
    assert [place.name[:13] for place in (first, second)] == ["run-0001.0.0.", "run-0001.0.1."]
    told = [one.printed().decode() for one in logged(RunDirectory(out))]
    assert sorted(told) == [
        f"\nhyperslab: what it has left is in {place}\n" for place in (first, second)
    ]
    assert not list((out / ".hyperslab/run-0001/private").glob("*.out"))


def test_nothing_is_kept_of_a_command_that_ends_well(tmp_path: Path) -> None:
    assert run(tmp_path / "out", tmp_path / "kept", 0).ok
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_kept_is_told_in_the_log(tmp_path: Path) -> None:
    """The failure of the command stays what it is."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "site").write_text("a file\n")
    result = run(tmp_path / "out", kept, 3, retries=0)
    assert "exit status 3" in result.failures[0].message
    (log,) = logged(RunDirectory(tmp_path / "out"))
    assert f"what it has left cannot be moved to {kept}/site" in log.printed().decode()


def test_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder that can be written to"):
        Options(keep_failed=tmp_path / "file" / "kept")
    pipeline = hyperslab.Pipeline(np.zeros(3)).write(tmp_path / "o")
    with pytest.raises(UsageError, match="keep_failed is for commands"):
        hyperslab.run(pipeline, keep_failed=tmp_path)


def test_nobody_looks_into_what_a_command_has_left_that_cannot_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lie on the storage for which the command waits."""
    removed: list[Path] = []
    run_it = spawner.run

    def stuck(*arguments: Any) -> Ended:
        return replace(run_it(*arguments), is_stuck=True)

    monkeypatch.setattr(spawner, "run", stuck)
    monkeypatch.setattr(executing, "remove_tree", removed.append)
    result = run(tmp_path / "out", tmp_path / "kept", 3, retries=0)
    assert "could not be ended" in str(result.failures[0].message)
    assert not (tmp_path / "kept").exists()
    assert not removed
