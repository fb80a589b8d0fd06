"""The group level of any app in a call of its own, as wrappers of BIDS Apps make it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperslab.apps.bids.gathering import run_group_command
from hyperslab.apps.bids.running import Asked, Selection, run_participants, select
from hyperslab.apps.bids.template import group_words, template_app
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.errors import OutputBusy, RunStopped, UsageError
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_running import COPY, call_front, files_of
from tests.system.end_to_end.command import call


def gathered(
    selection: Selection, out: Path, template: str, allow_missing: bool = False
) -> list[str]:
    words = group_words(template, selection.root, str(out))
    return run_group_command(selection, out, words, allow_missing)


@pytest.fixture
def done(tmp_path: Path) -> tuple[Selection, Path]:
    """Two participants, of whom what an app makes is there, in folders that shells take apart."""
    home = make(tmp_path / "my {data}", t1w("1"), t1w("10"), content=b"head\n")
    selection = select(home, Asked())
    out = tmp_path / "made {out}"
    options = Options(engine="serial", report=False)
    assert run_participants(selection, out, template_app(COPY), options).ok
    return selection, out


def test_both_levels_by_two_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same words, as wrappers have them."""
    home = make(tmp_path / "data", t1w("1"), t1w("10"), content=b"head\n")
    out = tmp_path / "out"
    gather = "sh -c 'cat {results}/sub-*/anat/* > {out}/all.txt'"
    words = ("--app", COPY, "--group-app", gather, "--engine", "serial", "--no-report")
    refused = call_front(home, out, "group", *words, capsys=capsys)
    assert (refused.code, "has no result of sub-1, sub-10" in refused.err) == (2, True), refused
    assert not out.exists()
    assert call_front(home, out, "participant", *words, capsys=capsys).code == 0
    dry = call_front(home, out, "group", *words, "--dry-run", capsys=capsys)
    assert f"group      2 participants, of what is in {out}\n" in dry.out
    assert not (out / "all.txt").exists()
    group = call_front(home, out, "group", *words, capsys=capsys)
    assert group.code == 0, group
    assert group.out == f"group      1 file in {out}\n"
    assert (out / "all.txt").read_text() == "head\nhead\n"


def test_another_group_level_replaces_what_the_last_one_has_made(
    done: tuple[Selection, Path],
) -> None:
    selection, out = done
    before = files_of(out)
    copy = "mkdir {out}/tables && cp {results}/sub-1/anat/* {out}/tables/one && touch {work}/x"
    assert gathered(selection, out, f"sh -c '{copy}'") == ["tables/one"]
    assert (out / "tables/one").read_text() == "head\n"
    assert gathered(selection, out, "sh -c 'echo {bids_dir} > {out}/where; echo said'") == ["where"]
    assert (out / "where").read_text() == f"{selection.root}\n"
    assert files_of(out) == sorted([*before, "where"])
    assert (out / ".hyperslab/group.log").read_text().endswith("said\n")
    assert not (out / ".hyperslab/group").exists()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo half > {out}/all; echo no group today; exit 4", "exit status 4: no group today"),
        ("echo {out}", "has written nothing to {out}"),
        ("cp -r {results}/sub-1 {out}", "sub-1/anat/sub-1_copy.nii.gz, which is in .* already"),
        ("mkdir {out}/.hyperslab; echo x > {out}/.hyperslab/x", "records of runs have this name"),
    ],
)
def test_what_ends_badly_leaves_all_as_it_was(
    done: tuple[Selection, Path], script: str, sentence: str
) -> None:
    selection, out = done
    before = {name: (out / name).read_bytes() for name in files_of(out)}
    with pytest.raises(RunStopped, match=sentence):
        gathered(selection, out, f"sh -c '{script}'")
    assert {name: (out / name).read_bytes() for name in files_of(out)} == before


