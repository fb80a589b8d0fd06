"""A run some of whose tasks have failed: the files that are complete have their names, none is
half-written, and --resume makes those that are missing.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.blocks.writing import Written
from hyperslab.driver import allocations, complete
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.manifest import load_manifest
from hyperslab.plan.task import Volume
from hyperslab.storage import fence
from tests.repetitions import few
from tests.system.end_to_end.command import call, save, succeed, values_of
from tests.system.faults import conversions
from tests.system.faults.command import program, recorded

pytestmark = pytest.mark.usefixtures("without_a_report")
SHAPE = (6, 5, 4, 3)
SUBJECTS = ("a", "b", "c", "d")
UNLIKED = 30_000
"Value at which the function fails until it is mended."
MINE = """
import os
import numpy as np

def mean(block):
    if block.max() >= {unliked} and not os.path.exists("{mended}"):
        raise OSError("not yet")
    return block.mean(axis=-1).astype(np.float32)
"""
ARE_WRITTEN = "files are written; missing: "
HAVE_NONE = "warning    complete files have not got their names, --resume gives them: "


class Study:
    """Series of four subjects, and a function that makes a map of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.mine = folder / "mine.py"
        self.mended = folder / "mended"
        self.mine.write_text(MINE.format(mended=self.mended, unliked=UNLIKED))
        self.series: dict[str, Array] = {}
        for number, subject in enumerate(SUBJECTS):
            self.make(subject, number, is_bad=subject == "c")

    def path(self, subject: str) -> Path:
        return self.folder / "in" / f"{subject}.nii"

    def make(self, subject: str, seed: int, is_bad: bool = False) -> None:
        """Write a series; the last slice of a bad one is what the function fails at."""
        values = np.random.default_rng(seed).integers(0, 900, SHAPE).astype(np.int16)
        if is_bad:
            values[0, 0, -1, 0] = UNLIKED
        self.series[subject] = values
        save(self.path(subject), values)

    def line(self, *more: object, form: str = "nii") -> tuple[object, ...]:
        where = (self.folder / "in", "-o", self.out, "--format", form)
        how = ("--engine", "serial", "--retries", "0", "--blocks", "1x1x2x1", "--keep-going", "-q")
        return ("run", f"{self.mine}:mean", *where, *how, *more)

    def right(self) -> set[str]:
        """Subjects whose map is there; each has to be whole, and of the series as it is now."""
        found = {path.name.partition(".")[0]: path for path in self.out.glob("[!.]*")}
        for subject, path in found.items():
            expected = self.series[subject].mean(axis=-1).astype(np.float32)
            assert np.array_equal(hyperslab.open(path)[...], expected), path
        return set(found)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def tasks_of(said: str) -> int:
    """How many tasks there are, as the end of a failed run says."""
    found = re.search(r"(\d+) of (\d+) tasks? failed", said)
    assert found, said
    return int(found[2])


@pytest.mark.parametrize("form", ["nii", "nii.gz", "h5", "zarr"])
def test_complete_files_appear_and_resume_repeats_none(study: Study, form: str) -> None:
    failed = call(*study.line(form=form))
    assert failed.code == 1
    assert "not yet" in failed.err
    assert f"warning    3 of 4 {ARE_WRITTEN}c.{form}\n" in failed.err
    assert study.right() == {"a", "b", "d"}
    assert "state      failed" in call("status", study.out).out
    verified = call("verify", study.out)
    assert verified.code == 1
    assert "finish it with --resume" in verified.out + verified.err
    assert not re.search(r"\b[abd]\.", verified.out + verified.err), "nothing else is wrong"
    tasks = tasks_of(failed.err)
    assert recorded(study.out) == tasks - 1

    again = call(*study.line("--resume", form=form))
    assert again.code == 1
    assert f"warning    3 of 4 {ARE_WRITTEN}c.{form}\n" in again.err
    study.mended.touch()
    succeed(*study.line("--resume", form=form))
    assert recorded(study.out) == tasks, "nothing is done again"
    assert study.right() == set(SUBJECTS)
    assert call("verify", study.out).code == 0
    assert not list(study.out.glob(".*.part"))


def test_what_is_there_is_verified(study: Study) -> None:
    call(*study.line())
    path = study.out / "a.nii"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    verified = call("verify", study.out)
    assert re.search(r"a\.nii \(task \d+\): checksum", verified.out + verified.err), verified


