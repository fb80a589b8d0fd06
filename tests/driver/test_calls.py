"""Calls that begin in one directory, by records that are made here: who is waited for, who is not,
and which numbers they get.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hyperslab.blocks.gathering import Tell
from hyperslab.driver import calls, directory, manage
from hyperslab.driver.calls import Hand, Ledger, Purpose, Wanted
from hyperslab.driver.directory import CLAIMS, LEDGER, PLAN, RunDirectory, save_status
from hyperslab.engines.slurm.submitted import SubmittedJobs, save
from hyperslab.errors import OutputBusy, RunStopped
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.task import Outcome
from hyperslab.storage import fence
from hyperslab.storage.claims import Claims
from hyperslab.storage.recordfile import save_record
from tests.system.faults.command import await_that


@pytest.fixture
def records(tmp_path: Path) -> RunDirectory:
    """Those of an output directory in which a call for sub-0 has been."""
    records = RunDirectory(tmp_path / "out")
    submission(records, 1, "sub-0")
    return records


def submission(records: RunDirectory, number: int, *names: str) -> Path:
    """A submission whose driver is gone, and that was to make something."""
    folder = records.folder_of(number)
    (folder / "journal").mkdir(parents=True)
    fence.raise_fence(folder)
    save_record(folder / PLAN, planned(*names))
    return folder


def planned(*names: str) -> dict[str, Any]:
    wholes = [{"name": name, "first": i, "tasks": 1} for i, name in enumerate(names)]
    return {"wholes": wholes}


def quiet(_: str) -> None:
    """Nobody listens."""


def purpose(*names: str, template: str = "true", tidy: Callable[[str], None] = quiet) -> Purpose:
    return Purpose(tuple(map(Wanted, names)), template, resumes=True, verb="bids", tidy=tidy)


@contextmanager
def begun(records: RunDirectory, purpose: Purpose, tell: Tell) -> Iterator[Hand]:
    """A block in which a call has in hand what it gets first."""
    with calls.begun(records, purpose, tell) as hands:
        yield next(hands)


def end(call: Hand, state: directory.RunState) -> None:
    """Let a call have a plan, and say how it has ended."""
    call.directory.new_submission(planned())
    save_status(call.directory.root, state, {"tasks": 1, "done": 1})


def do(call: Hand, name: str) -> None:
    """Let a call do one whole."""
    folder = call.directory.new_submission(planned(name))
    with closing(SlotJournal(folder, "here/w0/t0", "0")) as journal:
        journal.record(Outcome(0, 0, "done"))


def test_a_number_is_given_once(records: RunDirectory) -> None:
    """Also where the folder is gone of who has it, or had it."""
    with begun(records, purpose("sub-1"), quiet) as one:
        assert one.directory.call == "run-0002"
        shutil.rmtree(one.directory.root)
        with begun(records, purpose("sub-2"), quiet) as two:
            assert two.directory.call == "run-0003"
    assert records.new_folder().name == "run-0004"


def test_a_number_that_is_held_is_not_given(records: RunDirectory) -> None:
    """As where the ledger was lost."""
    with begun(records, purpose("sub-1"), quiet) as one:
        shutil.rmtree(one.directory.root)
        (records.root / LEDGER).unlink()
        with begun(records, purpose("sub-2"), quiet) as two:
            assert two.directory.call == "run-0003"
            assert calls.load_ledger(records).open == (2, 3)


def test_submissions_that_are_not_listed_yet(
    records: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host lists a folder that others write to a while later."""
    folders = [submission(records, number, "sub-1") for number in (2, 3)]
    calls.save_ledger(records, Ledger(newest=2, open=(2,)))
    monkeypatch.setattr(RunDirectory, "numbered", lambda self: [])
    with begun(records, purpose("sub-2"), quiet) as call:
        assert call.directory.call == "run-0004"
        assert calls.load_ledger(records).open == (4,)
    assert all((folder / fence.ENDED).exists() for folder in folders)


def test_what_the_dead_have_left_is_removed(records: RunDirectory) -> None:
    """Also while others work; nothing is asked about those who have said how they ended."""
    tidied: list[str] = []
    with begun(records, purpose("sub-1", tidy=tidied.append), quiet):
        assert tidied == ["", "run-0001"]
        submission(records, 3, "sub-3")
        submission(records, 4, "sub-4")
        save_status(records.folder_of(4), "failed", {})
        with begun(records, purpose("sub-2", tidy=tidied.append), quiet):
            assert tidied == ["", "run-0001", "run-0003"]


def test_a_run_that_was_left_to_jobs(records: RunDirectory) -> None:
    """It goes on, and is not taken for one whose driver has died, whatever has begun since."""
    folder = records.folder_of(1)
    save(folder, SubmittedJobs("name", "1", 1, 1, is_detached=True, last="7"))
    submission(records, 2, "sub-1")
    refused = pytest.raises(OutputBusy, match="by a run that was left to jobs")
    with refused, begun(records, purpose("sub-2"), quiet):
        pass
    assert (folder / fence.OPEN).exists()