def test_what_a_group_level_has_made_is_removed_with_all_others(
    done: tuple[Selection, Path],
) -> None:
    """Another one would take it for a result of a participant."""
    selection, out = done
    gather = "sh -c 'mkdir {out}/tables && echo all > {out}/tables/all && echo x > {out}/x'"
    assert sorted(gathered(selection, out, gather)) == ["tables/all", "x"]
    assert call("clean", "--all", out).code == 0
    assert files_of(out) == ["dataset_description.json"]
    assert not (out / "tables").exists()
    options = Options(engine="serial", report=False, verb="bids")
    assert run_participants(selection, out, template_app(COPY), options).ok
    assert sorted(gathered(selection, out, gather)) == ["tables/all", "x"]


def test_participants_without_results(done: tuple[Selection, Path]) -> None:
    selection, out = done
    make(Path(selection.root), t1w("2"))
    more = select(selection.root, Asked())
    count = "sh -c 'ls {results} > {out}/names'"
    with pytest.raises(UsageError, match=r"has no result of sub-2: run .* with --allow-missing"):
        gathered(more, out, count)
    assert gathered(more, out, count, allow_missing=True) == ["names"]


def test_nobody_gathers_while_participants_are_worked_on(done: tuple[Selection, Path]) -> None:
    selection, out = done
    held = RunDirectory(out).share()
    with pytest.raises(OutputBusy, match="participants are being worked on there"):
        gathered(selection, out, "sh -c 'ls > {out}/names'")
    os.close(held)


def test_what_has_failed_of_somebody_is_missing(tmp_path: Path) -> None:
    """One of two sessions, though files are named for the participant."""
    home = make(tmp_path / "data", t1w("1", "1"), t1w("1", "2"), t1w("2", "1"))
    selection = select(home, Asked(per="session"))
    out = tmp_path / "out"
    app = template_app(
        "sh -c 'case {session} in 2) exit 3;; *) cp {t1w} {out}/{prefix}_x.nii.gz; esac'"
    )
    options = Options(engine="serial", report=False, retries=0)
    assert not run_participants(selection, out, app, options).ok
    count = "sh -c 'ls {results} > {out}/names'"
    with pytest.raises(UsageError, match=r"has no result of sub-1 \(of some sessions\): run"):
        gathered(selection, out, count)
    assert gathered(selection, out, count, allow_missing=True) == ["names"]


def test_records_are_read_once(
    done: tuple[Selection, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many participants there are, and whatever is asked of them."""
    selection, out = done
    polled = []
    poll = Tail.poll

    def counted(tail: Tail) -> list[Outcome]:
        polled.append(tail)
        return poll(tail)

    monkeypatch.setattr(Tail, "poll", counted)
    assert gathered(selection, out, "sh -c 'ls {results} > {out}/names'") == ["names"]
    assert len(polled) == 1


def test_who_has_no_images_is_not_missed(tmp_path: Path) -> None:
    """Nothing is to be done for them."""
    home = make(tmp_path / "data", t1w("1"), "sub-2/func/sub-2_task-rest_bold.nii.gz")
    selection = select(home, Asked())
    out = tmp_path / "out"
    options = Options(engine="serial", report=False)
    assert run_participants(selection, out, template_app(COPY), options).ok
    assert gathered(selection, out, "sh -c 'ls {results} > {out}/names'") == ["names"]


def test_a_group_level_ends_in_time(done: tuple[Selection, Path]) -> None:
    selection, out = done
    words = group_words("sh -c 'sleep 60'", selection.root, str(out))
    with pytest.raises(RunStopped, match=r"0\.2 s"):
        run_group_command(selection, out, words, limit_s=0.2)


def test_tables_that_an_app_does_not_read_may_be_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = make(tmp_path / "data", t1w("1"))
    (home / "participants.tsv").write_text("participant_id\tage\nsub-1\t1\nsub-1\t2\n")
    words = ("participant", "--engine", "serial", "--no-report")
    copied = call_front(home, tmp_path / "out", *words, "--app", COPY, capsys=capsys)
    assert copied.code == 0, copied
    refused = call_front(home, tmp_path / "brains", *words, capsys=capsys)
    assert (refused.code, "participants.tsv" in refused.err) != (0, True), refused
