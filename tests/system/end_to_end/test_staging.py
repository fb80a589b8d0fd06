"""Runs by way of fast tiers: the same bytes, names and records as without them."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading, writing
from hyperslab.driver import rounds, staging, sweeping
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.prefetching import Copying
from hyperslab.driver.staging import Staging
from hyperslab.driver.submission import load_records
from hyperslab.errors import FormatError, SourceChanged, UsageError
from hyperslab.formats import open_source
from hyperslab.plan import journal, steps
from hyperslab.report.staging import staging_lines
from hyperslab.storage.staging import area, room
from hyperslab.storage.staging.copies import Took
from hyperslab.storage.staging.room import Room
from hyperslab.testing.functions import add
from tests.repetitions import few
from tests.system.end_to_end.command import ANATOMICAL, EPI, call

CHUNKS = ("--chunks", "17,21,13")
IMAGE = (20, 20, 20)
PATIENCE_S = 60.0
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "blocks": (),
    "compressed blocks": ("--format", "nii.gz"),
    "a volume": ("--keep", "volume"),
    "a compressed volume": ("--keep", "volume", "--format", "nii.gz"),
    "an HDF5 file": ("--keep", "volume", "--format", "h5", *CHUNKS),
    "compressed chunks": ("--keep", "volume", "--format", "h5", *CHUNKS, "--compression", "gzip"),
    "a store": ("--keep", "volume", "--format", "zarr", *CHUNKS),
    "stores": ("--format", "zarr"),
}


def files(folder: Path) -> dict[str, bytes]:
    """The outputs in a directory, without the records."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".hyperslab" not in path.parts
    }


def checksums(out: Path) -> dict[tuple[str, str], str]:
    """What the manifest says of each output and region."""
    manifest = json.loads((out / ".hyperslab" / "manifest.json").read_text())
    return {
        (entry["path"], str(entry.get("region", ""))): entry["checksum"]
        for entry in manifest["outputs"]
        if "frame" not in entry
    }


def run(source: Path, out: Path, *more: object) -> None:
    common = ("run", "increment", source, "-o", out, "--no-report", "--blocks", "2x2x1")
    done = call(*common, *more)
    assert done.code == 0, done.err


STAGED = ("blocks", "a volume", "a compressed volume", "compressed chunks", "a store")
"Outputs that are written in every way."


@pytest.mark.parametrize("kind", few(STAGED, OUTPUTS, "outputs by way of a tier are the same"))
def test_outputs_are_the_same(tmp_path: Path, kind: str) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    options = (*OUTPUTS[kind], "--engine", "threads")
    run(ANATOMICAL, tmp_path / "plain", *options)
    run(ANATOMICAL, tmp_path / "staged", *options, "--stage-in", fast, "--stage-out", fast)
    plain, staged = files(tmp_path / "plain"), files(tmp_path / "staged")
    assert plain.keys() == staged.keys()
    if "h5" not in OUTPUTS[kind]:  # whose chunks lie in the order in which they were made
        assert plain == staged
    assert checksums(tmp_path / "plain") == checksums(tmp_path / "staged")
    assert call("verify", tmp_path / "staged").code == 0
    told = load_records(tmp_path / "staged").trace.meta["staging"]["out"]
    assert (told["blocks"], told["direct_tasks"], told["lost"]) == (4, 0, 0)
    assert list(fast.iterdir()) == []


STAGING = ["processes", "gnu-parallel", "mpi"]
"Engines on this host whose tasks are in processes of their own."


@pytest.mark.parametrize("engine", few(["processes"], STAGING, "engines stage alike"))
def test_engines_stage_alike(tmp_path: Path, engine: str) -> None:
    if engine == "mpi":
        pytest.importorskip("mpi4py")
    fast = tmp_path / "fast"
    fast.mkdir()
    run(ANATOMICAL, tmp_path / "plain", "--engine", "threads")
    options = ("--engine", engine, "--workers", 2)
    staging_options = ("--stage-in", fast, "--stage-out", fast, "--readers-per-device", 1)
    run(ANATOMICAL, tmp_path / "staged", *options, *staging_options)
    assert files(tmp_path / "plain") == files(tmp_path / "staged")
    trace = load_records(tmp_path / "staged").trace
    assert trace.meta["staging"]["out"]["blocks"] == 4
    assert {"wait", "stage", "flush", "verify"} <= {span.kind for span in trace.spans}
    assert list(fast.iterdir()) == []


