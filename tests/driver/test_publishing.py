"""Names of what commands make in a call, by what the journal of one says that was killed."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.blocks import checksums
from hyperslab.blocks.writing import Written
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.publishing import Publishing
from hyperslab.driver.resume import Inherited, record
from hyperslab.driver.staging import Staging
from hyperslab.errors import OutputBusy
from hyperslab.plan.command import CommandTask, Execute, Ran
from hyperslab.plan.commanded import compile_commands, pipeline_of
from hyperslab.plan.compile import Stage
from hyperslab.plan.delivery import Lost
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.task import Outcome
from tests.system.faults.command import await_that

ROUNDS = 20
NAMES = ("sub-1/image", "shared")


@pytest.fixture
def end() -> Execute:
    """One command, which may share names."""
    commands = (CommandTask("sub-1", ("true",), stem="sub-1"),)
    return Execute(commands, "one", "true", cwd="/")


@pytest.fixture
def stage(end: Execute) -> Stage:
    return compile_commands(pipeline_of(end), end).stages[0]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """What is there of the attempt that was killed, or of another call."""
    return write(tmp_path / "out", "before")


def write(folder: Path, content: str) -> Path:
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def attempt(place: Path, content: str = "after") -> Outcome:
    """An attempt that has made both files, of five bytes each."""
    write(place, content)
    made = tuple(Written(name, 5, checksums.of_file(place / name)) for name in NAMES)
    return staged(place, made)


def staged(place: Path, made: tuple[Written, ...]) -> Outcome:
    ran = Ran("true", 0, 1.0, 0.0, 0.0, 1, "log", 0, 0, str(place))
    return Outcome(0, 0, "staged", outputs=made, ran=ran)


def killed(folder: Path, *outcomes: Outcome) -> Inherited:
    """A submission with these outcomes in its journal."""
    for part in ("journal", "partials"):
        (folder / part).mkdir(parents=True)
    journal = SlotJournal(folder, "host/0", "0")
    for outcome in outcomes:
        journal.record(outcome)
    journal.close()
    return Inherited(folder, {0: 0})


def test_what_was_not_said_to_be_done(tmp_path: Path, out: Path, stage: Stage) -> None:
    """It is the task's where no other can have made it; other files stay as they are."""
    folder = tmp_path / "run-0002"
    earlier = killed(tmp_path / "run-0001", attempt(tmp_path / "run-0001/private/0.0.out"))
    write(out, "after")
    outcome = attempt(folder / "private" / "0.0.out", "later")
    publishing = Publishing(out, folder, [earlier], is_call=True)
    made = publishing.deliver(stage.job, stage.tasks[0], outcome)
    assert [one.path for one in made] == ["sub-1/image"]
    assert (out / "sub-1/image").read_text() == "later"
    assert (out / "shared").read_text() == "after"


@pytest.mark.parametrize("content", ["before", "befor"])
@pytest.mark.parametrize(("ids", "is_call"), [({0: 0}, False), ({}, False), ({0: 0}, True)])
def test_a_file_that_an_attempt_was_killed_before_it_was_refused(
    tmp_path: Path, stage: Stage, content: str, ids: dict[int, int], is_call: bool
) -> None:
    """It is of a user, of another size or not, and neither replaced nor removed."""
    out = write(tmp_path / "out", content)
    folder = tmp_path / "run-0002"
    before = killed(tmp_path / "run-0001", attempt(tmp_path / "run-0001/private/0.0.out"))
    earlier = replace(before, ids=ids)
    outcome = attempt(folder / "private" / "0.0.out")
    with pytest.raises(OutputBusy, match=f"{out}/{NAMES[0]} is there, and "):
        Publishing(out, folder, [earlier], is_call).deliver(stage.job, stage.tasks[0], outcome)
    other = Written("sub-1/other", 5, outcome.outputs[0].checksum)
    (folder / "private/0.0.out/sub-1/other").write_text("after")
    outcome = replace(outcome, outputs=(other,))
    Publishing(out, folder, [earlier], is_call).deliver(stage.job, stage.tasks[0], outcome)
    assert [(out / name).read_text() for name in NAMES] == [content, content]