def test_who_waits_is_cancelled_with_who_works(records: RunDirectory) -> None:
    """Also who wakes up when nobody works any more, and is known to be there until then."""
    told: list[str] = []
    ended: list[str] = []

    def wait() -> None:
        try:
            with begun(records, purpose("sub-1"), told.append):
                ended.append("begun")
        except RunStopped as stopped:
            ended.append(str(stopped))

    waiting = threading.Thread(target=wait)
    with begun(records, purpose("sub-1"), quiet):
        waiting.start()
        await_that("a word", lambda: told)
        with closing(Claims(records.root / CLAIMS)) as claims:
            assert claims.is_taken(calls.WAITING)
        records.ask_to_cancel()
    waiting.join()
    (told_last,) = ended
    assert told_last.startswith("the run was cancelled")
    assert not records.is_owned()
    with begun(records, purpose("sub-1"), quiet):
        assert not records.is_cancelled()


def test_who_finds_a_whole_free_finds_what_was_done_of_it(
    records: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever moment of giving it back."""
    found: list[Hand] = []
    give_back = Claims.give_back

    def looked_for_then(self: Claims, name: str) -> None:
        give_back(self, name)
        if _is_free(records, "sub-1") and not found:
            with begun(records, purpose("sub-1"), quiet) as other:
                found.append(other)

    with (
        begun(records, purpose("sub-2"), quiet),
        calls.begun(records, purpose("sub-1", "sub-2"), quiet) as hands,
    ):
        one = next(hands)
        do(one, "sub-1")
        records.ask_to_cancel()
        monkeypatch.setattr(Claims, "give_back", looked_for_then)
        with pytest.raises(RunStopped):  # instead of waiting for sub-2
            next(hands)
    (other,) = found
    assert other.directory.before == (one.directory.root,)
    assert other.done == {"sub-1"}


def _is_free(records: RunDirectory, name: str) -> bool:
    with closing(Claims(records.root / CLAIMS)) as claims:
        return not claims.is_taken(name)


def test_who_waits_for_a_turn_is_cancelled(records: RunDirectory) -> None:
    """By what is asked from then on; what earlier runs were asked does not count."""
    records.root.mkdir(exist_ok=True)
    records.ask_to_cancel()
    stopped = threading.Event()

    def wait() -> None:
        with suppress(RunStopped), begun(records, purpose("sub-1"), quiet):
            return
        stopped.set()

    waiting = threading.Thread(target=wait)
    with closing(Claims(records.root / CLAIMS)) as claims, claims.alone():
        waiting.start()
        assert not stopped.wait(0.1)
        while not stopped.wait(0.05):
            records.ask_to_cancel()
    waiting.join()


def test_workers_that_do_not_leave(records: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep those who want what these are at, and nobody else."""
    monkeypatch.setattr(directory, "LEAVE_LIMIT_S", 0.0)
    with fence.working(records.folder_of(1)):
        with begun(records, purpose("sub-1"), quiet):
            assert calls.load_ledger(records).open == (1, 2)
        refused = pytest.raises(OutputBusy, match="still running tasks of an earlier run")
        with refused, begun(records, purpose("sub-0"), quiet):
            pass
    with begun(records, purpose("sub-0"), quiet):
        assert calls.load_ledger(records).open == (3,)


def test_who_waits_for_calls_waits_for_those_that_have_to_wait(records: RunDirectory) -> None:
    """These have nothing in hand, and go on."""
    with begun(records, purpose("sub-1"), quiet) as one:
        end(one, "done")
    with closing(Claims(records.root / CLAIMS)) as other, ThreadPoolExecutor(1) as beside:
        assert other.share(calls.WAITING)
        waiting = beside.submit(manage.wait, records.out)
        try:
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
        finally:
            other.give_back(calls.WAITING)
        assert waiting.result().state == "done"


def test_a_call_that_will_be_refused_keeps_nobody(records: RunDirectory) -> None:
    """What is done says what all make; a call that has something else in mind does not."""
    calls.save_ledger(records, Ledger(newest=1, tried={"sub-0": [1]}, done={"sub-0": 1}))
    wrong = purpose("sub-1", template="wrong")
    with begun(records, wrong, quiet), begun(records, purpose("sub-2"), quiet) as call:
        assert call.done == {"sub-0"}


def test_all_calls_are_heard_of(records: RunDirectory) -> None:
    """Not the newest one alone."""
    with begun(records, purpose("sub-1"), quiet) as one:
        end(one, "failed")
        with begun(records, purpose("sub-2"), quiet) as two:
            end(two, "done")
            assert manage.status(records.out).state == "done"
            assert manage.wait(records.out).state == "failed"
        assert manage.status(records.out).state == "failed"
    assert manage.status(records.out).state == "done"
