"""Calls one after the other into the same directory, as wrappers of BIDS Apps make them: each adds
to what the others have made.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.heads import two_millimetres
from tests.apps.bids.test_running import COPY, call_front, files_of
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.command import await_recorded, await_that, running

FAILS = "sh -c 'test {participant} != 10 && cp {t1w} {out}/{prefix}_copy.nii.gz'"


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
    refused = calls()
    assert (refused.code, "is named for sub-30 but lies" in refused.err) == (1, True), refused
    refused = calls("--exclude-participant-label", "4")
    said = "--exclude-participant-label: the dataset has no sub-4"
    assert (refused.code, said in refused.err) == (2, True), refused
    refused = calls("--participant-label", 1, "--exclude-participant-label", 1)
    assert (refused.code, "leaves nobody" in refused.err) == (2, True), refused
    done = calls("--exclude-participant-label", "sub-3", 10, "--exclude_participant_label", 2)
    assert done.code == 0, done
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