def test_what_was_not_known(tmp_path: Path, out: Path, stage: Stage) -> None:
    """A task that no other may share a name with is refused what is there."""
    folder = tmp_path / "run-0002"
    outcome = attempt(folder / "private" / "0.0.out")
    publishing = Publishing(out, folder, [], is_call=True)
    with pytest.raises(OutputBusy, match="this task has not made it"):
        publishing.deliver(stage.job, stage.tasks[0], outcome)
    assert (out / "sub-1/image").read_text() == "before"


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_file_is_on_storage_before_it_has_its_name(
    tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch, is_synced: bool
) -> None:
    """Nobody waits for that twice."""
    out = tmp_path / "out"
    folder = tmp_path / "run-0001"
    outcome = attempt(folder / "private" / "0.0.out")
    assert outcome.ran is not None
    outcome = replace(outcome, ran=replace(outcome.ran, is_synced=is_synced))
    synced: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), folder / "private" / "0.0.out")
        assert not (out / name).exists()
        synced.append(name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    publishing = Publishing(out, folder, [])
    publishing.deliver(stage.job, stage.tasks[0], outcome)
    assert synced == ([] if is_synced else list(NAMES))
    assert [(out / name).read_text() for name in NAMES] == ["after", "after"]


def test_storage_that_fails_leaves_nothing_with_a_name(
    tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has all of its files, or those from before."""
    out = tmp_path / "out"
    folder = tmp_path / "run-0001"
    outcome = attempt(folder / "private" / "0.0.out")
    assert outcome.ran is not None
    outcome = replace(outcome, ran=replace(outcome.ran, is_synced=False))
    fsync = os.fsync

    def refused(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(NAMES[-1]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(OSError, match="No space left"):
        Publishing(out, folder, []).deliver(stage.job, stage.tasks[0], outcome)
    assert not any((out / name).exists() for name in NAMES)


def test_an_attempt_that_is_lost_forgets_nothing(tmp_path: Path, stage: Stage) -> None:
    """What the next one does not make any more goes, and its name is nobody's then."""
    folder = tmp_path / "run-0002"
    before = write(tmp_path / "out", "before")
    both = attempt(tmp_path / "run-0001" / "private" / "0.0.out")
    earlier = killed(tmp_path / "run-0001", replace(both, status="done"))
    publishing = Publishing(before, folder, [earlier])
    one = replace(attempt(folder / "private" / "0.1.out"), outputs=both.outputs[:1])
    on_tier = replace(attempt(tmp_path / "tier" / "0.0.out"), outputs=both.outputs[:1])
    write(tmp_path / "tier" / "0.0.out", "other")
    with pytest.raises(Lost):
        publishing.deliver(stage.job, stage.tasks[0], on_tier)
    assert (before / NAMES[1]).read_text() == "before"
    publishing.deliver(stage.job, stage.tasks[0], one)
    assert (before / NAMES[0]).read_text() == "after"
    assert not (before / NAMES[1]).exists()


def test_what_is_gone_is_in_nobodys_way(tmp_path: Path, end: Execute) -> None:
    """Not even where it is heard of right before what another attempt has made."""
    out = tmp_path / "out"
    options = Options(engine="serial")
    prepared = prepare(pipeline_of(end), options, out)
    assert prepared.directory is not None
    folder = prepared.directory.new_submission(record(prepared.plan))
    staging = Staging(options, prepared, folder, print)
    plan = staging.begin(prepared.plan, set, [Inherited(folder)])
    (stage,) = plan.stages
    staging.take(stage.job, stage.tasks[0], staged(tmp_path / "gone", ()))
    staging.take(stage.job, stage.tasks[0], attempt(folder / "private" / "0.1.out"))
    await_that("the names", lambda: not staging.is_busy)
    staging.stop()
    assert [(out / name).read_text() for name in NAMES] == ["after", "after"]


def test_two_calls_give_a_name_at_the_same_time(tmp_path: Path, stage: Stage) -> None:
    """One of them does, and its file stays; the other one is refused."""
    out = tmp_path / "out"
    out.mkdir()
    for number in range(ROUNDS):
        both = threading.Barrier(2)

        def given(call: int, name: str = f"sub-1/{number}", both: threading.Barrier = both) -> str:
            folder = tmp_path / f"{name}-{call}"
            place = folder / "private" / "0.0.out"
            path = place / name
            path.parent.mkdir(parents=True)
            path.write_text(str(call))
            made = (Written(name, 1, checksums.of_file(path)),)
            publishing = Publishing(out, folder, [], is_call=True)
            both.wait()
            try:
                publishing.deliver(stage.job, stage.tasks[0], staged(place, made))
            except OutputBusy:
                return ""
            return str(call)

        with ThreadPoolExecutor(2) as beside:
            found = list(beside.map(given, (1, 2)))
        assert sorted(found) == ["", (out / f"sub-1/{number}").read_text()]
