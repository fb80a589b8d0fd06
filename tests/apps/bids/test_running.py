"""Datasets run as a user runs them, by both command lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import pytest

from hyperslab.cli import bids_front
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.heads import two_millimetres
from tests.storage.tiers.test_looking import mounted
from tests.system.clusters import mpi
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ROOT, Finished, call, values_of

COPY = "cp {t1w} {out}/{prefix}_copy.nii.gz"
OF_WHOLE = "sh -c 'grep --quiet whole {t1w} && cp {t1w} {out}/{prefix}_copy.nii.gz'"

DRAWING = """
import os

def draw(images, out):
    for name in ("a #b%41 é?&<x>.png".encode(), b"\\xff.png"):
        with open(os.path.join(os.fsencode(out), name), "wb") as file:
            file.write(b"a picture")
"""


def call_front(*arguments: object, capsys: pytest.CaptureFixture[str]) -> Finished:
    """Run `hyperslab-bids` in this process."""
    with pytest.raises(SystemExit) as end:
        bids_front.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return Finished(int(end.value.code or 0), said.out, said.err)


def files_of(out: Path) -> list[str]:
    paths = (path.relative_to(out) for path in out.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if not path.parts[0].startswith("."))


def test_a_dataset_on_several_engines(tmp_path: Path) -> None:
    """Those of one host; brains of a real head are compared on others, too: test_engines.py."""
    required("" if shutil.which("parallel") else "there is no GNU Parallel here")
    required(mpi.missing())
    home = make(tmp_path / "my data", t1w("1"), t1w("10", "a"), t1w("10", "b"), content=b"x" * 9)
    made = {}
    for engine in ("serial", "threads", "processes", "dask-futures", "gnu-parallel", "mpi"):
        out = tmp_path / engine
        line = ("bids", home, out, "participant", "--app", COPY, "--no-report")
        done = call(*line, "--engine", engine)
        assert done.code == 0, done
        gather = "sh -c 'cat {results}/sub-*/anat/* {results}/sub-*/*/anat/* > {out}/all'"
        together = call("bids", home, out, "group", "--group-app", gather, "--engine", engine)
        assert together.code == 0, together
        made[engine] = {name: (out / name).read_bytes() for name in files_of(out)}
    assert all(files == made["serial"] for files in made.values())
    assert made["serial"]["all"] == b"x" * 27
    assert list(made["serial"]) == [
        "all",
        "dataset_description.json",
        "sub-1/anat/sub-1_copy.nii.gz",
        "sub-10/ses-a/anat/sub-10_ses-a_copy.nii.gz",
        "sub-10/ses-b/anat/sub-10_ses-b_copy.nii.gz",
    ]
    assert "sub-10" in call("logs", tmp_path / "threads").out
    said = json.loads(made["serial"]["dataset_description.json"])
    assert said["GeneratedBy"][0]["Name"] == "hyperslab"
    assert said["GeneratedBy"][1] == {"Name": "cp", "Description": COPY}
    assert said["SourceDatasets"] == [{"URL": home.as_uri()}]


def test_a_participant_that_fails_stops_no_other_one(tmp_path: Path) -> None:
    home = make(tmp_path / "data", t1w("1"), t1w("2"), content=b"whole")
    make(home, t1w("10"), content=b"cut short")
    out = tmp_path / "out"
    line = ("bids", home, out, "participant", "--engine", "threads", "--app", OF_WHOLE)
    done = call(*line, "--retries", "0", "--keep-going")
    assert done.code == 1
    assert "sub-10" in done.err
    assert "1 of 3 tasks failed" in done.err
    assert files_of(out) == [
        "dataset_description.json",
        "sub-1/anat/sub-1_copy.nii.gz",
        "sub-2/anat/sub-2_copy.nii.gz",
    ]
    make(home, t1w("10"), content=b"whole")
    again = call(*line, "--resume")
    assert again.code == 0, again
    assert "sub-10/anat/sub-10_copy.nii.gz" in files_of(out)


def test_the_brains_of_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A head of 2 mm, a file cut short, and a participant without a T1-weighted image."""
    home = tmp_path / "data"
    head = two_millimetres(tmp_path).path
    make(home, t1w("2"), "sub-3/anat/sub-3_T2w.nii", content=b"\x1f\x8b")
    for label in ("1", "10"):
        image = home / t1w(label).replace(".gz", "")
        image.parent.mkdir(parents=True)
        image.symlink_to(head)
    table = "participant_id\tsite\nsub-1\tA\nsub-10\tB\nsub-2\tB\nsub-3\tB\n"
    (home / "participants.tsv").write_text(table)
    out = tmp_path / "out"
    level = (home, out, "participant", "--brain-extractor", "builtin", "--retries", "0")
    done = call_front(*level, "--nprocs", 2, "--keep-going", capsys=capsys)
    assert done.code == 1
    assert "left out   sub-3: no image that is wanted" in done.err
    assert "sub-2" in done.err
    mask = values_of(out / "sub-10/anat/sub-10_desc-brain_mask.nii.gz")
    assert set(mask.ravel().tolist()) == {0, 1}
    said = json.loads((out / "dataset_description.json").read_text())
    assert "not for science" in said["GeneratedBy"][1]["Name"]
    refused = call_front(home, out, "group", capsys=capsys)
    assert refused.code == 2
    assert "has no result of sub-2: run the participant level for them first" in refused.err
    group = call_front(home, out, "group", "--allow-missing", capsys=capsys)
    assert group.code == 0
    assert "of 2 participants in 2 images\nleft out   sub-2\n" in group.out
    rows = (out / "group_brain_volumes_by_site.tsv").read_text().splitlines()
    assert [row.split("\t")[:3] for row in rows[1:]] == [["A", "1", "1"], ["B", "1", "1"]]
    only = call_front(home, out, "group", "--participant_label", "sub-1", "10", capsys=capsys)
    assert only.code == 0