def test_python_is_told_which_files_there_are(study: Study) -> None:
    pipeline = hyperslab.Pipeline(study.folder / "in").map(f"{study.mine}:mean").write(study.out)
    serial: Any = {"engine": "serial", "retries": 0, "blocks": "1x1x2x1", "report": False}
    with pytest.raises(
        hyperslab.TasksFailed, match=r"3 of 4 files are written; missing: c\.nii"
    ) as told:
        hyperslab.run(pipeline, **serial)
    result = told.value.result
    assert result.state == "failed"
    assert [path.name for path in result.outputs] == ["a.nii", "b.nii", "d.nii"]
    assert len(result.unfinished) == 1


def test_a_file_of_several_sources_appears_when_all_are_there(study: Study) -> None:
    joined = ("--sources", "concatenated", "--axis", "0")
    failed = call(*study.line(*joined))
    assert failed.code == 1
    assert "1 of 2 tasks failed" in failed.err
    assert not list(study.out.glob("[!.]*")), "half of it is there"
    assert ARE_WRITTEN not in failed.err
    study.mended.touch()
    succeed(*study.line(*joined, "--resume"))
    assert recorded(study.out) == 2
    (made,) = study.out.glob("[!.]*")
    expected = [study.series[subject].mean(axis=-1) for subject in SUBJECTS]
    assert np.array_equal(values_of(made), np.concatenate(expected).astype(np.float32))


KILLS = list(itertools.product(["nii", "nii.gz", "zarr"], ["before 1", "after 1", "before 3"]))
KILLED = [("nii", "before 3"), ("nii.gz", "after 1"), ("zarr", "after 1")]


@pytest.mark.parametrize(("form", "moment"), few(KILLED, KILLS, "a kill between two names"))
def test_a_driver_that_is_killed_while_files_get_their_names(
    study: Study, held: Mapping[str, str], form: str, moment: str
) -> None:
    conversions.let_go(held)
    environment = {**os.environ, **held, "KILL_AT": moment}
    done = program(*study.line(form=form), environment=environment)
    assert done.returncode == -9, done
    when, number = moment.split()
    there = int(number) - (when == "before")
    assert len(study.right()) == there
    held_before = recorded(study.out)
    study.mended.touch()
    succeed(*study.line("--resume", form=form))
    assert recorded(study.out) == held_before + 1, "only what had failed"
    assert study.right() == set(SUBJECTS)
    assert call("verify", study.out).code == 0
    assert not list(study.out.glob(".*.part"))


def test_no_new_name_beside_a_file_that_is_to_be_replaced(study: Study) -> None:
    """Else old and new results would lie side by side, and a kill would leave no mark of it."""
    study.make("d", 3, is_bad=True)
    call(*study.line())
    assert study.right() == {"a", "b"}
    old = (study.out / "a.nii").read_bytes()
    study.make("a", 10)
    study.make("d", 13)
    failed = call(*study.line("--resume"))
    assert failed.code == 1
    assert (
        f"{HAVE_NONE}what is there stays until all that replaces it is there (a.nii)\n"
        in failed.err
    )
    assert {path.name for path in study.out.glob("[!.]*")} == {"a.nii", "b.nii"}
    assert (study.out / "a.nii").read_bytes() == old
    entries = load_manifest(RunDirectory(study.out))["outputs"]
    assert {entry["path"] for entry in entries if "frame" in entry} == {"b.nii"}
    done = recorded(study.out)
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert recorded(study.out) == done + 1, "nothing is done again"
    assert study.right() == set(SUBJECTS)
    assert call("verify", study.out).code == 0


def test_a_file_that_waits_to_replace_another_is_no_output(study: Study) -> None:
    call(*study.line())
    study.make("a", 10)
    pipeline = hyperslab.Pipeline(study.folder / "in").map(f"{study.mine}:mean").write(study.out)
    serial: Any = {"engine": "serial", "retries": 0, "blocks": "1x1x2x1", "report": False}
    result = hyperslab.run(pipeline, resume=True, check=False, **serial)
    assert [path.name for path in result.outputs] == ["b.nii", "d.nii"]


