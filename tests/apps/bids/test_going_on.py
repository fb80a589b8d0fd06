"""Calls one after the other into the same directory, as wrappers of BIDS Apps make them: each adds
to what the others have made.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from hyperslab.apps.bids import app as apps
from hyperslab.apps.bids import wanted
from hyperslab.apps.bids.dataset import Participant, Session, sessions
from hyperslab.errors import FormatError
from hyperslab.plan import commanded
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.heads import two_millimetres
from tests.apps.bids.test_running import COPY, call_front, files_of
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.command import await_recorded, await_that, running

FAILS = "sh -c 'test {participant} != 10 && cp {t1w} {out}/{prefix}_copy.nii.gz'"

COPY_UNLESS = "sh -c 'test ! -e {} && cp {{t1w}} {{out}}/{{prefix}}_copy.nii.gz'"


class Calls:
    """Calls of hyperslab-bids, as a wrapper has them."""

    def __init__(self, home: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._home = home
        self._out = out
        self._capsys = capsys

    def __call__(self, *words: object, app: str = COPY) -> Finished:
        last = ("--app", app, "--engine", "serial", "--retries", 0, "--no-report")
        where = (self._home, self._out, "participant")
        return call_front(*where, *words, *last, capsys=self._capsys)

    def content(self, name: str) -> bytes:
        return (self._out / name).read_bytes()

    def made(self) -> list[str]:
        """Results by the labels in their names."""
        names = [name for name in files_of(self._out) if name.startswith("sub-")]
        return [Path(name).name.removesuffix("_copy.nii.gz") for name in names]


@pytest.fixture
def calls(home: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(home, out, capsys)


def test_one_session_after_the_other(calls: Calls, out: Path) -> None:
    for label in "ab":
        done = calls("--participant-label", 2, "--session-label", label)
        assert done.code == 0, done
    assert calls.made() == ["sub-2_ses-a", "sub-2_ses-b"]
    assert calls("--participant-label", 1).code == 0
    assert calls.made() == ["sub-1", "sub-2_ses-a", "sub-2_ses-b"]
    listed = json.loads(call("logs", out, "--json").out)
    assert sorted(one["task"] for one in listed) == calls.made()
    refused = calls("--participant-label", 2)
    assert (refused.code, "sub-2 is done there by sessions" in refused.err) == (2, True)
    assert calls("--per", "session").code == 0
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]


def test_a_session_of_a_participant_who_is_done(calls: Calls) -> None:
    assert calls("--participant-label", 2).code == 0
    refused = calls("--participant-label", 2, "--session-label", "a")
    assert refused.code == 2
    assert "sub-2 is done there as a whole, with all sessions" in refused.err
    assert calls.made() == ["sub-2_ses-a", "sub-2_ses-b"]


def test_who_is_done_in_the_other_way_stops_nobody_else(calls: Calls, out: Path) -> None:
    assert calls("--participant-label", 2, "--session-label", "a").code == 0
    foretold = calls("--dry-run")
    done = calls()
    why = f"sub-2: {out}: sub-2 is done there by sessions: add --per session"
    for told in (foretold.out, done.err):
        assert f"fails {why}" in " ".join(told.split())
    assert done.code == 1
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a"]
    aside = (out / "sub-2").rename(out / "aside")
    assert re.search(r"wrong: sub-2/ses-a/\S+: missing", call("verify", out).out)
    aside.rename(out / "sub-2")
    assert calls("--per", "session").code == 0
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]


def test_a_group_level_lacks_who_is_done_in_the_other_way(
    home: Path, out: Path, calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calls("--participant-label", 2, "--session-label", "a").code == 0
    both = ("both", "--app", COPY, "--group-app", "cp -r {results}/sub-2 {out}/all")
    done = call_front(home, out, *both, "--engine", "serial", "--no-report", capsys=capsys)
    assert (done.code, "sub-2 is done there by sessions" in done.err) == (1, True)
    assert not (out / "all").exists()
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a"]


def test_a_group_level_lacks_who_has_failed_since(
    home: Path, out: Path, calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is there of them is of an earlier image."""
    app = COPY_UNLESS.format(tmp_path / "broken")
    assert calls(app=app).code == 0
    (tmp_path / "broken").touch()
    make(home, t1w("1"), content=b"another image")
    words = ("--app", app, "--group-app", "cp -r {results}/sub-1 {out}/all", "--allow-missing")
    more = ("--engine", "serial", "--retries", 0, "--no-report")
    done = call_front(home, out, "both", *words, *more, "--keep-going", capsys=capsys)
    assert (done.code, "lacking    sub-1: the group level finds" in done.err) == (1, True), done
    group = (home, out, "group", *words[:-1], *more)
    for one in ((), ("--participant-label", 1)):
        refused = call_front(*group, *one, capsys=capsys)
        assert refused.code == 2
        assert (
            "has no result of sub-1 (whose last attempt has failed or was interrupted): run"
            in refused.err
        )
    left_out = call_front(*group, "--allow-missing", capsys=capsys)
    assert left_out.code == 0
    assert (
        "lacking    sub-1 (whose last attempt has failed or was interrupted): the group"
        in left_out.err
    )


