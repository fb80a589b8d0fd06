"""Conversions that are killed, stopped, have no room, or would replace something: nothing is lost or half-visible."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import psutil
import pytest

from hyperslab import blockio, formats
from hyperslab.array import Array
from hyperslab.slab import Hyperslab
from tests.faults.command import Running, await_gone, await_that, hyperslab, load, running
from tests.faults.disk import small_disk
from tests.verdicts.slowfs import slow_files

MIB = 2**20
SHAPE = (64, 60, 1200)
"Of uint16, 9.2 MB: about ten tasks where each has 1 MiB."
MEMORY = ("--memory", "44MB")
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "placed": ("new.nii", ()),
    "runs": ("new.nii.gz", ()),
    "chunks": ("new.h5", ("--chunks", "32,32,100", "--compression", "gzip")),
    "parts": ("new.h5", ("--virtual",)),
    "split": ("blocks", ("--blocks", "2x1x3")),
}
SITE = """
import os, signal, time
import hyperslab.sinkio as sinkio

plain_region, plain_rename, renames = sinkio.write_region, sinkio._rename, []

def write_region(*arguments):
    time.sleep(float(os.environ.get("SLOW_S", 0)))
    return plain_region(*arguments)

def rename(*arguments):
    renames.append(arguments)
    when, number = os.environ.get("KILL_AT", "never 0").split()
    if when == "before" and len(renames) == int(number):
        os.kill(os.getpid(), signal.SIGKILL)
    plain_rename(*arguments)
    if when == "after" and len(renames) == int(number):
        os.kill(os.getpid(), signal.SIGKILL)

sinkio.write_region, sinkio._rename = write_region, rename
"""
"What Python runs at its start, in the driver and in every worker: writes that take long, and a death at a rename."


@pytest.fixture(scope="module")
def values() -> Array:
    return np.random.default_rng(0).integers(0, 300, SHAPE).astype("u2")


@pytest.fixture
def source(tmp_path: Path, values: Array) -> Path:
    path = tmp_path / "in.nii"
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1])), path)  # type: ignore[no-untyped-call]
    return path


@pytest.fixture
def slow(tmp_path: Path) -> dict[str, str]:
    """The environment of a command whose writes take a tenth of a second."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    return {"PYTHONPATH": f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}", "SLOW_S": "0.1"}


def job(source: Path, kind: str, *more: object) -> tuple[object, ...]:
    name, options = KINDS[kind]
    return ("convert", source, source.parent / "out" / name, *options, *MEMORY, "--engine", "threads", "-q", *more)


def in_bytes(out: Path) -> dict[str, bytes]:
    """Everything in a folder that is no record, by name; folders of parts under one name for all."""
    found = {}
    for path in sorted(out.rglob("*")):
        inside = path.relative_to(out)
        if path.is_file() and not any(part.endswith(".hyperslab") for part in inside.parts):
            found[re.sub(r"parts-[0-9a-f]+", "parts", str(inside))] = path.read_bytes()
    return found


def expected(source: Path, kind: str) -> dict[str, bytes]:
    """What a conversion leaves that nobody disturbs."""
    other = source.parent / "undisturbed"
    other.mkdir()
    done = hyperslab(*job(Path(shutil.copy(source, other)), kind))
    assert done.returncode == 0, done.stderr
    return _same_names(in_bytes(other / "out"))