def test_a_run_that_replaces_others_names_nothing_before_its_end(study: Study) -> None:
    """Also where its files have other names than theirs."""
    others = ("run", f"{study.mine}:mean", study.path("a"), "-o", study.out, "--engine", "serial")
    succeed(*others, "--format", "nii.gz", "-q")
    failed = call(*study.line("--overwrite"))
    assert failed.code == 1
    assert f"{HAVE_NONE}what is there stays" in failed.err
    assert [path.name for path in study.out.glob("[!.]*")] == ["a.nii.gz"]
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert {path.name for path in study.out.glob("[!.]*")} == {f"{s}.nii" for s in SUBJECTS}
    assert study.right() == set(SUBJECTS)


def test_a_run_that_may_replace_and_has_nothing_to_replace(study: Study) -> None:
    loud = [word for word in study.line("--overwrite") if word != "-q"]
    failed = call(*loud)
    assert failed.code == 1
    assert f"outputs    3 files in {study.out}" in failed.out
    assert study.right() == {"a", "b", "d"}
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert study.right() == set(SUBJECTS)


def before_each_name(monkeypatch: pytest.MonkeyPatch, deed: Callable[[str], None]) -> None:
    """Have something happen before a complete file gets its name, which it is told."""
    plain = allocations.require_complete

    def require_complete(volume: Volume, outputs: Sequence[Written | None]) -> list[Written]:
        deed(os.path.basename(volume.sink.path))
        return plain(volume, outputs)

    monkeypatch.setattr(allocations, "require_complete", require_complete)


def test_a_name_that_somebody_else_has_taken(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(name: str) -> None:
        if name == "a.nii" and not study.mended.exists():
            (study.out / name).write_text("mine")

    before_each_name(monkeypatch, take)
    failed = call(*study.line())
    assert failed.code == 1
    assert "1 of 8 tasks failed" in failed.err
    assert f"warning    {study.out / 'a.nii'} was created by somebody else" in failed.err
    assert "2 of 4 files are written; missing: a.nii, c.nii\n" in failed.err
    assert "state      failed" in call("status", study.out).out
    assert (study.out / "a.nii").read_text() == "mine"
    (study.out / "a.nii").unlink()
    assert study.right() == {"b", "d"}
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert recorded(study.out) == 8
    assert study.right() == set(SUBJECTS)


def test_a_disk_that_has_no_room_for_one(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        if name == "b.nii.gz":
            raise OSError(28, "No space left on device")

    before_each_name(monkeypatch, fail)
    failed = call(*study.line(form="nii.gz"))
    assert failed.code == 1
    assert "1 of 8 tasks failed" in failed.err
    said = "b.nii.gz cannot be finished: the disk is full: No space left on device"
    assert f"warning    {study.out}/{said}" in failed.err
    assert "2 of 4 files are written; missing: b.nii.gz, c.nii.gz\n" in failed.err
    assert "state      failed" in call("status", study.out).out
    assert study.right() == {"a", "d"}


def test_journals_that_cannot_be_secured(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def secure(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "secure", secure)
        failed = call(*study.line())
    assert failed.code == 1
    assert "1 of 8 tasks failed" in failed.err
    assert f"{HAVE_NONE}Input/output error\n" in failed.err
    assert study.right() == set()
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert recorded(study.out) == 8
    assert study.right() == set(SUBJECTS)


def test_an_attempt_that_may_still_write(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, held = fence.end, list[int]()

    def end(folder: Path) -> None:
        plain(folder)
        if not held:
            held.append(os.open(folder / fence.ENDED, os.O_RDWR))
            fcntl.flock(held[0], fcntl.LOCK_SH)

    with monkeypatch.context() as patch:
        patch.setattr(fence, "end", end)
        patch.setattr(complete, "LEAVE_LIMIT_S", 0.1)
        failed = call(*study.line())
    os.close(held[0])
    assert failed.code == 1
    assert f"{HAVE_NONE}a worker that was given up may still write\n" in failed.err
    assert study.right() == set()
    study.mended.touch()
    succeed(*study.line("--resume"))
    assert recorded(study.out) == 8
    assert study.right() == set(SUBJECTS)


def test_many_that_are_missing_are_counted(study: Study) -> None:
    for number in range(12):
        study.make(f"e{number:02}", number, is_bad=True)
    failed = call(*study.line())
    assert "3 of 16 files are written; missing: c.nii, e00.nii" in failed.err
    assert "e08.nii and 3 more\n" in failed.err
