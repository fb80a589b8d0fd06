"""Inputs whose times alone have changed: what is in them decides whether a task is done again."""

from __future__ import annotations

import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hyperslab import CommandTask
from hyperslab.blocks import checksums
from hyperslab.blocks.gathering import unheard
from hyperslab.driver import touched
from hyperslab.driver.result import Result
from hyperslab.driver.touched import Touched
from hyperslab.plan import contents, executing
from hyperslab.plan.command import Ran
from hyperslab.plan.contents import Patience
from hyperslab.plan.journal import encode
from hyperslab.plan.task import Outcome
from hyperslab.plan.unread import Unread
from hyperslab.report.progress import Quiet
from tests.apps.commands.test_commands import run, sh

LATER_NS = 10**9


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scan.nii"
    path.write_text("one")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a participant, with a file below, and a link to nowhere as of git-annex."""
    place = tmp_path / "sub-01" / "anat"
    place.mkdir(parents=True)
    (place / "scan.nii").write_text("one")
    (place / "other.nii").symlink_to("../.git/annex/objects/gone")
    return place.parent


def touch(path: Path, text: str = "") -> None:
    """Give a file another time, and other content if there is a text."""
    before = path.lstat().st_mtime_ns
    if text:
        path.write_text(text)
    times = (before + LATER_NS, before + LATER_NS)
    os.utime(path, ns=times, follow_symlinks=False)


def checksum(inputs: Sequence[str], limit_s: float = math.inf) -> str:
    return contents.checksum(inputs, partial(contents.digest_of, patience=Patience(limit_s)))


def task(path: Path) -> CommandTask:
    return sh(path.name, 'ls "$0" > "$1/$2.txt"', "{input}", "{out}", "{name}", inputs=(str(path),))


def attempts(result: Result) -> int:
    assert result.ok, result.failures
    return result.summary.attempts


def test_what_was_touched_is_not_done_again(file: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tasks = [task(file), task(folder)]
    assert attempts(run(tasks, out)) == 2
    touch(file)
    touch(folder / "anat/scan.nii")
    touch(folder / "anat/other.nii")
    assert attempts(run(tasks, out, resume=True)) == 0
    touch(file)
    assert attempts(run(tasks, out, resume=True)) == 0, "it was touched again"
    for path in (file, folder / "anat/scan.nii"):
        touch(path, "two")
        assert attempts(run(tasks, out, resume=True)) == 1, f"{path}: other bytes of the same size"
    assert attempts(run(tasks, out, resume=True)) == 0
    (folder / "anat/scan.nii").rename(folder / "anat/view.nii")
    assert attempts(run(tasks, out, resume=True)) == 1


def test_inputs_on_a_fast_tier(folder: Path, file: Path, tmp_path: Path) -> None:
    """The checksum is that of the copies, which have the bytes of the files, unless a command
    writes to its own.
    """
    (folder / "anat/other.nii").unlink()
    tier = tmp_path / "tier"
    tier.mkdir()
    written = tmp_path / "written.nii"
    written.write_text("one")
    script = 'printf two > "$0"; cp "$0" "$1/two"'
    writer = sh("writer", script, "{input}", "{out}", inputs=(str(written),))
    tasks = [task(file), task(folder), writer]
    staged = {"engine": "threads", "workers": 1, "stage_in": tier}
    assert attempts(run(tasks, tmp_path / "out", **staged)) == 3
    assert written.read_text() == "one"
    touch(file)
    touch(folder / "anat/scan.nii")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 0
    touch(written, "two")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 1


def test_links_below_a_folder_are_followed(folder: Path, tmp_path: Path) -> None:
    """To files and to folders, as copies of the folder do, and not round in circles."""
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "scan.nii").write_text("one")
    (folder / "anat/other.nii").unlink()
    (folder / "scan.nii").symlink_to(raw / "scan.nii")
    (folder / "raw").symlink_to(raw)
    tasks = [task(folder)]
    assert attempts(run(tasks, tmp_path / "out")) == 1
    touch(raw / "scan.nii")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 0
    for text in ("two", "three"):
        touch(raw / "scan.nii", text)
        assert attempts(run(tasks, tmp_path / "out", resume=True)) == 1, text
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert checksum([str(copy)]) == checksum([str(folder)])
    (folder / "anat/up").symlink_to("..")
    (raw / "back").symlink_to(folder)
    found = [os.path.relpath(state.path, folder) for state in contents.states(str(folder))]
    assert found == [*["scan.nii"] * 2, "anat/scan.nii", "anat/up", "raw/back", "raw/scan.nii"]


def test_the_name_of_a_file_of_git_annex_tells_what_is_in_it(folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "sub-01/.git/annex/objects/gone"
    assert (folder / "anat/other.nii").resolve() == key
    before = list(contents.states(str(folder)))
    key.parent.mkdir(parents=True)
    key.write_text("one")
    here = [state for state in contents.states(str(folder)) if ".git" not in state.path]
    assert here == before


def test_what_a_command_has_written_to_itself_is_not_known(file: Path, tmp_path: Path) -> None:
    """What it has read is gone: only the same time tells that it is what it left."""
    script = 'cp "$0" "$1/kept"; printf six > "$0"; touch -d "1 hour" "$0"'
    tasks = [sh("t", script, "{input}", "{out}", inputs=(str(file),))]
    assert attempts(run(tasks, tmp_path / "out")) == 1
    touch(file)
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 1


def test_another_command_is_no_other_time(file: Path, tmp_path: Path) -> None:
    assert attempts(run([task(file)], tmp_path / "out")) == 1
    touch(file)
    other = sh(file.name, "echo another > $0/a", "{out}", inputs=(str(file),))
    assert attempts(run([other], tmp_path / "out", resume=True)) == 1


def test_a_damaged_journal_tells_of_no_task_that_it_has_made_nothing(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tasks = [sh("t", 'cp "$0" "$1/kept"', "{input}", "{out}", inputs=(str(file),))]
    assert attempts(run(tasks, out)) == 1
    touch(file, "two")
    assert attempts(run(tasks, out, resume=True)) == 1
    journals = list((out / ".hyperslab/run-0002/journal").iterdir())
    assert any(journal.stat().st_size for journal in journals)
    for journal in journals:
        journal.write_bytes(journal.read_bytes().replace(b"status", b"STATUS"))
    touch(file, "one")
    assert attempts(run(tasks, out, resume=True)) == 1
    assert (out / "kept").read_text() == "one"


def test_of_several_attempts_that_counts_which_is_done(file: Path, tmp_path: Path) -> None:
    """Or the last one, where none is; whatever the names of their slots."""
    ran = Ran("cat", 0, 1.0, 1.0, 0.0, 0, "log", 0, 0, inputs=checksum([str(file)]))
    stale = replace(ran, inputs="what it was")
    command = task(file)
    for number, (mine, other) in enumerate(
        [
            (Outcome(0, 0, "done", ran=ran), Outcome(0, 1, "staged", ran=stale)),
            (Outcome(0, 1, "staged", ran=ran), Outcome(0, 0, "staged", ran=stale)),
        ]
    ):
        folder = tmp_path / str(number)
        (folder / "journal").mkdir(parents=True)
        (folder / "journal/a.jsonl").write_bytes(encode(mine))
        (folder / "journal/b.jsonl").write_bytes(encode(other))
        assert Touched(unheard).holds(folder, 0, command), mine.status


def test_records_of_earlier_versions(file: Path) -> None:
    """They have one word, which tells of times, too."""
    now = f"0 0 {contents.version('a', contents.states(str(file)))}"
    before = now.rpartition(" ")[0]
    assert contents.is_as_before(before, now)
    assert not contents.differs_in_times(before, now)
    touch(file)
    then = f"0 0 {contents.version('a', contents.states(str(file)))}"
    assert not contents.is_as_before(before, then)
    assert contents.differs_in_times(now, then)


def test_inputs_that_take_longer_than_their_command_is_worth(
    file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no checksum, and what was touched is done again; small ones always have."""
    (folder / "anat/scan.json").write_text("two")
    assert checksum([str(folder)], limit_s=0) != ""
    monkeypatch.setattr(contents, "ALWAYS_NBYTES", len("one"))
    assert checksum([str(folder)], limit_s=0) == ""
    assert checksum([str(folder)]) != ""
    monkeypatch.setattr(executing, "CHECKSUM_SHARE", -1)
    tasks = [task(file), task(folder)]
    assert attempts(run(tasks, tmp_path / "out")) == 2
    touch(file)
    touch(folder / "anat/scan.nii")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 1