def _same_names(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without the one thing that differs from run to run: the name of the folder of parts, in its file."""
    return {name: re.sub(rb"parts-[0-9a-f]+", b"parts-", content) for name, content in found.items()}


def recorded(out: Path) -> int:
    lines = (path.read_bytes() for path in out.rglob("*.hyperslab/run-*/journal/*.jsonl"))
    return sum(len(re.findall(rb'"status":"done"', text)) for text in lines)


def await_tasks(run: Running, out: Path, tasks: int) -> None:
    await_that(f"{tasks} tasks done in {out}", lambda: recorded(out) >= tasks or run.has_ended)
    assert recorded(out) >= tasks, run.wait()
    assert not run.has_ended, run.wait()


def content(path: Path) -> Array:
    source = formats.open_source(str(path))
    return blockio.read(source, Hyperslab.full(source.shape), values="stored")


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_driver_leaves_nothing_visible_and_is_resumed(source: Path, slow: dict[str, str], kind: str) -> None:
    out = source.parent / "out"
    with running(*job(source, kind), environment=slow) as run:
        await_tasks(run, out, 4)
        run.send(signal.SIGKILL)
        assert run.wait()[0] == -signal.SIGKILL
    assert not [path for path in out.rglob("*") if not re.search(r"\.hyperslab|\.part\b", str(path))][
        (1 if kind == "split" else 0) :
    ], "but for the folder that holds the blocks"
    refused = hyperslab(*job(source, kind))
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    held = recorded(out)
    done = hyperslab(*job(source, kind, "--resume"), environment=slow)
    assert done.returncode == 0, done.stderr
    assert held >= 4
    assert recorded(out) < 2 * held + 12, "what was done is not done again"
    assert _same_names(in_bytes(out)) == expected(source, kind)


@pytest.mark.parametrize("kind", ["chunks", "split"])
def test_a_killed_worker_costs_an_attempt(source: Path, slow: dict[str, str], kind: str) -> None:
    out = source.parent / "out"
    arguments = [a if a != "threads" else "processes" for a in job(source, kind, "--workers", 2, "--retries", 3)]
    with running(*arguments, environment=slow) as run:
        await_tasks(run, out, 2)
        workers: list[psutil.Process] = [p for p in run.workers() if not p.children()]
        workers[-1].kill()
        code, said = run.wait()
    assert code == 0, said
    await_gone(workers)
    assert _same_names(in_bytes(out)) == expected(source, kind)


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("placed", "before 1"),
        ("placed", "after 1"),
        ("chunks", "before 1"),
        ("chunks", "after 1"),
        ("split", "before 3"),
        ("split", "after 3"),
        ("parts", "after 1"),  # of the first part: it is written as a file of its own
        ("parts", "last but one"),
        ("parts", "between"),
        ("parts", "last"),
    ],
)
def test_a_driver_killed_while_it_replaces(
    source: Path, slow: dict[str, str], kind: str, moment: str, values: Array
) -> None:
    """At any moment of the commit there is the old file or the new one; --resume makes it the new one."""
    out, name = source.parent / "out", KINDS[kind][0]
    nib.save(nib.Nifti1Image(values[::-1].copy(), np.eye(4)), source)  # type: ignore[no-untyped-call]
    assert hyperslab(*job(source, kind)).returncode == 0
    old = _same_names(in_bytes(out))
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1])), source)  # type: ignore[no-untyped-call]
    parts = len(list(out.glob("new.h5.parts-*/*")))
    at = {"last but one": f"before {parts + 1}", "between": f"after {parts + 1}", "last": f"after {parts + 2}"}
    environment = slow | {"KILL_AT": at.get(moment, moment), "SLOW_S": "0"}
    with running(*job(source, kind, "--overwrite"), environment=environment) as run:
        assert run.wait()[0] == -signal.SIGKILL
    if kind != "split":
        seen = content(out / name)
        assert np.array_equal(seen, values) or np.array_equal(seen, values[::-1]), "neither the old nor the new"
    done = hyperslab(*job(source, kind, "--overwrite", "--resume"))
    assert done.returncode == 0, done.stderr
    new = expected(source, kind)
    assert new != old
    assert _same_names(in_bytes(out)) == new
    assert not list(out.glob(".*.part"))
    assert len(list(out.glob("*.parts-*"))) == (kind == "parts")


def test_a_reader_always_sees_the_old_file_or_the_new_one(source: Path, values: Array) -> None:
    """However often it is replaced, by files of two kinds."""
    out = source.parent / "out"
    versions = [source, source.parent / "other.nii"]
    nib.save(nib.Nifti1Image(values[::-1].copy(), np.eye(4)), versions[1])  # type: ignore[no-untyped-call]
    done, seen, odd = threading.Event(), [0, 0], list[str]()

    def look() -> None:
        while not done.is_set():
            with h5py.File(out / "new.h5", "r", locking=False) as file:
                found = file["data"][:, :, ::50]
            which = [np.array_equal(found, v[:, :, ::50]) for v in (values, values[::-1])]
            if sum(which) != 1:
                odd.append("neither")
            seen[which.index(True) if any(which) else 0] += 1

    kinds = ("placed", "chunks")
    options = {"placed": (), "chunks": KINDS["chunks"][1]}
    line = ("--engine", "serial", "-q", "--overwrite")
    assert hyperslab("convert", versions[0], out / "new.h5", *line).returncode == 0
    reader = threading.Thread(target=look)
    reader.start()
    try:
        for turn in range(3):
            made = hyperslab("convert", versions[(turn + 1) % 2], out / "new.h5", *options[kinds[turn % 2]], *line)
            assert made.returncode == 0, made.stderr
            before = seen[(turn + 1) % 2]
            await_that("a look at the new file", lambda n=before, t=turn: seen[(t + 1) % 2] > n or odd)
    finally:
        done.set()
        reader.join()
    assert odd == []
    assert min(seen) > 0


def test_ctrl_c_leaves_the_old_file(source: Path, slow: dict[str, str], values: Array) -> None:
    out = source.parent / "out"
    out.mkdir()
    nib.save(nib.Nifti1Image(values[::-1].copy(), np.eye(4)), out / "new.nii")  # type: ignore[no-untyped-call]
    before = in_bytes(out)
    refused = hyperslab(*job(source, "placed"))
    assert refused.returncode == 2
    assert f"{out / 'new.nii'} exists: give another name, or --overwrite" in refused.stderr
    with running(*job(source, "placed", "--overwrite"), environment=slow) as run:
        await_tasks(run, out, 2)
        run.send(signal.SIGINT)
        code, said = run.wait()
    assert code == 130
    assert "interrupted: run the same command with --resume to go on" in said
    assert {name: raw for name, raw in in_bytes(out).items() if not name.endswith(".part")} == before
    assert hyperslab(*job(source, "placed", "--overwrite", "--resume")).returncode == 0
    assert np.array_equal(load(out / "new.nii"), values)
    assert list(in_bytes(out)) == ["new.nii"]


def test_a_split_is_replaced_by_another_one(source: Path, values: Array) -> None:
    """Also where that has fewer files; and never where somebody else has put something."""
    out = source.parent / "out" / "blocks"
    assert hyperslab(*job(source, "split")).returncode == 0
    names = sorted(path.name for path in out.glob("[!.]*"))
    (out / "notes.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        refused = hyperslab("convert", source, out, "--blocks", "1x1x2", "-q", *more)
        assert refused.returncode == 2, refused
    assert "holds what no conversion has made, such as notes.txt" in refused.stderr
    assert sorted(path.name for path in out.glob("[!.]*")) == sorted([*names, "notes.txt"])
    assert hyperslab("verify", out).returncode == 0, "its records are still there"
    (out / "notes.txt").unlink()
    assert hyperslab("convert", source, out, "--blocks", "1x1x2", "--overwrite", "-q").returncode == 0
    assert sorted(path.name for path in out.glob("[!.]*")) == ["in_00_00_0000.nii", "in_00_00_0600.nii"]
    assert np.array_equal(load(out / "in_00_00_0600.nii"), values[:, :, 600:])


def test_a_disk_without_room_is_noticed_before_the_start(source: Path) -> None:
    with small_disk(source.parent / "disk", 4 * MIB) as disk:
        for kind in ("placed", "split"):
            name, options = KINDS[kind]
            refused = hyperslab("convert", source, disk.path / name, *options, "-q", inside=disk.inside)
            assert refused.returncode == 2
            assert re.search(r"the outputs take 9\.\d+ MB but .* has [34]\.\d+ MB free", refused.stderr), refused.stderr
        chunked = ("--chunks", "32,32,100")
        disk.remount(f"size={12 * MIB}")
        refused = hyperslab("convert", source, disk.path / "new.h5", *chunked, "-q", inside=disk.inside)
        assert refused.returncode == 2, "pieces are there twice while they are joined"
        assert sorted(path.name for path in disk.seen.iterdir()) == ["mounted"]


def test_a_disk_without_inodes_is_noticed_before_the_start(source: Path) -> None:
    with small_disk(source.parent / "disk", 64 * MIB, ",nr_inodes=40") as disk:
        for kind, options in (("blocks", ("--blocks", "5x5x5")), ("new.h5", ("--virtual", "--memory", "24MB"))):
            if kind == "new.h5":
                disk.remount("nr_inodes=8")
            refused = hyperslab("convert", source, disk.path / kind, *options, "-q", inside=disk.inside)
            assert refused.returncode == 2, refused
            assert re.search(r"the outputs are \d+ files but the file system of .* can hold \d+ more", refused.stderr)
        assert sorted(path.name for path in disk.seen.iterdir()) == ["mounted"]


def test_a_disk_that_fills_up(source: Path, slow: dict[str, str], values: Array) -> None:
    with small_disk(source.parent / "disk", 24 * MIB) as disk:
        out, seen = disk.path / "out" / "new.h5", disk.seen / "out"
        line = ("convert", source, out, "--compression", "gzip", *MEMORY, "--engine", "threads", "-q")
        with running(*line, inside=disk.inside, environment=slow) as run:
            await_tasks(run, seen, 2)
            disk.fill()
            code, said = run.wait()
        assert code == 1, said
        assert "No space left on device" in said
        assert "Traceback" not in said
        assert not (seen / "new.h5").exists()
        (disk.seen / "filler").unlink()
        done = hyperslab(*line, "--resume", inside=disk.inside)
        assert done.returncode == 0, done.stderr
        with h5py.File(seen / "new.h5", "r", locking=False) as file:
            assert np.array_equal(file["data"][()], values)
        assert list(in_bytes(seen)) == ["new.h5"]


def test_a_read_only_destination(source: Path) -> None:
    with small_disk(source.parent / "disk", 64 * MIB) as disk:
        (disk.seen / "old.nii").write_bytes(b"old")
        disk.remount("ro")
        for name, more in (("new.nii", ()), ("old.nii", ("--overwrite",)), ("blocks", ("--blocks", "2"))):
            refused = hyperslab("convert", source, disk.path / name, *more, "-q", inside=disk.inside)
            assert refused.returncode == 2, refused
            assert refused.stderr.count("\n") == 1
            assert "cannot be written" in refused.stderr
            assert str(disk.path) in refused.stderr
        assert (disk.seen / "old.nii").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["with space", "größe", "日本", "it's; $(echo) #1", "100% of [a-c]*", "-dash"])
def test_names_of_any_kind(source: Path, values: Array, name: str) -> None:
    folder = source.parent / name
    folder.mkdir()
    path = Path(shutil.copy(source, folder / f"{name}.nii"))
    for made in (f"{name}.h5", f"{name}.nii.gz"):
        assert hyperslab("convert", path, folder / "out" / made, "-q", "--engine", "serial").returncode == 0
    line = ("convert", folder / "out" / f"{name}.h5", folder / f"{name} blocks", "--blocks", "2", "--format", "nii")
    assert hyperslab(*line, "-q", "--engine", "serial").returncode == 0
    line = ("convert", folder / f"{name} blocks", folder / "merged.nii", "-q", "--engine", "serial")
    assert hyperslab(*line).returncode == 0
    assert (folder / "merged.nii").read_bytes() == path.read_bytes()
    assert np.array_equal(content(folder / "out" / f"{name}.nii.gz"), values)


def test_the_source_is_never_the_destination(source: Path) -> None:
    before = source.read_bytes()
    link, blocks = source.parent / "link.nii", source.parent / "blocks"
    link.symlink_to(source)
    (source.parent / "same").symlink_to(source.parent)
    for one, other in (
        (source, source), (link, source), (source, link), (source.parent / "same" / "in.nii", source),
        (f"{source.parent}/blocks/../in.nii", source),
    ):  # fmt: skip
        blocks.mkdir(exist_ok=True)
        refused = hyperslab("convert", one, other, "--overwrite", "-q")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "is the source itself" in refused.stderr
    blocks.rmdir()
    assert hyperslab("convert", source, blocks, "--blocks", "1x1x2", "-q").returncode == 0
    for inside in (
        blocks / "merged.nii",
        blocks / "deeper" / "merged.nii",
        source.parent / "same" / "blocks" / "m.nii",
    ):
        refused = hyperslab("convert", blocks, inside, "-q")
        assert refused.returncode == 2
        assert "lies inside the source" in refused.stderr
    assert len(list(blocks.glob("[!.]*"))) == 2
    assert source.read_bytes() == before


def test_one_writer_at_a_time_where_machines_share_pages(source: Path, values: Array) -> None:
    """A file system of FUSE may be another machine's."""
    with slow_files(source.parent, 0) as mount:
        line = ("convert", source, mount / "new.nii", *MEMORY, "-q")
        refused = hyperslab(*line, "--workers", 2)
        assert refused.returncode == 2, refused
        assert re.search(r"is on fuse\S*, where two writers must not share a page, .* use --workers 1", refused.stderr)
        assert list(mount.iterdir()) == []
        done = hyperslab(*line, "--workers", 1, "--threads", 1)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(load(mount / "new.nii"), values)
        done = hyperslab("convert", source, mount / "new.h5", *KINDS["chunks"][1], *MEMORY, "-q", "--workers", 2)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(content(mount / "new.h5"), values)
