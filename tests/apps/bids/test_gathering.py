"""The group level of any app in a call of its own, as wrappers of BIDS Apps make it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.bids.earlier import Recorded
from hyperslab.apps.bids.gathering import require_done, run_group
from hyperslab.apps.bids.grouping import of_group
from hyperslab.apps.bids.running import Asked, Selection, run_participants, select
from hyperslab.apps.bids.template import group_words, template_app
from hyperslab.driver.directory import GATHERED, RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.driver.verification import verify
from hyperslab.errors import OutputBusy, UsageError
from hyperslab.plan.journal import Tail
from hyperslab.storage.recordfile import save_record
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_running import COPY, OF_WHOLE, call_front, files_of
from tests.system.end_to_end.command import call


def group(
    selection: Selection, out: Path, template: str, allow_missing: bool = False, **more: Any
) -> Result:
    task = of_group(selection, group_words(template, selection.root, str(out)))
    options = Options(engine="serial", report=False, retries=0, verb="bids", **more)
    return run_group(selection, out, task, options, require_done, allow_missing=allow_missing)


def gathered(
    selection: Selection, out: Path, template: str, allow_missing: bool = False
) -> list[str]:
    """Names of what a group level has made, which ends well."""
    result = group(selection, out, template, allow_missing)
    assert result.ok, result.failures
    outcomes = Tail(result.folder).poll()
    done = [one for one in outcomes if one.status == "done"]
    return sorted(written.path for one in done for written in one.outputs)


def why(result: Result) -> str:
    (failure,) = result.failures
    assert failure.task == "group"
    return failure.message


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
    assert group.out.startswith(f"group      1 file in {out}\n")
    assert (out / "all.txt").read_text() == "head\nhead\n"
    assert "ended      exit 0" in call("logs", out, "group").out


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
    told = [one for one in logged(RunDirectory(out)) if one.label == "group"]
    assert told[-1].printed() == b"said\n"
    assert [one.problem for one in verify(RunDirectory(out)) if one.problem] == []


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo half > {out}/all; echo no group today; exit 4", "exit status 4: no group today"),
        ("echo {out}", "has written nothing to {out}"),
        ("cp -r {results}/sub-1 {out}", "has written sub-1/anat/sub-1_copy.nii.gz already"),
        ("mkdir {out}/.hyperslab; echo x > {out}/.hyperslab/x", "records of runs have this name"),
    ],
)
def test_what_ends_badly_leaves_all_as_it_was(
    done: tuple[Selection, Path], script: str, sentence: str
) -> None:
    selection, out = done
    before = {name: (out / name).read_bytes() for name in files_of(out)}
    assert sentence in why(group(selection, out, f"sh -c '{script}'"))
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
    assert "0.2 s" in why(group(selection, out, "sh -c 'sleep 60'", task_timeout=0.2))


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


def test_a_group_level_by_itself_is_a_run(done: tuple[Selection, Path]) -> None:
    """On any engine, with attempts, times and records, as the group level of both."""
    selection, out = done
    once = "sh -c 'test -e {bids_dir}/tried || { touch {bids_dir}/tried; exit 3; }; ls > {out}/x'"
    task = of_group(selection, group_words(once, selection.root, str(out)))
    options = Options(engine="threads", workers=1, threads=2, retries=1, verb="bids")
    result = run_group(selection, out, task, options, require_done)
    assert result.ok, result.failures
    assert (result.folder / "report.html").is_file()
    ends = [(one.attempt, one.ran.status) for one in logged(RunDirectory(out))[-2:]]
    assert ends == [(0, 3), (1, 0)]
    assert "compute" in {span.kind for span in result.trace.spans}


def test_it_is_done_again_when_it_is_asked_for(done: tuple[Selection, Path]) -> None:
    """As what is there beside results of runs may have changed."""
    selection, out = done
    words = "sh -c 'cat {bids_dir}/beside > {out}/seen'"
    for text in ("one", "other"):
        (Path(selection.root) / "beside").write_text(text)
        assert gathered(selection, out, words) == ["seen"]
        assert (out / "seen").read_text() == text


def test_participants_and_both_levels_go_on_with_it(done: tuple[Selection, Path]) -> None:
    """What it has made is no result of theirs, and another group level takes its place."""
    selection, out = done
    assert gathered(selection, out, "sh -c 'ls {results} > {out}/names'") == ["names"]
    options = Options(engine="serial", report=False, resume=True)
    make(Path(selection.root), t1w("1"), content=b"another head\n")
    assert run_participants(selection, out, template_app(COPY), options).ok
    words = group_words("sh -c 'cat {results}/sub-*/*/* > {out}/all'", selection.root, str(out))
    then = (of_group(selection, words),)
    assert run_participants(selection, out, template_app(COPY), options, then=then).ok
    assert (out / "all").read_text() == "another head\nhead\n"
    assert not (out / "names").exists()
    assert gathered(selection, out, "sh -c 'ls {results} > {out}/names'") == ["names"]
    assert not (out / "all").exists()


def test_both_levels_after_somebody_was_done_again(done: tuple[Selection, Path]) -> None:
    """By another call: the group level is done again, whoever is asked for."""
    selection, out = done
    options = Options(engine="serial", report=False, resume=True)
    words = group_words("sh -c 'cat {results}/sub-*/*/* > {out}/all'", selection.root, str(out))
    app = template_app(COPY)

    def both(asked: Asked) -> int:
        chosen = select(selection.root, asked)
        then = (of_group(chosen, words),)
        result = run_participants(chosen, out, app, options, then=then)
        assert result.ok, result.failures
        return sum(one.status == "done" for one in Tail(result.folder).poll())

    assert both(Asked()) == 1
    assert both(Asked()) == 0
    make(Path(selection.root), t1w("1"), content=b"another head\n")
    one = select(selection.root, Asked(("1",)))
    assert run_participants(one, out, app, options).ok
    assert both(Asked(("10",))) == 1
    assert (out / "all").read_text() == "another head\nhead\n"
    assert both(Asked()) == 0


def test_results_that_no_run_has_made(done: tuple[Selection, Path], tmp_path: Path) -> None:
    """They were copied, for example; a file of theirs is not replaced."""
    selection, out = done
    copy = tmp_path / "copy"
    shutil.copytree(out, copy, ignore=shutil.ignore_patterns(".hyperslab"))
    for _ in range(2):
        assert gathered(selection, copy, "sh -c 'ls {results} > {out}/names'") == ["names"]
    taken = group(selection, copy, "sh -c 'mkdir {out}/sub-1 && cp -r {results}/sub-1 {out}'")
    assert "no run has written it: move it away" in why(taken)


def test_what_an_earlier_version_has_gathered_is_replaced(done: tuple[Selection, Path]) -> None:
    selection, out = done
    for name in ("names", "gone"):
        (out / name).write_text("before")
    save_record(out / ".hyperslab" / GATHERED, {"files": ["gone", "names"]})
    assert gathered(selection, out, "sh -c 'ls {results} > {out}/names'") == ["names"]
    assert (out / "names").read_text() != "before"
    assert not (out / "gone").exists()


COUNT = "sh -c 'ls {results} > {out}/names'"


def done_anew(selection: Selection, out: Path) -> int:
    """How many participants a call does again who were done."""
    options = Options(engine="serial", report=False, resume=True, verb="bids")
    result = run_participants(selection, out, template_app(COPY), options)
    assert result.ok, result.failures
    return sum(one.status == "done" for one in Tail(result.folder).poll())


@pytest.mark.parametrize("content", [None, b"cut"])
def test_results_that_are_gone_for_a_while(
    done: tuple[Selection, Path], content: bytes | None
) -> None:
    """They are told before anything runs, and count again when they are back."""
    selection, out = done
    path = out / "sub-1/anat/sub-1_copy.nii.gz"
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"has no result of sub-1 \(whose files are gone, or not"):
        group(selection, out, COUNT)
    assert not (out / "names").exists()
    others = select(selection.root, Asked(("10",)))
    assert gathered(others, out, COUNT) == ["names"]
    assert gathered(selection, out, COUNT, allow_missing=True) == ["names"]
    path.write_bytes(before)
    assert gathered(selection, out, COUNT) == ["names"]
    assert done_anew(selection, out) == 0
    path.unlink()
    assert done_anew(selection, out) == 1


def test_who_has_failed_and_is_found_done(tmp_path: Path) -> None:
    """As the image is again what it was: by who asks for it, and not by who leaves it alone."""
    home = make(tmp_path / "data", t1w("1"), t1w("2"), content=b"whole")
    image, out = home / t1w("1"), tmp_path / "out"
    then = image.stat().st_mtime_ns

    def run(*labels: str) -> Result:
        options = Options(engine="serial", report=False, retries=0, resume=True, verb="bids")
        selection = select(home, Asked(labels))
        return run_participants(selection, out, template_app(OF_WHOLE), options)

    assert run().ok
    image.write_bytes(b"other")
    assert [failure.task for failure in run().failures] == ["sub-1"]
    image.write_bytes(b"whole")
    os.utime(image, ns=(then, then))
    selection = select(home, Asked())
    assert run("2").done == 1
    for _ in range(2):
        with pytest.raises(UsageError, match=r"no result of sub-1 \(whose last attempt has failed"):
            gathered(selection, out, COUNT)
        assert gathered(selection, out, COUNT, allow_missing=True) == ["names"]
    assert call("logs", out).code == 1
    found = run()
    assert (found.done, len(Tail(found.folder).poll())) == (2, 0)
    assert call("logs", out).code == 0
    assert gathered(selection, out, COUNT) == ["names"]


def test_who_is_lacking_is_named(
    done: tuple[Selection, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they may be missing; without that, a dry run refuses as well."""
    selection, out = done
    (out / "sub-1/anat/sub-1_copy.nii.gz").unlink()
    words = ("group", "--group-app", COUNT, "--app", COPY, "--engine", "serial", "--no-report")
    make(Path(selection.root), t1w("2"))
    dry = call_front(Path(selection.root), out, *words, "--dry-run", capsys=capsys)
    named = "has no result of sub-1 (whose files are gone, or not as they were written), sub-2: run"
    assert (dry.code, named in dry.err) == (2, True), dry
    ran = call_front(Path(selection.root), out, *words, "--allow-missing", capsys=capsys)
    assert ran.code == 0, ran
    assert "lacking    sub-1 (whose files are gone, or not as they were written), sub-2" in ran.err
    assert ran.out.startswith(f"group      1 file in {out}\n")