def test_many_small_files_take_time_too(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To list and to open, before the command and after it."""
    count = 2 * len(list(contents.states(str(folder))))
    monkeypatch.setattr(contents, "ALWAYS_NBYTES", count * contents.FILE_NBYTES + len("one"))
    assert checksum([str(folder)], limit_s=0) != ""
    (folder / "empty").touch()
    assert checksum([str(folder)], limit_s=0) == ""
    monkeypatch.setattr(contents, "ALWAYS_NBYTES", 0)
    with pytest.raises(TimeoutError):
        list(contents.states(str(folder), Patience(0)))
    monkeypatch.setattr(executing, "CHECKSUM_SHARE", 10**9)
    monkeypatch.setattr(executing, "CHECKSUM_MOST_S", 0)
    tasks = [task(folder)]
    assert attempts(run(tasks, tmp_path / "out")) == 1
    touch(folder / "empty")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 1


def test_after_long_commands_there_is_a_limit_too(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have made is recorded after it, and their worker may be about to be ended."""
    monkeypatch.setattr(contents, "ALWAYS_NBYTES", 0)
    monkeypatch.setattr(executing, "CHECKSUM_SHARE", 10**9)
    tasks = [task(file)]
    assert attempts(run(tasks, tmp_path / "out")) == 1
    touch(file)
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 0, "it has a checksum"
    monkeypatch.setattr(executing, "CHECKSUM_MOST_S", 0)
    touch(file)  # so that nobody has read it
    assert attempts(run(tasks, tmp_path / "later")) == 1
    touch(file)
    assert attempts(run(tasks, tmp_path / "later", resume=True)) == 1


def test_what_tasks_share_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an image of Apptainer's is, beside what each reads for itself."""
    read = _counted(monkeypatch)
    paths = [tmp_path / name for name in ("shared", *map(str, range(contents.MOST_KNOWN + 2)))]
    for path in paths:
        path.write_text(path.name)
    found = {checksum([str(paths[0]), str(path)]) for path in paths[1:]}
    assert len(found) == len(paths) - 1
    assert read == [path.name for path in paths]
    assert len(checksum([str(paths[1])])) == 32
    assert read[-1] == paths[1].name, "it is known no more"


def test_folders_that_tasks_share_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By slots, as sandboxes of Apptainer's, and by a call that resumes, whatever is between."""
    shared = tmp_path / "sandbox"
    shared.mkdir()
    (shared / "library").write_text("one")
    own = [tmp_path / str(number) for number in range(3)]
    for path in own:
        path.write_text(path.name)
    tasks = [replace(task(path), inputs=(str(shared), str(path))) for path in own]
    read = _counted(monkeypatch)
    assert attempts(run(tasks, tmp_path / "out")) == len(tasks)
    assert read.count("library") == 1
    touch(shared / "library")
    read.clear()
    monkeypatch.setattr(contents, "MOST_KNOWN", 0)
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == 0
    assert read.count("library") == 1
    touch(shared / "library", "two")
    assert attempts(run(tasks, tmp_path / "out", resume=True)) == len(tasks)


def test_inputs_are_read_several_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all submissions together, and it is told how far that is."""
    out = tmp_path / "out"
    own = [tmp_path / str(number) for number in range(3)]
    for path in own:
        path.write_text(path.name)
    for number in range(len(own)):
        tasks = [task(path) for path in own[: number + 1]]
        assert attempts(run(tasks, out, resume=number > 0)) == 1
    for path in own:
        touch(path)
    together = threading.Barrier(len(own), timeout=30)
    of_file = checksums.of_file

    def meeting(path: str, *more: Any) -> str:
        together.wait()
        return of_file(path, *more)

    monkeypatch.setattr(checksums, "of_file", meeting)
    monkeypatch.setattr(touched, "FIRST_TOLD_S", 0)
    told: list[str] = []
    progress = Quiet()
    monkeypatch.setattr(progress, "tell", told.append)
    assert attempts(run([task(path) for path in own], out, resume=True, progress=progress)) == 0
    first, *more = told
    assert first.startswith("reading    inputs that have another time")
    assert more[0].startswith("reading    1 of 3 inputs, ")


def test_ctrl_c_ends_the_reading_of_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """By threads that are in the middle of long files."""
    own = [tmp_path / str(number) for number in range(8)]
    for path in own:
        path.write_text(path.name)
    tasks = [task(path) for path in own]
    assert attempts(run(tasks, tmp_path / "out")) == len(own)
    for path in own:
        touch(path)
    read = []
    main = threading.get_ident()

    def endless(path: str, took: Callable[[int], None]) -> str:
        read.append(path)
        if len(read) == touched.THREADS:
            signal.pthread_kill(main, signal.SIGINT)
        for _ in range(3000):
            time.sleep(0.01)
            took(1)
        raise AssertionError("nobody has ended it")

    monkeypatch.setattr(checksums, "of_file", endless)
    monkeypatch.setattr(touched, "Host", OfFew)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    with pytest.raises(KeyboardInterrupt):
        run(tasks, tmp_path / "out", resume=True)
    assert len(read) == touched.THREADS, "what waited for a thread is not begun"


class OfFew:
    """A machine of one processor."""

    cpus = 1

    @classmethod
    def here(cls) -> OfFew:
        return cls()


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    read: list[str] = []
    of_file = checksums.of_file

    def counted(path: str, *more: Any) -> str:
        read.append(Path(path).name)
        return of_file(path, *more)

    monkeypatch.setattr(checksums, "of_file", counted)
    return read


def test_what_takes_too_long_is_given_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first of the tasks that share it, and told once; with far more time it is tried."""
    shared = tmp_path / "sandbox"
    shared.mkdir()
    for name in ("one", "two"):
        (shared / name).write_text(name)
    own = [tmp_path / str(number) for number in range(4)]
    for path in own:
        path.write_text(path.name)
    tasks = [replace(task(path), inputs=(str(path), str(shared))) for path in own]
    listed = 4 * contents.FILE_NBYTES
    monkeypatch.setattr(contents, "ALWAYS_NBYTES", listed + len("0one"))
    monkeypatch.setattr(executing, "CHECKSUM_SHARE", -1)
    told: list[str] = []
    progress = Quiet()
    monkeypatch.setattr(progress, "tell", told.append)
    read = _counted(monkeypatch)
    assert attempts(run(tasks, tmp_path / "out", progress=progress)) == len(tasks)
    assert [name for name in read if name in ("one", "two")] == ["one", "two"]
    assert [text.partition(":")[0] for text in told] == [f"unread     {shared}"]
    unread = Unread(tmp_path)
    (tmp_path / "private").mkdir()
    for limit_s in (10, 15):
        with pytest.raises(TimeoutError):
            give_up(unread, limit_s, read)
    assert read[-1] == "for 10 s"
    with unread.watched("x", Patience(60)):
        read.append("x")
    assert read[-1] == "x"


def give_up(unread: Unread, limit_s: float, read: list[str]) -> None:
    """Read an input that takes longer than this, unless somebody has tried before."""
    with unread.watched("x", Patience(limit_s)):
        read.append(f"for {limit_s} s")
        raise TimeoutError


def test_what_cannot_be_read_has_no_checksum(folder: Path) -> None:
    inputs = (str(folder), str(folder / "anat/scan.nii"))
    known = checksum(inputs)
    assert known == checksum(inputs) != checksum(inputs[::-1])
    shutil.rmtree(folder)
    assert checksum(inputs) == ""