def images(folder: Path, number: int, suffix: str = ".nii") -> list[Path]:
    folder.mkdir()
    rng = np.random.default_rng(number)
    paths = [folder / f"in{n}{suffix}" for n in range(number)]
    for path in paths:
        values = rng.integers(0, 1000, IMAGE, dtype=np.int16)
        nib.save(nib.Nifti1Image(values, np.eye(4)), path)  # type: ignore[no-untyped-call]
    return paths


SUFFIXES = [".nii", ".nii.gz"]


@pytest.mark.parametrize("suffix", few([".nii.gz"], SUFFIXES, "copies are made of any file"))
def test_inputs_are_copied_ahead_and_removed_behind(tmp_path: Path, suffix: str) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    paths = images(tmp_path / "in", 8, suffix)
    pipeline = hyperslab.Pipeline([str(path) for path in paths])
    hyperslab.run(pipeline.map(add, k=1).write(tmp_path / "plain"), engine="serial", report=False)
    slowly = pipeline.map(add, k=1, seconds=0.1)  # so that there is time to copy
    result = hyperslab.run(
        slowly.write(tmp_path / "staged"), engine="serial", stage_in=fast, report=False
    )
    assert files(tmp_path / "plain") == files(tmp_path / "staged")
    told = result.summary.staging["in"]
    assert 1 <= told["files"] <= 7, told  # the first one is read at once
    sizes = [path.stat().st_size for path in paths]
    assert told["nbytes"] in map(sum, itertools.combinations(sizes, told["files"]))
    assert staging_lines(result.trace.meta)
    lanes = {span.slot.split("/")[-2] for span in result.trace.spans if span.kind == "stage-in"}
    assert lanes == {"stage-in"}
    assert result.summary.slots == 1
    assert list(fast.iterdir()) == []


def test_a_copy_is_read_in_place_of_the_file(tmp_path: Path) -> None:
    """Otherwise nothing would be gained, and no other test would notice."""
    original, copy = tmp_path / "in.nii", tmp_path / "copy"
    original.write_bytes(ANATOMICAL.read_bytes())
    source = replace(open_source(str(original)), copy=str(copy))
    whole = Hyperslab.full(source.shape)
    block = reading.read(source, whole)
    changed = bytearray(original.read_bytes())
    changed[-2:] = b"\x12\x34"
    copy.write_bytes(changed)
    os.utime(copy, ns=(source.mtime_ns, source.mtime_ns))
    assert reading.read(source, whole)[-1, -1, -1] == 0x1234 != block[-1, -1, -1]
    os.utime(copy, ns=(0, 0))
    with pytest.raises(SourceChanged):
        reading.read(source, whole)
    copy.unlink()
    assert np.array_equal(reading.read(source, whole), block)


def test_a_damaged_copy_is_told_of_as_its_file(tmp_path: Path) -> None:
    """A task does without it."""
    original, copy = tmp_path / "in.nii.gz", tmp_path / "copy"
    original.write_bytes(EPI.read_bytes())
    source = replace(open_source(str(original)), copy=str(copy))
    damaged = bytearray(original.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    copy.write_bytes(damaged)
    os.utime(copy, ns=(source.mtime_ns, source.mtime_ns))
    with pytest.raises(FormatError, match=f"^{original}: "):
        reading.read(source, Hyperslab.full(source.shape))
    done_without = steps._read_piece(source, Hyperslab.full(source.shape), None, "real")
    copy.unlink()
    assert np.array_equal(reading.read(source, Hyperslab.full(source.shape)), done_without)


def test_a_tier_that_is_no_faster_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_JUDGED_NBYTES", 1)
    monkeypatch.setattr(room, "TRIED_NBYTES", 1)
    monkeypatch.setattr(staging, "PAYS", 1e9)
    fast = tmp_path / "fast"
    fast.mkdir()
    pipeline = hyperslab.Pipeline(str(ANATOMICAL)).map(add, seconds=0.03)
    result = hyperslab.run(
        pipeline.write(tmp_path / "out"), engine="serial", blocks="4x4x1", stage_out=fast
    )
    told = result.summary.staging
    assert told["out"]["direct_tasks"] > told["out"]["blocks"]
    assert "is hardly faster" in told["notes"][0]
    assert not told["is_degraded"]


@pytest.mark.parametrize(("slow_s", "is_left"), [(0.4, True), (0.0, False)])
def test_a_tier_that_is_emptied_more_slowly_than_tasks_write_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_s: float, is_left: bool
) -> None:
    """What is sure to have arrived takes the storage longer than what was only written."""
    monkeypatch.setattr(writing, "settle", lambda path: time.sleep(slow_s))
    monkeypatch.setattr(staging, "_JUDGED_NBYTES", 1)
    monkeypatch.setattr(room, "TRIED_NBYTES", 1)
    monkeypatch.setattr(staging, "PAYS", 0.0)
    fast = tmp_path / "fast"
    fast.mkdir()
    pipeline = hyperslab.Pipeline(str(ANATOMICAL)).map(add, seconds=0.05)
    result = hyperslab.run(
        pipeline.write(tmp_path / "out"), engine="serial", blocks="4x4x2", stage_out=fast
    )
    told = result.summary.staging
    assert told["out"]["blocks"] + told["out"]["direct_tasks"] == 32
    assert (
        any("is flushed to the place of the outputs more slowly" in note for note in told["notes"])
        is is_left
    )
    if is_left:
        assert told["out"]["blocks"] == area.TICKETS