KILLED = """
import os, sys
from hyperslab.cli import main

with open(sys.argv.pop(1), "w") as file:
    file.write(str(os.getpid()))
main()
"""
"The command, which writes down by which number it can be killed."


def test_a_session_that_no_run_came_to(tmp_path: Path) -> None:
    """As the run was killed that was to do it: nothing is recorded of it but that."""
    home = make(tmp_path / "data", t1w("1", "1"), t1w("1", "2"))
    out, number = tmp_path / "out", tmp_path / "number"
    other = f"test -e {out}/sub-1/ses-1/anat/sub-1_ses-1_x.nii.gz"
    kill = f"until {other}; do sleep 0.02; done; sleep 0.5; kill -9 $(cat {number}); sleep 60"
    app = f"sh -c 'test {{session}} = 1 || {{ {kill}; }}; cp {{t1w}} {{out}}/{{prefix}}_x.nii.gz'"
    words = ("bids", home, out, "participant", "--app", app, "--per", "session")
    line = [sys.executable, "-c", KILLED, number, *words, "--engine", "serial", "--no-report"]
    killed = subprocess.run(list(map(str, line)), capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    selection = select(home, Asked(per="session"))
    with pytest.raises(UsageError, match=r"has no result of sub-1 \(of some sessions\): run"):
        gathered(selection, out, COUNT)


def test_who_was_done_and_whom_no_run_came_to_again(tmp_path: Path) -> None:
    """What is there of them is of an earlier image."""
    home = make(tmp_path / "data", t1w("1"), t1w("2"), t1w("3"))
    out, number, kills = tmp_path / "out", tmp_path / "number", tmp_path / "kills"
    kill = f"kill -9 $(cat {number}); sleep 60"
    app = f"sh -c 'test ! -e {kills} || {{ {kill}; }}; cp {{t1w}} {{out}}/{{prefix}}_x.nii.gz'"
    words = ("bids", home, out, "participant", "--app", app, "--resume", "--engine", "serial")
    line = list(map(str, (sys.executable, "-c", KILLED, number, *words, "--no-report")))
    assert subprocess.run(line, capture_output=True, check=False).returncode == 0
    make(home, t1w("1"), t1w("3"), content=b"another image")
    kills.touch()
    assert subprocess.run(line, capture_output=True, check=False).returncode == -signal.SIGKILL
    selection = select(home, Asked())
    interrupted = "{} (whose last attempt has failed or was interrupted)"
    both = ", ".join(map(interrupted.format, ("sub-1", "sub-3")))
    with pytest.raises(UsageError, match=re.escape(f"has no result of {both}: run")):
        gathered(selection, out, COUNT)
    problems = [one.problem for one in verify(RunDirectory(out)) if one.problem]
    assert problems == ["1 of 3 tasks done; finish it with --resume"]
    assert gathered(selection, out, COUNT, allow_missing=True) == ["names"]
    kills.unlink()
    assert subprocess.run(line, capture_output=True, check=False).returncode == 0
    assert gathered(selection, out, COUNT) == ["names"]
    assert [one.problem for one in verify(RunDirectory(out)) if one.problem] == []


def test_places_that_no_group_level_may_write_to(done: tuple[Selection, Path]) -> None:
    selection, out = done
    with pytest.raises(UsageError, match=r"--keep-failed .*/failed: lies in OUT_DIR"):
        group(selection, out, COUNT, keep_failed=str(out / "failed"))
    with pytest.raises(UsageError, match="the dataset lies there"):
        group(selection, Path(selection.root), COUNT)
    file = out / "sub-1/anat/sub-1_copy.nii.gz"
    with pytest.raises(OutputBusy, match="is a file: give a directory"):
        group(selection, file, COUNT)


def test_what_was_left_goes_while_nobody_can_begin(done: tuple[Selection, Path]) -> None:
    """Else the containers of a call that begins meanwhile would go, too."""
    selection, out = done
    seen: list[bool] = []

    def tidy(_: str) -> None:
        seen.append(RunDirectory(out).is_owned())

    then = of_group(selection, group_words(COUNT, selection.root, str(out)))
    options = Options(engine="serial", report=False, verb="bids", resume=True)
    assert run_group(selection, out, then, options, require_done, tidy=tidy).ok
    app = template_app(COPY)
    assert run_participants(selection, out, app, options, then=(then,), tidy=tidy).ok
    assert seen == [True, True]


@pytest.mark.parametrize("level", ["group", "both"])
def test_what_an_earlier_version_has_gathered_is_replaced_once(
    done: tuple[Selection, Path], level: str
) -> None:
    """By the group level of either call; files of these names are somebody's from then on."""
    selection, out = done
    (out / "names").write_text("before")
    save_record(out / ".hyperslab" / GATHERED, {"files": ["names"]})
    if level == "group":
        assert gathered(selection, out, COUNT) == ["names"]
    else:
        then = (of_group(selection, group_words(COUNT, selection.root, str(out))),)
        options = Options(engine="serial", report=False, resume=True, verb="bids")
        result = run_participants(selection, out, template_app(COPY), options, then=then)
        assert result.ok, result.failures
    assert (out / "names").read_text() != "before"
    assert gathered(selection, out, "sh -c 'ls > {out}/other'") == ["other"]
    (out / "names").write_text("of somebody")
    assert "no run has written it: move it away" in why(group(selection, out, COUNT))
    assert (out / "names").read_text() == "of somebody"


def test_a_participant_who_was_tried_in_both_ways(tmp_path: Path) -> None:
    """Who has failed as a whole is done once all sessions are."""
    home = make(tmp_path / "data", t1w("1", "a"), t1w("1", "b"))
    selection = select(home, Asked())
    tried = {"sub-1": False, "sub-1_ses-a": True}
    for by_session in (tried, tried | {"sub-1_ses-b": False}):
        found = Recorded(by_session, (), frozenset(), frozenset(), "")
        with pytest.raises(UsageError, match=r"no result of sub-1 \(of some sessions\)"):
            require_done(selection, found, tmp_path)
    found = Recorded(tried | {"sub-1_ses-b": True}, (), frozenset(), frozenset(), "")
    require_done(selection, found, tmp_path)
    as_a_whole = {"sub-1_ses-a": False, "sub-1": True}
    require_done(selection, Recorded(as_a_whole, (), frozenset(), frozenset(), ""), tmp_path)