def test_both_levels_in_one_run(tmp_path: Path) -> None:
    """Without a participant who has failed, as that is asked for."""
    head = two_millimetres(tmp_path).path
    home = make(tmp_path / "data", t1w("2"), content=b"\x1f\x8b")
    image = home / t1w("1").replace(".gz", "")
    image.parent.mkdir(parents=True)
    image.symlink_to(head)
    out = tmp_path / "out"
    line = ("bids", home, out, "both", "--brain-extractor", "builtin", "--engine", "threads")
    done = call(*line, "--allow-missing", "--keep-going", "--retries", 0)
    assert (done.code, "failed: sub-2" in done.err) == (1, True), done
    assert "of 1 participant in 1 image\nleft out   sub-2\ntables     " in done.out
    rows = (out / "group_brain_volumes.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in rows] == ["participant_id", "sub-1"]
    page = (out / ".hyperslab/run-0001/report.html").read_text()
    assert '<p class="answer">1 of 3 tasks failed: ' in page
    assert "1 of 3 tasks failed" in done.out
    assert ">barrier<" in page
    assert '"group"' in page
    (address,) = re.findall(r'<img loading="lazy"[^>]* src="([^"]+)"', page)
    assert (out / ".bidsignore").read_text().split() == ["group_*", "figures"]
    picture = out / ".hyperslab/run-0001" / unquote(address)
    assert picture.resolve() == out / "sub-1/figures/sub-1_desc-brain_mask.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "mean brain volume" in call("logs", out, "group").out


def test_pictures_whose_names_are_no_addresses(tmp_path: Path) -> None:
    """On a page elsewhere, too; and of a name whose bytes are no letters."""
    home = make(tmp_path / "data é", t1w("1"))
    out = tmp_path / "of #1%20"
    (tmp_path / "mine.py").write_text(DRAWING)
    app = ("--app", f"{tmp_path}/mine.py:draw", "--engine", "serial")
    assert call("bids", home, out, "participant", *app).code == 0
    made = out / ".hyperslab/run-0001"
    elsewhere = tmp_path / "elsewhere/page.html"
    elsewhere.parent.mkdir()
    assert call("report", made, "-o", elsewhere).code == 0
    for page in (made / "report.html", elsewhere):
        found = re.findall(r'<img loading="lazy"[^>]* src="([^"]+)"', page.read_text())
        paths = [os.path.join(os.fsencode(page.parent), unquote_to_bytes(one)) for one in found]
        assert {os.path.basename(path) for path in paths} == {
            "a #b%41 é?&<x>.png".encode(),
            b"\xff.png",
        }
        assert all(map(os.path.isfile, paths))


def test_both_levels_of_a_command(tmp_path: Path) -> None:
    """The values of a script are quoted, and braces in folders stand for nothing. What it reads is
    a dataset of derivatives by then.
    """
    home = make(tmp_path / "my {out}", t1w("1"), t1w("10"), content=b"x" * 9)
    out = tmp_path / "made {results}"
    gather = (
        "sh -c 'cat {results}/sub-*/anat/* > {out}/all.txt && echo {bids_dir}"
        " && cp {results}/dataset_description.json {out}/found.json'"
    )
    line = ("bids", home, out, "both", "--app", COPY, "--engine", "serial", "--no-report")
    done = call(*line, "--group-app", gather)
    assert done.code == 0, done
    assert (out / "all.txt").read_bytes() == b"x" * 18
    assert json.loads((out / "found.json").read_text())["DatasetType"] == "derivative"
    assert f"{home}\n" in call("logs", out, "group").out
    again = call(*line, "--group-app", "cp -r {results}/sub-1 {out}/first", "--resume")
    assert again.code == 0, again
    assert "1 task in" in again.out
    assert (out / "first/anat/sub-1_copy.nii.gz").is_file()


def test_a_group_level_that_makes_less_than_before(tmp_path: Path) -> None:
    home = make(tmp_path / "data", t1w("1"), t1w("10"))
    out = tmp_path / "out"
    gather = "sh -c 'cd {results}; for one in sub-*; do ls $one > {out}/$one.txt; done'"
    line = ("bids", home, out, "both", "--app", COPY, "--engine", "serial", "--no-report")
    done = call(*line, "--group-app", gather)
    assert done.code == 0, done
    assert (out / "sub-10.txt").is_file()
    make(home, t1w("1"), content=b"another")
    fewer = gather.replace("sub-*", "sub-1")
    done = call(*line, "--group-app", fewer, "--resume")
    assert done.code == 0, done
    assert sorted(path.name for path in out.glob("*.txt")) == ["sub-1.txt"]


@pytest.mark.parametrize(
    ("level", "words", "sentence"),
    [
        ("both", ("--app", COPY), "say by --group-app what puts results together"),
        ("both", ("--group-app", "cat {results}"), "have a group level of their own"),
        ("both", ("--app", COPY, "--group-app", "cat {t1w}"), r"--group-app: {t1w} is unknown"),
        ("both", ("--app", COPY, "--group-app", "'"), "No closing quotation; check its quotes"),
        ("both", ("--app", COPY, "--group-app", "no-such-one"), "no-such-one is not on PATH"),
        ("group", ("--app", COPY), "say by --group-app what puts results together"),
        ("participant", ("--group-app", "cat {results}"), "have a group level of their own"),
        ("participant", ("--app", COPY, "--group-app", "cat {t1w}"), "{t1w} is unknown"),
    ],
)
def test_what_is_said_of_levels(
    level: str, words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    home = make(tmp_path / "data", t1w("1"))
    refused = call("bids", home, tmp_path / "out", level, *words)
    assert (refused.code, sentence in refused.err) == (2, True), refused
    assert not (tmp_path / "out").exists()


def test_the_words_of_bids_apps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = make(tmp_path / "data", t1w("1", "a"), t1w("10", "a"), t1w("2", "a"), t1w("2", "b"))
    line = ["--participant_label", "sub-1", "2", "--session-label", "a", "--skip_bids_validation"]
    out = tmp_path / "out"
    scratch = tmp_path / "scratch"
    copy = "sh -c 'cp {t1w} {out}/{prefix}_copy.nii.gz && echo {work}'"
    app = ("--app", copy, "--engine", "threads", "-w", scratch)
    done = call_front(home, out, "participant", *line, "--n_cpus", 3, *app, capsys=capsys)
    assert done.code == 0, done
    assert [name for name in files_of(out) if name.startswith("sub-")] == [
        "sub-1/ses-a/anat/sub-1_ses-a_copy.nii.gz",
        "sub-2/ses-a/anat/sub-2_ses-a_copy.nii.gz",
    ]
    for one in logged(RunDirectory(out)):
        assert Path(one.printed().decode().strip()).is_relative_to(scratch)
    assert list(scratch.rglob("*.work")) == []
    assert json.loads((out / ".hyperslab/run-0001/summary.json").read_text())["slots"] == 3
    dry = call_front(home, out, "participant", "--dry-run", "--per", "session", capsys=capsys)
    assert "found      3 participants\nimages     4\ntasks      4, of" in dry.out
    version = call_front("--version", capsys=capsys)
    assert version.out.startswith("hyperslab ")
    assert call_front(home, out, "subject", capsys=capsys).code == 2


def test_options_before_the_arguments_of_bids_apps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processors of a task are what its programs are told."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    home = make(tmp_path / "data", t1w("1"))
    line = ("--app", "sh -c 'echo $OMP_NUM_THREADS > {out}/n'", "--engine", "serial", "--no-report")
    out = tmp_path / "out"
    done = call_front(*line, "--omp-nthreads", 1, home, out, "participant", capsys=capsys)
    assert done.code == 0, done
    assert (out / "sub-1/n").read_text() == "1\n"


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (("--participant-label", "1", "--participant_label", "sub-10"), "2 participants"),
        (("--participant-label", "1", "2", "--participant-label", "10"), "3 participants"),
        (("--session-label", "a", "--session_label", "b"), "2 tasks"),
    ],
)
def test_flags_of_labels_add_up(
    labels: tuple[str, ...], found: str, home: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a flag that is given twice, however it is spelled."""
    count, noun = found.split()
    said = {"participants": f"found      {count} ", "tasks": f"tasks      {count},"}[noun]
    dry = call_front(home, out, "participant", *labels, "--dry-run", capsys=capsys)
    assert said in dry.out, dry


def test_one_participant_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = make(tmp_path / "data", t1w("1"), t1w("10"), t1w("2"))
    out = tmp_path / "out"
    for label in ("1", "10", "2"):
        app = ("--participant-label", label, "--app", COPY, "--engine", "serial", "--no-report")
        done = call_front(home, out, "participant", *app, capsys=capsys)
        assert done.code == 0, done
    names = [f"sub-{label}/anat/sub-{label}_copy.nii.gz" for label in ("1", "10", "2")]
    assert files_of(out) == ["dataset_description.json", *names]
    listed = json.loads(call("logs", out, "--json").out)
    assert sorted((one["task"], one["attempt"]) for one in listed) == [
        ("sub-1", 0),
        ("sub-10", 0),
        ("sub-2", 0),
    ]
    assert "3 of 3 outputs unchanged" in call("verify", out).out


def test_a_tool_that_hangs(tmp_path: Path) -> None:
    """One participant's; the others are done."""
    home = make(tmp_path / "data", t1w("1"), t1w("2"), t1w("10"))
    out = tmp_path / "out"
    script = "sh -c 'test {participant} != 2 || sleep 60; cp {t1w} {out}/{prefix}_copy.nii.gz'"
    line = ("bids", home, out, "participant", "--app", script, "--engine", "threads", "--no-report")
    late = call(*line, "--task-timeout", 1, "--retries", 0, "--keep-going")
    assert late.code == 1
    assert "failed: sub-2: it took longer than 1 s, and it printed nothing" in late.err
    names = [f"sub-{label}/anat/sub-{label}_copy.nii.gz" for label in ("1", "10")]
    assert files_of(out) == ["dataset_description.json", *names]


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    home = make(tmp_path / "data", t1w("1"))
    with mounted(tmp_path / "there", "-t", "tmpfs", "-o", "ro", "none") as there:
        refused = call("bids", home, there / "out", "participant", "--app", COPY)
    assert refused.code == 2, refused
    assert refused.err.count("\n") == 1
    assert "cannot be written (Read-only file system)" in refused.err


def test_a_folder_that_is_in_use(tmp_path: Path) -> None:
    """What is said of it names flags that there are."""
    home = make(tmp_path / "data", t1w("1"))
    out = tmp_path / "out"
    line = ("bids", home, out, "participant", "--app", COPY, "--engine", "serial", "--no-report")
    make(out, "notes.txt")
    assert f"\nhyperslab: {out} holds files that no run wrote" in "\n" + call(*line).err
    (out / "notes.txt").unlink()
    assert call(*line).code == 0
    again = call(*line)
    assert again.code == 2
    assert "add --resume to do only what is missing, or choose another output dir" in again.err


def test_a_folder_with_hidden_files_alone(
    home: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a fresh dataset of DataLad has them, and with a description; what they say stays, and what
    is added between two calls.
    """
    make(out, ".gitattributes", ".git/HEAD", ".datalad/config", content=b"theirs\n")
    make(out, ".bidsignore", content=b"notes\n")
    described = b'{"Name": "mine", "BIDSVersion": "1.11.0", "GeneratedBy": [{"Name": "hyperslab"}]}'
    make(out, "dataset_description.json", content=described)
    words = ("--app", COPY, "--engine", "serial", "--no-report")
    for label in ("1", "10"):
        asked = ("participant", "--participant-label", label)
        done = call_front(home, out, *asked, *words, capsys=capsys)
        assert done.code == 0, done
        with (out / ".bidsignore").open("a") as file:
            file.write(f"{label}\n")
    assert call_front(home, out, "participant", *words, capsys=capsys).code == 0
    for name in (".gitattributes", ".git/HEAD", ".datalad/config"):
        assert (out / name).read_text() == "theirs\n"
    assert (out / ".bidsignore").read_text() == "notes\ngroup_*\nfigures\n1\n10\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["participant", "--participant-label", "7"], "--participant-label: the dataset has no"),
        (["participant", "--session-label", "7"], "--session-label: the dataset has no ses-7"),
        (["participant", "--per", "run"], "--per run: choose one of participant, session"),
        (["group", "--app", "cp"], "a group level of their own have --app brain and --container"),
        (["each"], "the level each: choose one of participant, group"),
        (["participant", "--bids-filter-file", "none.json"], "none.json: there is no such file"),
        (["participant", "--app", "no-such-program"], "no-such-program is not on PATH"),
        (["participant", "--engine", "none"], "none"),
    ],
)
def test_what_is_said_of_wrong_arguments(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    home = make(tmp_path / "data", t1w("1"))
    done = call("bids", home, tmp_path / "out", *arguments)
    assert done.code == 2, done
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_dataset_stays_as_it_is(tmp_path: Path) -> None:
    home = make(tmp_path / "data", t1w("1"), "dataset_description.json", content=b"{}")
    done = call("bids", home, tmp_path, "participant", "--app", COPY)
    assert done.code == 2
    assert "the dataset lies there" in done.err
    done = call("bids", home, home / "sub-1/out", "participant", "--app", COPY)
    assert done.code == 2
    assert "lies with the data of sub-1, which stay as they are" in done.err
    assert not (home / "sub-1/out").exists()
    inside = home / "derivatives" / "copies"
    done = call("bids", home, inside, "participant", "--app", COPY, "--engine", "serial")
    assert done.code == 0, done
    (home / "dataset_description.json").write_text("{")
    done = call("bids", home, tmp_path / "out", "participant", "--app", COPY)
    assert (done.code, "is no JSON" in done.err) == (1, True)


@pytest.mark.parametrize("level", ["participant", "both"])
def test_a_bad_table_is_told_before_anything_starts(level: str, tmp_path: Path) -> None:
    """The group level reads it, which begins when all participants have ended."""
    home = make(tmp_path / "data", t1w("1"))
    (home / "participants.tsv").write_text("participant_id\nsub-1\nsub-1\n")
    done = call("bids", home, tmp_path / "out", level)
    assert (done.code, done.err.count("\n")) == (1, 1), done
    assert "participants.tsv: has more than one row of sub-1; leave one of each" in done.err
    assert not (tmp_path / "out").exists()


def test_the_program_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["hyperslab-bids"] == "hyperslab.cli.bids_front:main"
