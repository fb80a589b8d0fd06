"""Names of many files: after their bytes are on storage, a batch at a time, whatever goes
wrong with one of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.driver import committed, naming
from hyperslab.driver.naming import BATCH
from hyperslab.report.progress import Quiet
from hyperslab.storage import renaming
from tests.system.end_to_end.command import call, save, succeed
from tests.system.faults.command import PATIENCE_S, recorded

pytestmark = pytest.mark.usefixtures("without_a_report")
FILES = 5
NAMES = [f"s{number}.nii" for number in range(FILES)]
MEAN = """
def mean(block):
    return block.mean(axis=-1).astype("float32")
"""
KILLED_AT = """
import os, signal
from hyperslab.cli import main
from hyperslab.storage import renaming
plain = renaming.rename
def rename(ready, final, overwrite):
    if final.name == "{name}":
        os.kill(os.getpid(), signal.SIGKILL)
    plain(ready, final, overwrite)
renaming.rename = rename
main()
"""


class Study:
    """Series of which each becomes a file, named in batches of two."""

    def __init__(self, folder: Path) -> None:
        self.out, self.source = folder / "out", folder / "in"
        (folder / "mine.py").write_text(f"# of {folder}\n{MEAN}")
        self.function = f"{folder}/mine.py:mean"
        for number, name in enumerate(NAMES):
            save(self.source / name, self.series(number))

    def series(self, number: int) -> Any:
        return np.random.default_rng(number).integers(0, 900, (4, 3, 2, 5)).astype(np.int16)

    def line(self, *more: object) -> tuple[object, ...]:
        return (
            "run",
            self.function,
            self.source,
            "-o",
            self.out,
            "--engine",
            "serial",
            "-q",
            *more,
        )

    def alike(self) -> tuple[object, ...]:
        """A run whose tasks name their files themselves."""
        return ("run", "increment", *self.line()[2:])

    def right(self) -> list[str]:
        """Names of the files that are there; each is whole."""
        found = sorted(path.name for path in self.out.glob("[!.]*"))
        for name in found:
            expected = self.series(NAMES.index(name)).mean(axis=-1).astype(np.float32)
            assert np.array_equal(hyperslab.open(self.out / name)[...], expected), name
        return found


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(naming, "BATCH", 2)
    return Study(tmp_path)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is synced, noted and named, in this order, by the names that files get."""
    seen: list[tuple[str, str]] = []
    synchronise, note, rename = renaming.synchronise, committed.note, renaming.rename

    def synchronised(path: Path, only_names: bool = False) -> None:
        synchronise(path, only_names)
        is_file = path.name.endswith(".part")
        seen.append(("synced", path.name[1:].partition(".nii")[0] if is_file else path.name))

    def noted(directory: Any, files: list[committed.Committed]) -> None:
        note(directory, files)
        seen.extend(("noted", file.name.partition(".")[0]) for file in files)

    def renamed(ready: Path, final: Path, overwrite: bool) -> None:
        rename(ready, final, overwrite)
        seen.append(("named", final.name.partition(".")[0]))

    monkeypatch.setattr(renaming, "synchronise", synchronised)
    monkeypatch.setattr(naming, "note", noted)
    monkeypatch.setattr(renaming, "rename", renamed)
    return seen


def test_bytes_then_the_note_then_names_then_their_folder(
    study: Study, events: list[tuple[str, str]]
) -> None:
    succeed(*study.line())
    assert study.right() == NAMES
    batches = [["s0", "s1"], ["s2", "s3"], ["s4"]]
    begin = events.index(next(event for event in events if event[0] == "synced"))
    for batch in batches:
        steps = [events[begin + at] for at in range(3 * len(batch) + 1)]
        begin += len(steps)
        assert sorted(steps[: len(batch)]) == [("synced", name) for name in batch]
        rest = [(kind, name) for kind in ("noted", "named") for name in batch]
        assert steps[len(batch) :] == [*rest, ("synced", "out")]


