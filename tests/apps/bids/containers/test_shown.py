"""Results as the container of a group level sees them: mounted one by one, or links to all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperslab.apps.bids.containers.runtimes import RUNTIMES, Mount
from hyperslab.apps.bids.containers.shown import Results, shown
from tests.apps.bids.containers.programs import install, seen_last, words_of
from tests.apps.bids.containers.test_runtimes import NAME, bids, image_for, mounted
from tests.apps.bids.datasets import make
from tests.system.end_to_end.command import call


def test_results_whose_names_runtimes_would_take_apart(tmp_path: Path) -> None:
    """They are links, and go with all else that is shown; what is put beside them stays."""
    home = make(tmp_path / "out", "sub-1/b/x", "sub-1_at_12:30.html", "old.tsv", ".hidden")
    private = tmp_path / "private"
    private.mkdir()
    with shown(Results(home, private, frozenset((home / "old.tsv",)))) as mounts:
        assert mounts == [Mount(str(home), "/hyperslab-results")]
        links = sorted(path for path in private.rglob("*") if path.is_symlink())
        assert [path.relative_to(private).as_posix() for path in links] == [
            "sub-1/b/x",
            "sub-1_at_12:30.html",
        ]
        (private / "sub-1/new").touch()
    assert sorted(path.name for path in private.rglob("*")) == ["new", "sub-1"]


@pytest.mark.parametrize(
    ("runtime", "level"), [("docker", "group"), ("apptainer", "group"), ("docker", "both")]
)
def test_many_results(runtime: str, level: str, home: Path, programs: Path, tmp_path: Path) -> None:
    """More names than are mounted one by one: folders are folders, and files are links to all
    results. What takes the place of a link gets no name, now or later.
    """
    log = install(programs, runtime)
    out = tmp_path / "out"
    image = ("--container", image_for(runtime, tmp_path), "--runtime", runtime)
    asked = (*image, "--app-arguments", "--pages 120", "--retries", 0)
    if level == "group":
        assert bids(home, out, "participant", *asked).code == 0
    (home / "replaced").write_text("sub-1/made.txt")
    failed = bids(home, out, level, *asked)
    told = "another task has written sub-1/made.txt already"
    assert (failed.code, told in failed.err) == (1, True), failed
    (home / "replaced").unlink()
    more = () if level == "group" else ("--resume",)
    done = bids(home, out, level, *asked, *more)
    assert done.code == 0, done
    mounts = mounted(words_of(log, "run")[-1], RUNTIMES[runtime].mount)
    assert sorted(mounts) == ["/data", "/hyperslab-results", "/out", "/work"]
    assert mounts["/hyperslab-results"] == f"{out}:ro"
    pages = [f"sub-{label}_{number:0200}.html" for label in (1, 10) for number in range(120)]
    results = [*pages, "sub-1/made.txt", "sub-10/made.txt"]
    seen = seen_last(log)
    assert {name: to for name, to in seen.items() if to} == {
        name: f"/hyperslab-results/{name}" for name in results
    }
    assert sorted(seen) == sorted([*results, "sub-1", "sub-10", "dataset_description.json"])
    made = (path.relative_to(out).as_posix() for path in out.rglob("*.[ht]*") if path.is_file())
    assert sorted(name for name in made if name[0] != ".") == sorted([*results, "group.txt"])
    assert (out / "sub-1/made.txt").read_text() == "1"
    assert not any(path.is_symlink() for path in out.rglob("*"))


def annexed(out: Path, annex: Path, *names: str) -> None:
    """Have git-annex keep files, as `datalad save` does."""
    for number, name in enumerate(names):
        content = annex / "objects" / str(number) / "key"
        content.parent.mkdir(parents=True)
        (out / name).rename(content)
        (out / name).symlink_to(os.path.relpath(content, (out / name).parent))


@pytest.mark.parametrize("dataset", [".", "super", "super/part"])
def test_results_that_git_annex_keeps(
    home: Path, programs: Path, tmp_path: Path, dataset: str
) -> None:
    """In OUT, in a dataset around it, or in one that is a part of another: the container sees what
    links lead to. Those that lead nowhere are left out, and told.
    """
    log = install(programs, "docker")
    out = tmp_path / ("super/part" if dataset == "super/part" else "super/part/out")
    top = {".": out, "super": tmp_path / "super", "super/part": tmp_path / "super"}[dataset]
    asked = ("--container", NAME, "--runtime", "docker", "--retries", 0)
    assert bids(home, out, "participant", *asked).code == 0
    annex = (out if dataset == "." else tmp_path / "super") / ".git/annex"
    if dataset == "super/part":
        annex = tmp_path / "super/.git/modules/part/annex"
        annex.mkdir(parents=True)
        (out / ".git").symlink_to("../.git/modules/part")
    annexed(out, annex, "sub-1/made.txt", "sub-10/made.txt")
    (out / "sub-10/beside.txt").symlink_to("nowhere")
    done = bids(home, out, "group", *asked)
    assert done.code == 0, done
    mounts = mounted(words_of(log, "run")[-1], RUNTIMES["docker"].mount)
    assert mounts["/hyperslab-results"] == f"{top}:ro"
    links = {name: to for name, to in seen_last(log).items() if to}
    there = os.path.normpath(f"/hyperslab-results/{os.path.relpath(out, top)}/sub-1/made.txt")
    assert links == {"sub-1/made.txt": there, "sub-10/made.txt": there.replace("sub-1", "sub-10")}
    told = "hyperslab: 1 result not shown, as links to what is not here: sub-10/beside.txt"
    assert told in call("logs", out, "group").out
