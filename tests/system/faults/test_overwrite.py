"""A run that replaces an earlier one: what is there stays until all of the new is there, whatever
ends the run in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.driver.directory import LEDGER
from hyperslab.plan.settings import Settings
from hyperslab.storage import renaming
from tests.repetitions import few
from tests.system.end_to_end.command import ANATOMICAL, call, succeed, values_of
from tests.system.faults.conversions import in_bytes, refusal

pytestmark = pytest.mark.usefixtures("without_a_report")
MINE = """
import os
import hyperslab

def scaled(block, slab, by=1, until=99):
    if slab.start[2] >= until and not os.path.exists("{mended}"):
        raise OSError("not yet")
    return (block // by).astype("int16")

def lift(block, by=1, broken=False):
    if broken and not os.path.exists("{mended}"):
        raise OSError("not yet")
    return int((block // by).sum())

total = hyperslab.Fold(lift, lambda a, b: a + b)
"""
KINDS: Mapping[str, tuple[str, ...]] = {
    "blocks": ("-o", "out"),
    "stores": ("-o", "out", "--format", "zarr", "--keep", "blocks"),
    "volume": ("-o", "out", "--keep", "volume"),
    "one file": ("-o", "out/map.nii.gz"),
    "one store": ("-o", "out/map.zarr"),
}
"What a run writes."


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(mended=tmp_path / "mended"))
    return path


def line(mine: Path, *more: object) -> tuple[object, ...]:
    serial = ("--engine", "serial", "-q", "--retries", "0", "--blocks", "1x1x3")
    return ("run", f"{mine}:scaled", ANATOMICAL, *serial, *more)


def outputs(folder: Path) -> dict[str, bytes]:
    """What is in a directory under names of its own; hidden files and records are not."""
    return {name: data for name, data in in_bytes(folder).items() if not name.startswith(".")}


def made(folder: Path, by: int) -> bool:
    """Whether a directory holds what the function makes, and nothing else."""
    found = [hyperslab.open(path)[...] for path in sorted(folder.glob("[!.]*"))]
    expected = values_of(ANATOMICAL) // by
    return np.array_equal(np.concatenate(found, axis=2), expected)


PLAYED = ("blocks", "volume", "one store")
"Many files, one, and one folder."


@pytest.mark.parametrize("kind", few(PLAYED, KINDS, "what is there stays until all is new"))
def test_what_is_there_stays_until_all_of_the_new_is(mine: Path, kind: str) -> None:
    out = mine.parent / "out"
    place = KINDS[kind][1]
    succeed(*line(mine, *KINDS[kind]))
    before = outputs(out)
    until = 0 if kind == "one store" else 16  # which is one chunk, so one block
    anew = line(mine, *KINDS[kind], "-p", "by=3", "-p", f"until={until}")
    assert "--overwrite to start over" in refusal(*anew)
    failed = call(*anew, "--overwrite")
    assert failed.code == 1
    assert "not yet" in failed.err
    assert "instead of --overwrite, which does only what is missing" in failed.err
    assert outputs(out) == before
    assert "state      failed" in call("status", place).out
    assert call("verify", place).code == 1, "the run is not complete"
    assert outputs(out) == before
    (mine.parent / "mended").touch()
    assert "--overwrite starts over, --resume does not" in refusal(*anew, "--overwrite", "--resume")
    assert "\ntasks      1 to do" in succeed(*anew, "--resume", "--dry-run")
    succeed(*anew, "--resume")
    assert made(out, 3)
    assert outputs(out).keys() == before.keys() or kind.endswith("store"), "chunks differ"
    assert call("verify", place).code == 0
    assert not list(out.glob(".*.part"))
    assert not (hyperslab_folder(out, place) / "blocks").exists()
    succeed(*line(mine, *KINDS[kind], "-p", "by=2"), "--overwrite")
    assert made(out, 2)


def hyperslab_folder(out: Path, place: str) -> Path:
    """The records of a run."""
    if place == "out":
        return out / ".hyperslab"
    return out / f".{Path(place).name}.hyperslab"


def test_fewer_blocks_and_other_kinds_leave_nothing_of_the_earlier_run(mine: Path) -> None:
    out = mine.parent / "out"
    succeed(*line(mine, "-o", "out"))
    assert len(outputs(out)) == 3
    few = ("run", f"{mine}:scaled", ANATOMICAL, "--engine", "serial", "-q", "-o", "out")
    ledger = out / ".hyperslab" / LEDGER
    ledger.touch()  # what calls have known of runs that are gone then
    succeed(*few, "--blocks", "1x1x2", "--overwrite")
    assert not ledger.exists()
    assert len(outputs(out)) == 2
    assert made(out, 1)
    succeed("run", f"{mine}:total", *few[2:], "--overwrite")
    assert list(outputs(out)) == ["result.json"]
    assert int((out / "result.json").read_text()) == values_of(ANATOMICAL).sum()
    assert call("verify", out).code == 0
    succeed(*few, "--keep", "volume", "--overwrite")
    assert list(outputs(out)) == ["anatomical.nii"]
    assert call("verify", out).code == 0


def test_a_result_stays_until_there_is_another_one(mine: Path) -> None:
    out = mine.parent / "out"
    fold = ("run", f"{mine}:total", ANATOMICAL, "--engine", "serial", "-q", "-o", "out")
    succeed(*fold)
    before = outputs(out)
    assert call(*fold, "-p", "by=2", "-p", "broken=true", "--retries=0", "--overwrite").code == 1
    assert outputs(out) == before
    (mine.parent / "mended").touch()
    succeed(*fold, "-p", "by=2", "-p", "broken=true", "--resume")
    assert int((out / "result.json").read_text()) == (values_of(ANATOMICAL) // 2).sum()


@pytest.mark.parametrize("moves", few([1], [0, 1, 3], "blocks between two names"))
def test_blocks_between_two_names(mine: Path, moves: int) -> None:
    """Ended while files get their names, the directory says that it is a mixture; and --resume ends
    it.
    """
    out = mine.parent / "out"
    succeed(*line(mine, "-o", "out"))
    plain, renamed = renaming.rename, list[Path]()

    def rename(ready: Path, final: Path, overwrite: bool) -> None:
        if final.parent == out and len(renamed) == moves:
            raise KeyboardInterrupt
        plain(ready, final, overwrite)
        renamed.extend([final] * (final.parent == out))

    def remove(_: Path) -> None:
        raise KeyboardInterrupt

    anew = line(mine, "-o", "out", "-p", "by=3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renaming, "rename", rename)
        if moves == 3:
            patch.setattr(renaming, "remove", remove)
        assert call(*anew, "--overwrite").code == 130
    assert "its files are being replaced" in refusal("convert", out, mine.parent / "x.nii", "-q")
    succeed(*anew, "--resume")
    assert made(out, 3)
    assert call("verify", out).code == 0
    succeed("convert", out, mine.parent / "x.nii", "-q", "--engine", "serial")


def test_only_what_runs_have_made_is_replaced(mine: Path) -> None:
    out = mine.parent / "out"
    succeed(*line(mine, "-o", "out"))
    (out / "notes.txt").write_text("mine")
    assert "holds files that no run made, such as notes.txt" in refusal(
        *line(mine, "-o", "out", "--overwrite")
    )
    (out / "notes.txt").unlink()
    block = min(out.glob("*.nii"))
    block.write_bytes(block.read_bytes() + b"mine")
    assert f"that no run made, such as {block.name}" in refusal(
        *line(mine, "-o", "out", "--overwrite")
    )
    assert call("verify", out).code == 1, "its records are still there"


def test_a_source_is_not_replaced(mine: Path) -> None:
    succeed(*line(mine, "-o", "out"))
    block = min((mine.parent / "out").glob("*.nii"))
    run = ("run", f"{mine}:scaled", block, "--engine", "serial", "-q", "--overwrite")
    assert "is the source itself" in refusal(*run, "-o", block)
    for flags in ([], ["--dry-run"], ["--resume"]):
        said = refusal(*run[:-1], "-o", block, *flags)
        assert "is the source itself" in said
        assert "--overwrite" not in said, "which would be refused as well"
    assert "holds the source" in refusal(*run, "-o", "out")
    other = ("run", "stats", block, "--engine", "serial", "-q", "--overwrite", "--mask", block)
    assert "holds the source" in refusal(*other, "-o", "out")


def test_a_file_of_somebody_else_is_replaced_by_one_of_the_name(mine: Path) -> None:
    place = mine.parent / "map.nii"
    place.write_text("mine")
    anew = line(mine, "-o", place, "-p", "until=16")
    assert "exists: give another name, or --overwrite to replace it" in refusal(*anew)
    assert call(*anew, "--overwrite").code == 1
    assert place.read_text() == "mine"
    assert call("clean", place).code == 0
    assert place.read_text() == "mine"
    assert call(*anew, "--overwrite").code == 1
    (mine.parent / "mended").touch()
    succeed(*anew, "--resume")
    assert np.array_equal(values_of(place), values_of(ANATOMICAL))


def test_python_replaces_too(mine: Path) -> None:
    out = mine.parent / "out"
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    three: Settings = {"engine": "threads", "threads": 2, "report": False, "blocks": "1x1x3"}
    hyperslab.run(pipeline.map(np.negative).write(out), **three)
    twice = pipeline.map(np.positive).write(out)
    with pytest.raises(hyperslab.HyperslabError, match="overwrite=True to start over"):
        hyperslab.run(twice, **three)
    with pytest.raises(hyperslab.HyperslabError, match="overwrite=True starts over"):
        hyperslab.run(twice, overwrite=True, resume=True)
    anew: Settings = {**three, "overwrite": True}
    result = hyperslab.run(twice, **anew)
    assert [path.parent for path in result.outputs] == [out] * 3
    assert made(out, 1)
