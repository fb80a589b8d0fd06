"""Output directories that were copied or moved, and tasks that write to two files: each file counts
where it lies.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.driver import allocations
from hyperslab.errors import RunStopped
from hyperslab.plan.task import Volume
from hyperslab.storage.recordfile import load_record, save_record
from tests.repetitions import few
from tests.system.end_to_end.command import call, save
from tests.system.faults import conversions
from tests.system.faults.command import FUNCTIONS, load, make_volume
from tests.system.faults.conversions import KINDS, content, job, recorded, refusal, undisturbed

pytestmark = pytest.mark.usefixtures("without_a_report")
FILES = 5
SHARING = (
    "--blocks",
    f"1x1x{FILES}",
    "--memory",
    "18MB",
    "--engine",
    "threads",
    "--threads",
    2,
    "-q",
)
"Cuts of the volume below into blocks of which some reach into two files."


@pytest.fixture(scope="module")
def volume() -> Array:
    return np.random.default_rng(0).integers(1, 3000, (100, 100, 1000)).astype("u2")


@pytest.fixture
def split(tmp_path: Path, volume: Array) -> Path:
    """A folder of five files, which tasks made that write to one or two of them."""
    nib.save(nib.Nifti1Image(volume, np.diag([2.0, 2, 2, 1])), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    done = call("convert", tmp_path / "in.nii", tmp_path / "out", *SHARING)
    assert done.code == 0, done
    return tmp_path / "out"


def joined(out: Path) -> Array:
    return np.concatenate([load(path) for path in sorted(out.glob("*.nii"))], axis=2)


def resume(out: Path) -> None:
    done = call("convert", out.parent / "in.nii", out, *SHARING, "--resume")
    assert done.code == 0, done


def tasks_of_files(out: Path) -> list[set[int]]:
    """Per file, the tasks that wrote to it."""
    outputs = json.loads((out / ".hyperslab" / "manifest.json").read_text())["outputs"]
    entries = [entry for entry in outputs if "region" in entry]
    paths = sorted({entry["path"] for entry in entries})
    return [{entry["task"] for entry in entries if entry["path"] == path} for path in paths]


@pytest.mark.parametrize("lost", few([FILES // 2], range(FILES), "a file that shares tasks"))
def test_a_file_that_shares_tasks_with_others_is_removed(
    split: Path, volume: Array, lost: int
) -> None:
    writers = tasks_of_files(split)
    assert any(a & b for a, b in itertools.pairwise(writers)), "no task writes to two files"
    sorted(split.glob("*.nii"))[lost].unlink()
    resume(split)
    assert np.array_equal(joined(split), volume)
    assert call("verify", split).code == 0


def test_an_unfinished_file_that_vanishes_after_the_plan_was_made(
    tmp_path: Path, values: Array, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperslab.driver import run as driver
    from hyperslab.driver.products import Products

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, "commit", _interrupted)
        assert call(*job(source, "placed")).code == 130
    (unfinished,) = (tmp_path / "out").glob(".new.nii.*.part")
    monkeypatch.setattr(driver, "admit", lambda *_: unfinished.unlink())
    done = call(*job(source, "placed", "--resume"))
    assert (done.code, "has disappeared" in done.err) == (1, True), done
    assert not (tmp_path / "out" / "new.nii").exists()
    monkeypatch.undo()
    assert call(*job(source, "placed", "--resume")).code == 0
    assert np.array_equal(load(tmp_path / "out" / "new.nii"), values)


def test_regions_that_were_written_elsewhere_make_no_file(tmp_path: Path) -> None:
    shape = (4, 4, 4)
    block = np.ones(shape, "u1")
    sink = formats.module("nifti").sink(str(tmp_path / "a.nii"), shape, block.dtype, Header())
    volume = Volume(sink, str(tmp_path / ".a.nii.0-00aa.part"))
    writing.allocate(*volume)
    written = writing.write_region(*volume, Hyperslab.full(shape), block)
    allocations.require_complete(volume, [written])
    elsewhere = replace(written, path=str(tmp_path / ".a.nii.0-00bb.part"))
    with pytest.raises(RunStopped, match=r"a\.nii: 1 region missing from .*--resume"):
        allocations.require_complete(volume, [written, elsewhere])


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_copy_stands_alone(split: Path, volume: Array) -> None:
    copy = shutil.copytree(split, split.with_name("copy"))
    sorted(split.glob("*.nii"))[1].unlink()
    sorted(copy.glob("*.nii"))[3].unlink()
    assert call("verify", copy).code == 1
    resume(copy)
    assert np.array_equal(joined(copy), volume)
    assert call("verify", copy).code == 0
    assert call("verify", split).code == 1
    assert call("clean", "--all", copy).code == 0
    assert list(copy.iterdir()) == []
    assert len(list(split.glob("*.nii"))) == FILES - 1


def run_blocks(folder: Path, out: str, *more: object) -> None:
    about = (
        folder / "in",
        "-o",
        folder / out,
        "-p",
        f"folder={folder}/runs",
        "--blocks",
        2,
        "--engine",
        "serial",
    )
    done = call("run", f"{FUNCTIONS}:counted", *about, "--quiet", *more)
    assert done.code == 0, done


def test_a_moved_run_repeats_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    values = make_volume(tmp_path / "in" / "v.nii")
    run_blocks(tmp_path, "a")
    ran = list((tmp_path / "runs").iterdir())
    os.rename(tmp_path / "a", tmp_path / "b")
    run_blocks(tmp_path, "b", "--resume")
    assert list((tmp_path / "runs").iterdir()) == ran
    assert call("verify", tmp_path / "b").code == 0
    min((tmp_path / "b").glob("*.nii")).unlink()
    run_blocks(tmp_path, "b", "--resume")
    parts = [load(path) for path in sorted((tmp_path / "b").glob("*.nii"))]
    assert np.array_equal(np.concatenate(parts, axis=2), values + np.uint16(1))


FORMS = ("parts", "shards")
"In place, pieces or parts, and a store."


@pytest.mark.parametrize("kind", few(FORMS, KINDS, "a moved conversion goes on"))
def test_a_moved_conversion_goes_on(tmp_path: Path, source: Path, kind: str) -> None:
    from hyperslab.driver.products import Products

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, "commit", _interrupted)
        assert call(*job(source, kind)).code == 130
    done_before = recorded(tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    os.rename(tmp_path / "out", tmp_path / "elsewhere" / "out")
    os.rename(source, tmp_path / "elsewhere" / "in.nii")
    moved = tmp_path / "elsewhere" / "in.nii"
    assert call(*job(moved, kind, "--resume")).code == 0
    assert recorded(tmp_path / "elsewhere" / "out") == done_before > 0
    assert not (tmp_path / "out").exists()


def test_records_of_an_earlier_version_name_files_of_another_directory(
    tmp_path: Path, split: Path
) -> None:
    """Their copies list outputs as ../out/NAME."""
    other = tmp_path / "other"
    shutil.copytree(split / ".hyperslab", other / ".hyperslab")
    path = other / ".hyperslab" / "manifest.json"
    said = load_record(path, "")
    for entry in said["outputs"]:
        entry["path"] = f"../out/{entry['path']}"
    save_record(path, said)
    done = call("verify", other)
    assert (done.code, "of another directory" in done.out + done.err) == (1, True), done
    assert call("clean", "--all", other).code == 0
    assert len(list(split.glob("*.nii"))) == FILES


@pytest.mark.parametrize("kind", few(["shards"], ["store", "shards"], "a chunk that is lost"))
def test_a_store_that_lost_a_chunk_is_not_taken_for_whole(
    tmp_path: Path, source: Path, values: Array, kind: str
) -> None:
    undisturbed(*job(source, kind))
    store = tmp_path / "out" / KINDS[kind][0]
    chunks = [path for path in store.rglob("c/**/*") if path.is_file()]
    chunks[len(chunks) // 2].unlink()
    assert "it was changed since" in refusal(*job(source, kind, "--resume"))
    undisturbed(*job(source, kind, "--resume", "--overwrite"))
    assert np.array_equal(content(store), values)
    assert call("verify", store).code == 0


def test_blocks_that_no_journal_names_are_cleaned(tmp_path: Path) -> None:
    """A driver may be killed before a worker has recorded the block that it has just written."""
    (tmp_path / "runs").mkdir()
    make_volume(tmp_path / "in" / "v.nii")
    run_blocks(tmp_path, "a")
    for journal in (tmp_path / "a").rglob("journal/*.jsonl"):
        journal.write_bytes(b"")
    (tmp_path / "a" / ".hyperslab" / "manifest.json").unlink()
    (tmp_path / "a" / "mine.nii").write_text("not a run's")
    done = call("clean", "--all", tmp_path / "a")
    assert done.code == 0, done
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine.nii"]


MADE_AGAIN = ["placed", "runs", "chunks", "parts", "store"]


@pytest.mark.parametrize("kind", few(["chunks", "store"], MADE_AGAIN, "new regions"))
def test_what_is_being_made_again_is_made_of_new_regions_alone(
    tmp_path: Path, source: Path, kind: str
) -> None:
    """A source was edited, the run resumed and killed on the way, and resumed: old and new regions
    are not mixed.
    """
    undisturbed(*job(source, kind))
    edited = edit(source)
    stop_after(3, *job(source, kind, "--resume"))
    undisturbed(*job(source, kind, "--resume"))
    final = tmp_path / "out" / KINDS[kind][0]
    assert np.array_equal(content(final), edited)
    assert call("verify", final).code == 0
    assert not list(final.parent.glob(".*.part"))


def test_a_file_of_several_is_made_again_by_a_run_that_is_killed(
    split: Path, volume: Array
) -> None:
    sorted(split.glob("*.nii"))[2].unlink()
    stop_after(3, "convert", split.parent / "in.nii", split, *SHARING, "--resume")
    resume(split)
    assert np.array_equal(joined(split), volume)
    assert call("verify", split).code == 0
    assert call("diff", split, split.parent / "in.nii").code == 0


def edit(source: Path) -> Array:
    """Change a voxel near the beginning and one at the end; returns all values."""
    values = conversions.values().copy()
    values[0, 0, 0] += 1
    values[-1, -1, -1] += 1
    save(source, values, conversions.AFFINE)
    return values


def stop_after(tasks: int, *arguments: object) -> None:
    """A run in this process that is stopped when it has recorded so many tasks."""
    from hyperslab.driver.run import Driver

    with pytest.MonkeyPatch.context() as patch:
        plain, taken = Driver._take, list[object]()

        def take(run: Driver, *more: Any) -> None:
            plain(run, *more)
            taken.append(more[0])
            if len(taken) >= tasks:
                raise KeyboardInterrupt

        patch.setattr(Driver, "_take", take)
        assert call(*arguments).code == 130