ALONE = 5
"Tasks that wait for no copies: the first of a slot, and those by which reading is known."
CALLS: list[int] = []
"Numbers of the tasks so far, which are those of their files."
ANSWERS: list[Copying] = []
"What the prefetcher was told."


def after_a_copy(block: Array, tier: str) -> Array:
    """block + 1, once there is a copy for this task or a later one, or no more are made: they come
    in time however busy the machine is. Those of earlier tasks may not have been evicted yet.
    """
    until = time.monotonic() + PATIENCE_S
    is_task = block.shape == IMAGE
    number = len(CALLS)
    CALLS.extend([number] * is_task)
    is_waiting = is_task and number >= ALONE
    while is_waiting and time.monotonic() < until:
        copies = [int(path.name) for path in Path(tier).glob("*/in/*[0-9]")]
        is_waiting = "never" not in ANSWERS and max(copies, default=-1) < number
        time.sleep(0.01 * is_waiting)
    return add(block)


def test_copies_that_tasks_wait_for_are_no_longer_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying = Staging._copying

    def told_copying(self: Staging, took: Took) -> Copying:
        ANSWERS.append(copying(self, took))
        return ANSWERS[-1]

    CALLS.clear()
    ANSWERS.clear()
    monkeypatch.setattr(Staging, "_copying", told_copying)
    monkeypatch.setattr(staging, "PAYS_TO_COPY", 1e9)
    have_driver_hear_at_once(monkeypatch)
    fast = tmp_path / "fast"
    fast.mkdir()
    paths = images(tmp_path / "in", 24)
    pipeline = hyperslab.Pipeline([str(path) for path in paths])
    pipeline = pipeline.map(after_a_copy, {"tier": str(fast)}).write(tmp_path / "out")
    monkeypatch.setattr(Room, "holds", one_at_a_time)
    result = hyperslab.run(pipeline, engine="serial", stage_in=fast)
    told = result.summary.staging
    assert 3 <= told["in"]["files"] < 20, told
    assert any("is hardly faster" in note for note in told["notes"])


def have_driver_hear_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the driver know of each task before the next one begins. Usually outcomes are written
    together where writing is slow, and copies stay for those seconds.
    """
    monkeypatch.setattr(journal, "FLUSH_INTERVAL_S", 0.0)
    monkeypatch.setattr(journal, "MOST_FLUSH_SHARE", float("inf"))
    monkeypatch.setattr(rounds, "POLL_INTERVAL_S", 0.0)


def one_at_a_time(of: Room, nbytes: int) -> bool:
    """Room for one copy, in place of what there is."""
    return not [path for path in Path(of.area, "in").iterdir() if path.suffix != ".declined"]


def test_refusals(tmp_path: Path) -> None:
    total = hyperslab.Pipeline(str(ANATOMICAL)).reduce(hyperslab.Fold(np.sum, np.add))
    with pytest.raises(UsageError, match="stage_out is for functions whose blocks are written"):
        hyperslab.run(total, stage_out=tmp_path)
    with pytest.raises(UsageError, match="there is no such directory"):
        hyperslab.run(total, stage_in=tmp_path / "none")
    with pytest.raises(UsageError, match="is for workers of this host"):
        hyperslab.run(total, stage_in=tmp_path, engine="dask-bag", connect="tcp://localhost:1")
    with pytest.raises(UsageError, match="give 1 or more"):
        hyperslab.run(total, readers_per_device=0)
    with pytest.raises(UsageError, match="0 or more"):
        hyperslab.run(total, stagger=-1.0)


def test_nothing_is_recorded_of_what_was_not_asked_for(tmp_path: Path) -> None:
    run(ANATOMICAL, tmp_path / "out", "--engine", "serial")
    folder = RunDirectory.of(tmp_path / "out").latest()
    assert not (folder / sweeping.RECORD).exists()
    assert not (folder / staging.TURNS).exists()
    assert "staging" not in load_records(folder).trace.meta
