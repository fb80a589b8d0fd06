"""Several calls into the same directory at the same time, as arrays of jobs make them, and many one
after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.idle import owned
from hyperslab.apps.bids.running import Asked, run_participants, select
from hyperslab.apps.bids.template import template_app
from hyperslab.driver.directory import CLAIMS, RunDirectory
from hyperslab.driver.manage import status
from hyperslab.driver.options import Options
from hyperslab.driver.verification import verify
from hyperslab.errors import DamagedRecord, OutputBusy
from hyperslab.storage.claims import Claims
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_running import COPY, files_of
from tests.system.end_to_end.command import INTERRUPTIBLE, Finished, call
from tests.system.faults.command import PATIENCE_S, await_that

FRONT = f"{INTERRUPTIBLE}; from hyperslab.cli.bids_front import main; main()"
_MOST_TOLD = 2**16
COPY_BUT_10 = "sh -c 'test {participant} != 10 && cp {t1w} {out}/{prefix}_copy.nii.gz'"
SERIAL = ("--engine", "serial", "--retries", "0", "--no-report")


class Gate:
    """An app whose commands say that they have begun, and wait for the gate to be opened."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.path = folder / "open"
        self.app = self.app_for(f"test -e {self.path}")

    def app_for(self, condition: str) -> str:
        """The app, whose commands wait until a command of the shell succeeds."""
        script = (
            f"echo {{prefix}} >> {self._folder}/begun;"
            f" until {condition}; do sleep 0.02; done;"
            " cp {t1w} {out}/{prefix}_copy.nii.gz"
        )
        return f"sh -c '{script}'"

    def begun(self) -> list[str]:
        """Images whose commands have begun."""
        path = self._folder / "begun"
        if not path.exists():
            return []
        return sorted(path.read_text().split())

    def open(self) -> None:
        self.path.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()  # whatever has failed, nobody waits for ever


class Process:
    """A call of hyperslab-bids in a process of its own."""

    def __init__(self, *words: object) -> None:
        line = [sys.executable, "-c", FRONT, *map(str, words)]
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=self._told, text=True)

    def told(self) -> str:
        """What it has said of itself so far."""
        return os.pread(self._told.fileno(), _MOST_TOLD, 0).decode()

    def end(self) -> Finished:
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return Finished(self.process.returncode, out, self.told())

    def close(self) -> None:
        self.process.kill()
        with self.process:
            self._told.close()


@contextmanager
def called(*words: object) -> Iterator[Process]:
    with closing(Process(*words)) as one:
        yield one


def test_participants_at_the_same_time(home: Path, out: Path, gate: Gate) -> None:
    """All have begun before one has ended; the group level waits for all of them."""
    line = (home, out, "participant", "--app", gate.app, *SERIAL)
    asked = [("1",), ("10",), ("2", "--session-label", "a"), ("2", "--session-label", "b")]
    with ExitStack() as stack:
        several = [
            stack.enter_context(called(*line, "--participant-label", *words)) for words in asked
        ]
        images = ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]
        await_that("all four", lambda: gate.begun() == images)
        assert call("status", out).out.startswith("state      running (pid ")
        busy = call("bids", home, out, "group")
        assert (busy.code, "are being worked on there: wait" in busy.err) == (2, True), busy
        busy = call("bids", home, out, "both", "--app", gate.app, "--group-app", "true", "--resume")
        assert (busy.code, "is in use by another" in busy.err) == (2, True), busy
        gate.open()
        for one in several:
            done = one.end()
            assert done.code == 0, done
    assert files_of(out) == [
        "dataset_description.json",
        "sub-1/anat/sub-1_copy.nii.gz",
        "sub-10/anat/sub-10_copy.nii.gz",
        "sub-2/ses-a/anat/sub-2_ses-a_copy.nii.gz",
        "sub-2/ses-b/anat/sub-2_ses-b_copy.nii.gz",
    ]
    assert gate.begun() == images
    listed = json.loads(call("logs", out, "--json").out)
    assert sorted(one["task"] for one in listed) == images
    assert "4 of 4 outputs unchanged" in call("verify", out).out
    both = ("bids", home, out, "both", "--app", gate.app, "--per", "session", *SERIAL)
    gathered = call(*both, "--group-app", "sh -c 'ls {results} > {out}/all.txt'", "--resume")
    assert (gathered.code, "1 task in" in gathered.out) == (0, True), gathered
    assert gate.begun() == images