def test_other_images_of_participants_who_are_done(calls: Calls, tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    first.write_text('{"t1w": {"session": "a"}}')
    assert calls("--bids-filter-file", first).code == 0
    other = tmp_path / "other.json"
    other.write_text('{"t1w": {"session": "b"}}')
    refused = calls("--bids-filter-file", other)
    assert (refused.code, "differs in the command" in refused.err) == (2, True)
    assert calls.made() == ["sub-2_ses-a"]


def test_another_app(calls: Calls) -> None:
    """It would take the place of all results, also of participants whom nobody has asked for."""
    assert calls().code == 0
    refused = calls("--participant-label", 1, app=COPY.replace("_copy", "_other"))
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert f"differs in the command, which was '{COPY}'" in said
    assert "choose another output, or remove them with 'hyperslab clean --all" in said
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]


def test_another_dataset(
    calls: Calls, home: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its participants are others, whatever their labels are; one that has moved is the same."""
    assert calls("--participant-label", 1).code == 0
    other = make(tmp_path / "other", t1w("1"), t1w("3"), content=b"of somebody else")
    elsewhere = Calls(other, out, capsys)
    refused = elsewhere()
    said = " ".join(refused.err.split())
    assert (refused.code, f"a run that differs in the dataset, which was '{home}'" in said) == (
        2,
        True,
    )
    assert f"add --moved-from {home} where it is the same one at another path" in said
    assert calls.made() == ["sub-1"]
    group = ("group", "--app", COPY, "--group-app", "cp -r {results}/sub-1 {out}/all")
    refused = call_front(other, out, *group, "--participant-label", 1, capsys=capsys)
    said = " ".join(refused.err.split())
    assert (refused.code, f"results of another dataset, {home}:" in said) == (2, True), refused
    moved = ("--moved-from", home)
    assert elsewhere("--participant-label", 3, *moved).code == 0
    assert call_front(other, out, *group, *moved, capsys=capsys).code == 0
    assert calls("--participant-label", 10).code == 0
    assert calls.made() == ["sub-1", "sub-10", "sub-3"]


def test_a_link_to_the_dataset(
    calls: Calls, home: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calls("--participant-label", 1).code == 0
    link = tmp_path / "link"
    link.symlink_to(home)
    assert Calls(link, out, capsys)("--participant-label", 10).code == 0


def test_what_a_failed_participant_leaves(calls: Calls, out: Path, tmp_path: Path) -> None:
    """Not among the results."""
    crashes = "sh -c 'echo trace > {out}/crash.txt; exit 3'"
    words = ("--participant-label", 1, "--keep-failed")
    refused = calls(*words, out / "failed", app=crashes)
    assert (refused.code, "lies in OUT_DIR" in refused.err) == (2, True)
    assert calls(*words, tmp_path / "failed", app=crashes).code == 1
    (crash,) = (tmp_path / "failed").rglob("crash.txt")
    assert crash.relative_to(tmp_path / "failed").parts[0] == "sub-1"
    assert crash.read_text() == "trace\n"


def test_who_is_left_out(calls: Calls, home: Path) -> None:
    """He is not looked at, whatever is wrong with him."""
    make(home, "sub-3/anat/sub-30_T1w.nii.gz")
    refused = calls("--exclude-participant-label", "4")
    said = "--exclude-participant-label: the dataset has no sub-4"
    assert (refused.code, said in refused.err) == (2, True), refused
    refused = calls("--participant-label", 1, "--exclude-participant-label", 1)
    assert (refused.code, "leaves nobody" in refused.err) == (2, True), refused
    done = calls("--exclude-participant-label", "sub-3", 10, "--exclude_participant_label", 2)
    assert (done.code, "sub-30" in done.err) == (0, False), done
    assert calls.made() == ["sub-1"]


def test_a_link_of_one_participant_that_leads_nowhere(calls: Calls, home: Path) -> None:
    """His command fails, and those of others do not; it is done once the link leads somewhere."""
    image = home / t1w("10")
    image.unlink()
    image.symlink_to(home.parent / "gone")
    failed = calls("--keep-going")
    assert (failed.code, "failed: sub-10" in failed.err) == (1, True), failed
    assert calls.made() == ["sub-1", "sub-2_ses-a", "sub-2_ses-b"]
    (home.parent / "gone").write_bytes(b"found")
    assert calls().code == 0
    assert calls.content("sub-10/anat/sub-10_copy.nii.gz") == b"found"


def test_a_participant_whose_files_are_misnamed(
    calls: Calls, home: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """His task fails, and says why; those of others do not. Where nobody else is asked for, nothing
    begins.
    """
    misnamed = home / "sub-10/anat/sub-1_T1w.nii.gz"
    make(home, "sub-10/anat/sub-1_T1w.nii.gz")
    sentence = f"{misnamed}: is named for sub-1 but lies with files of sub-10"
    alone = calls("--participant-label", 10)
    assert (alone.code, sentence in alone.err) == (1, True), alone
    assert not out.exists()
    failed = calls("--keep-going")
    assert failed.code == 1
    assert f"fails      sub-10: {sentence}" in failed.err
    assert "1 of 3 tasks failed" in failed.err
    assert calls.made() == ["sub-1", "sub-2_ses-a", "sub-2_ses-b"]
    group = (home, out, "group", "--group-app", "sh -c 'ls {results} > {out}/x'", "--app", COPY)
    refused = call_front(*group, capsys=capsys)
    assert (refused.code, "has no result of sub-10" in refused.err) == (2, True), refused
    dry = calls("--dry-run")
    assert f"fails      sub-10: {sentence}" in dry.out
    misnamed.unlink()
    assert calls().code == 0
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]


@pytest.mark.parametrize("folder", ["sub-10", "sub-10/anat"])
def test_a_participant_whose_folder_cannot_be_listed(
    calls: Calls, home: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def closed(path: Any = ".") -> Any:
        if path == str(home / folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", closed)
    failed = calls("--keep-going")
    assert failed.code == 1
    assert f"fails      sub-10: {home / folder}: cannot be listed (Permission denied)" in failed.err
    assert calls.made() == ["sub-1", "sub-2_ses-a", "sub-2_ses-b"]
    by_session = calls("--keep-going", "--session-label", "a", "--dry-run")
    assert ("sub-10: " in by_session.out) == (folder == "sub-10")


def test_a_fault_of_a_participant_who_is_done_by_sessions(
    calls: Calls, home: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops no others, though nobody can say which sessions there are."""
    assert calls("--session-label", "a", "b").code == 0

    def closed(participant: Participant) -> list[Session]:
        if participant.label == "2":
            raise FormatError(f"{participant.folder}: cannot be listed")
        return sessions(participant)

    monkeypatch.setattr(wanted, "sessions", closed)
    make(home, t1w("3", "a"))
    failed = calls("--keep-going", "--session-label", "a")
    assert (failed.code, "failed: sub-2" in failed.err) == (1, True), failed
    assert calls.made() == ["sub-2_ses-a", "sub-2_ses-b", "sub-3_ses-a"]


def test_folders_are_listed_once_for_each_purpose(
    home: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the driver, for an app that takes no images by name: to find images, to see what is here,
    and to know its state.
    """
    listed: Counter[object] = Counter()
    real = os.scandir

    def counted(path: Any = ".") -> Any:
        listed[path] += 1
        return real(path)

    monkeypatch.setattr(os, "scandir", counted)
    app = ("--app", "touch {out}/{prefix}.txt", "--no-report")
    one = ("participant", "--engine", "processes", "--nprocs", 1)
    done = call_front(home, out, *one, *app, capsys=capsys)
    assert done.code == 0, done
    assert listed[str(home / "sub-1" / "anat")] == 3


def test_a_directory_of_an_earlier_version_that_recorded_no_dataset(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command is refused for being that, and not for a dataset of which nothing is
    known.
    """
    monkeypatch.setattr(commanded, "_of_origin", lambda _: {})
    assert calls("--participant-label", 1).code == 0
    monkeypatch.undo()
    refused = calls("--participant-label", 1, app=FAILS)
    said = " ".join(refused.err.split())
    assert f"a run that differs in the command, which was '{COPY}';" in said
    assert calls("--participant-label", 10).code == 0


def test_lines_that_an_earlier_version_took_for_a_result(
    calls: Calls, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are added to by others, which neither damages them nor repeats who has written them."""
    top = "$(dirname $(dirname {out}))"
    app = f"sh -c 'echo own > {top}/.bidsignore; cp {{t1w}} {{out}}/{{prefix}}_copy.nii.gz'"
    monkeypatch.setattr(apps, "names_of", lambda _: ())
    assert calls("--participant-label", 1, app=app).code == 0
    monkeypatch.undo()
    again = calls("--participant-label", 1, app=app)
    assert (again.code, "0 tasks in" in again.out) == (0, True), again
    assert "own" in (out / ".bidsignore").read_text().split()
    verified = call("verify", out)
    assert (verified.code, "1 of 1 output unchanged" in verified.out) == (0, True), verified


def test_the_failure_of_another_participant(calls: Calls, home: Path, out: Path) -> None:
    assert calls("--keep-going", app=FAILS).code == 1
    made = ["sub-1", "sub-2_ses-a", "sub-2_ses-b"]
    make(home, t1w("3"))
    again = calls("--participant-label", 3, app=FAILS)
    assert again.code == 0, again
    assert calls.made() == [*made, "sub-3"]
    failed = calls("--participant-label", 10, app=FAILS)
    assert (failed.code, "sub-10" in failed.err) == (1, True)
    listed = json.loads(call("logs", out, "--json").out)
    assert [one["task"] for one in listed].count("sub-10") == 2


def test_images_of_others_that_have_changed_or_are_gone(
    calls: Calls, home: Path, tmp_path: Path
) -> None:
    """As those of datalad, which are fetched and dropped around each call."""
    assert calls("--participant-label", 1, 10).code == 0
    make(home, t1w("1"), content=b"another")
    away = (home / t1w("10")).rename(tmp_path / "away")
    (home / t1w("10")).symlink_to("../.git/annex/objects/none")
    done = calls("--participant-label", 2)
    assert done.code == 0, done
    assert calls.content("sub-1/anat/sub-1_copy.nii.gz") == b"not looked at"
    assert calls("--participant-label", 1).code == 0
    assert calls.content("sub-1/anat/sub-1_copy.nii.gz") == b"another"
    away.rename(home / t1w("10"))
    assert "0 tasks in" in calls("--participant-label", 1, 10).out
    assert calls.made() == ["sub-1", "sub-10", "sub-2_ses-a", "sub-2_ses-b"]


def test_brains_after_the_driver_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it had done stays as it is; nothing else is there, and no process goes on."""
    head = two_millimetres(tmp_path).path
    home, out = tmp_path / "heads", tmp_path / "out"
    for label in "12":
        image = home / t1w(label).removesuffix(".gz")
        image.parent.mkdir(parents=True)
        image.symlink_to(head)
    line = (home, out, "participant", "--brain-extractor", "builtin", "--engine", "serial")
    with running("bids", *line, "--no-report", environment=_second_held(tmp_path)) as run:
        await_recorded(run, out, 1)
        await_that("the next brain", lambda: _programs(home))
        run.send(signal.SIGKILL)
        run.wait()
    await_that("the end of programs", lambda: not _programs(home))
    before = {name: (out / name).stat().st_mtime_ns for name in files_of(out)}
    assert {name.partition("/")[0] for name in before} == {"sub-1"}
    done = call_front(*line, "--no-report", capsys=capsys)
    assert done.code == 0, done
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    masks = {path.read_bytes() for path in out.rglob("*_mask.nii.gz")}
    assert len(masks) == 1
    assert "10 of 10 outputs unchanged" in call("verify", out).out


HELD = """
import os, sys, time

while any("sub-2" in word for word in sys.orig_argv) and os.path.exists({hold!r}):
    time.sleep(0.01)
"""
"What Python runs at its start: the program over the second head waits."


def _second_held(tmp_path: Path) -> dict[str, str]:
    """The environment of a run that stays at its second head."""
    hold = tmp_path / "hold"
    hold.touch()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(HELD.format(hold=str(hold)))
    return {"PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}"}


def _programs(home: Path) -> list[int]:
    """Extractions of brains under way."""
    found = psutil.process_iter(["cmdline"])
    lines = {process.pid: " ".join(process.info["cmdline"] or ()) for process in found}
    return [pid for pid, line in lines.items() if "apps.bids.brain " in line and str(home) in line]