def test_those_who_watch_are_told(study: Study) -> None:
    told: list[tuple[int, int]] = []

    class Heard(Quiet):
        def named(self, done: int, files: int) -> None:
            told.append((done, files))

    pipeline = hyperslab.Pipeline(study.source).map(study.function)
    result = hyperslab.run(
        pipeline.write(study.out), engine="serial", report=False, progress=Heard()
    )
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
    assert result.trace.meta["naming"]["files"] == FILES
    assert 0 < result.trace.meta["naming"]["seconds"] < result.summary.makespan_s


@pytest.mark.parametrize("number", [5, 28])
def test_bytes_of_one_that_do_not_get_to_storage(
    study: Study, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Others of its batch have their names; no later batch does; nothing is done again."""
    plain = renaming.synchronise

    def synchronise(path: Path, only_names: bool = False) -> None:
        if path.name.startswith(".s2.nii."):
            raise OSError(number, os.strerror(number), str(path))
        plain(path, only_names)

    with monkeypatch.context() as patch:
        patch.setattr(renaming, "synchronise", synchronise)
        failed = call(*study.line())
    assert (failed.code, failed.err.count("\n")) == (1, 1), failed
    assert f"{study.out / 's2.nii'} cannot be finished: " in failed.err
    assert os.strerror(number) in failed.err
    assert "fix that, then use --resume" in failed.err
    assert study.right() == ["s0.nii", "s1.nii", "s3.nii"]
    held = recorded(study.out)
    succeed(*study.line("--resume"))
    assert recorded(study.out) == held
    assert study.right() == NAMES
    assert call("verify", study.out).code == 0


@pytest.mark.parametrize("keep", ["volume", "blocks"])
def test_bytes_that_storage_has_lost_are_written_again(
    study: Study, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    """After a sync that failed, the kernel takes the pages for written, and the next one
    succeeds.
    """
    line = study.line() if keep == "volume" else study.alike()

    def lose(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-40] + bytes(40))
        raise OSError(5, os.strerror(5), str(path))

    def synchronise(path: Path, only_names: bool = False) -> None:
        if path.name.startswith((".s2.nii.", "s2.nii")):
            lose(path)
        plain(path, only_names)

    plain = renaming.synchronise
    with monkeypatch.context() as patch:
        patch.setattr(renaming, "synchronise", synchronise)
        failed = call(*line)
    assert (failed.code, failed.err.count("\n")) == (1, 1), failed
    assert "Input/output error" in failed.err
    held = recorded(study.out)
    succeed(*line, "--resume")
    assert recorded(study.out) == held + 1, "one is done again"
    assert call("verify", study.out).code == 0
    if keep == "volume":
        assert study.right() == NAMES
    succeed(*line, "--resume")
    assert recorded(study.out) == held + 1, "it is sure again"


def test_a_batch_that_cannot_be_noted(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, and none of it has a name."""

    def note(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(naming, "note", note)
        failed = call(*study.line())
    assert failed.err.count("\n") == 1, failed
    assert f"{study.out / 's0.nii'} and 1 other file cannot be finished: the disk" in failed.err
    assert study.right() == []
    succeed(*study.line("--resume"))
    assert study.right() == NAMES


def test_a_driver_that_is_killed_between_two_names(tmp_path: Path) -> None:
    study = Study(tmp_path)
    assert FILES < BATCH, "all are noted before the first has its name"
    line = [sys.executable, "-c", KILLED_AT.format(name="s3.nii"), *map(str, study.line())]
    killed = subprocess.run(line, capture_output=True, timeout=PATIENCE_S, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    assert study.right() == ["s0.nii", "s1.nii", "s2.nii"]
    succeed(*study.line("--resume"))
    assert recorded(study.out) == FILES
    assert study.right() == NAMES
    assert call("verify", study.out).code == 0