def test_the_same_participant_at_the_same_time(home: Path, out: Path, gate: Gate) -> None:
    """The second call does its own first, then waits, and finds done what the first one has done;
    one that makes something else is refused.
    """
    app = gate.app_for(f"test {{prefix}} != sub-1 || test -e {gate.path}")
    line = (home, out, "participant", "--app", app, *SERIAL)
    with called(*line, "--participant-label", "1") as first:
        await_that("the first", gate.begun)
        other = call("bids", home, out, "participant", "--app", COPY, "--resume", *SERIAL)
        assert (other.code, "calls that make something else" in other.err) == (2, True), other
        with called(*line, "--participant-label", "1", "10") as second:
            await_that("a word", lambda: "waiting" in second.told())
            assert files_of(out)[-1] == "sub-10/anat/sub-10_copy.nii.gz"
            later, *_, waiting = second.told().splitlines()
            assert later == "later      sub-1: another call is at work there"
            assert waiting.startswith("waiting    for another call that works on sub-1 in ")
            gate.open()
            assert first.end().code == 0
            done = second.end()
            assert (done.code, "1 task in" in done.out) == (0, True), done
    assert gate.begun() == ["sub-1", "sub-10"]


def test_a_call_that_waits_is_cancelled(home: Path, out: Path, gate: Gate) -> None:
    """All calls are, wherever they are."""
    asked = ("--participant-label", "1", "--engine", "threads", "--no-report")
    line = (home, out, "participant", "--app", gate.app, *asked)
    with called(*line) as first:
        await_that("the first", gate.begun)
        with called(*line) as second:
            await_that("a word", second.told)
            assert call("cancel", out).code == 0
            assert first.end().code != 0
            cancelled = second.end()
            assert (cancelled.code, "was cancelled" in cancelled.err) == (1, True), cancelled
    assert gate.begun() == ["sub-1"]


def test_what_a_call_has_done_that_was_killed(home: Path, out: Path, gate: Gate) -> None:
    """It counts, and nobody waits for the dead."""
    app = gate.app_for(f"test {{prefix}} = sub-1 || test -e {gate.path}")
    line = (home, out, "participant", "--app", app, *SERIAL)
    with called(*line, "--participant-label", "1", "10") as one:
        await_that("the second participant", lambda: "sub-10" in gate.begun())
        await_that("the record of the first", lambda: status(out).done == 1)
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()
    gate.open()
    again = call("bids", home, out, "participant", "--app", app, *SERIAL, "--resume")
    assert (again.code, "2 tasks in" in again.out) == (0, True), again
    assert "sub-10/anat/sub-10_copy.nii.gz" in files_of(out)


@pytest.fixture
def app() -> App:
    return template_app(COPY)


def one_by_one(home: Path, out: Path, app: App, *labels: str) -> None:
    """A call for each participant, in this process."""
    for label in labels:
        assert one_call(home, out, app, label)


def one_call(home: Path, out: Path, app: App, label: str) -> bool:
    """A call for a participant in this process; whether it has succeeded."""
    options = Options(engine="serial", retries=0, resume=True, verb="bids", report=False)
    return run_participants(select(home, Asked((label,))), out, app, options).ok


def test_calls_read_what_concerns_them(home: Path, out: Path, app: App) -> None:
    """Records of others are not looked at, however many there are; those that are lost of what is
    asked for are missed.
    """
    one_by_one(home, out, app, "1", "2", "10")
    first = out / ".hyperslab" / "run-0001"
    (first / "plan.json").write_text("no record any more")
    make(home, t1w("3"))
    one_by_one(home, out, app, "10", "3")
    with pytest.raises(DamagedRecord, match=r"run-0001/plan\.json is damaged"):
        one_by_one(home, out, app, "1")


def test_the_ledger_is_made_again(home: Path, out: Path, app: App) -> None:
    one_by_one(home, out, app, "1", "2")
    before = (out / "sub-1/anat/sub-1_copy.nii.gz").stat().st_mtime_ns
    (out / ".hyperslab" / "calls.json").unlink()
    one_by_one(home, out, app, "1")
    assert (out / "sub-1/anat/sub-1_copy.nii.gz").stat().st_mtime_ns == before


def test_a_call_that_is_refused_leaves_no_records(home: Path, out: Path, app: App) -> None:
    one_by_one(home, out, app, "1")
    before = sorted((out / ".hyperslab").glob("run-*"))
    with pytest.raises(OutputBusy, match="differs in the command"):
        one_by_one(home, out, template_app(COPY.replace("_copy", "_other")), "10")
    assert sorted((out / ".hyperslab").glob("run-*")) == before


def test_no_participant_during_the_group_level(home: Path, out: Path, app: App) -> None:
    one_by_one(home, out, app, "1")
    with owned(RunDirectory(out)), pytest.raises(OutputBusy, match="is in use by"):
        one_by_one(home, out, app, "2")
    one_by_one(home, out, app, "2")


def progress(out: Path) -> list[str | None]:
    """What is missing, by `verify`, of what calls were asked for."""
    return [one.problem for one in verify(RunDirectory(out)) if one.problem]


def test_what_failed_or_killed_calls_were_asked_for_is_missed(home: Path, out: Path) -> None:
    """However many others have succeeded since."""
    app = template_app(COPY_BUT_10)
    assert not one_call(home, out, app, "10")
    one_by_one(home, out, app, "1")
    assert progress(out) == ["1 of 2 tasks done; finish it with --resume"]
    (out / ".hyperslab/run-0002/manifest.json").unlink()  # as a call leaves it that is killed
    one_by_one(home, out, app, "2")
    assert progress(out) == ["1 of 3 tasks done; finish it with --resume"]
    one_by_one(home, out, app, "1")
    assert progress(out) == ["2 of 3 tasks done; finish it with --resume"]


def test_what_others_had_is_counted_with_a_call_s_own(home: Path, out: Path) -> None:
    """Also what has failed of either."""
    app = template_app(COPY_BUT_10)
    one_by_one(home, out, app, "2")
    manifest = out / ".hyperslab/run-0002/manifest.json"
    with closing(Claims(out / ".hyperslab" / CLAIMS)) as other, ThreadPoolExecutor(1) as beside:
        assert other.take("sub-1")

        def leave() -> None:
            try:
                await_that("the end of its own", manifest.exists)
            finally:
                other.give_back("sub-1")

        leaving = beside.submit(leave)
        options = Options(engine="serial", retries=0, resume=True, verb="bids", report=False)
        result = run_participants(select(home, Asked()), out, app, options)
        leaving.result()
    assert (result.tasks, result.done, result.ok) == (3, 2, False)
    assert [one.task for one in result.failures] == ["sub-10"]
    assert sorted(map(str, result.outputs)) == [str(out / name) for name in files_of(out)[1:]]
    assert progress(out) == ["2 of 3 tasks done; finish it with --resume"]


def test_outputs_that_are_gone_are_made_again(home: Path, out: Path, app: App) -> None:
    one_by_one(home, out, app, "1", "10")
    shutil.rmtree(out / "sub-1")
    one_by_one(home, out, app, "1")
    assert (out / "sub-1/anat/sub-1_copy.nii.gz").is_file()
    assert "2 of 2 outputs unchanged" in call("verify", out).out
