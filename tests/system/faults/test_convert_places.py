"""Places that cannot take a conversion, or may not: said in a sentence, before the start where it
can be known.
"""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.arrays import Array
from tests.system.end_to_end.command import call
from tests.system.faults.command import load, make_volume, program, running
from tests.system.faults.conversions import (
    KINDS,
    MEMORY,
    await_tasks,
    content,
    in_bytes,
    let_go,
    refusal,
    undisturbed,
)
from tests.system.faults.disk import small_disk
from tests.system.verdicts.slowfs import slow_files

pytestmark = pytest.mark.usefixtures("without_a_report")
MIB = 2**20
CHUNKED = ("new.h5", ("--chunks", "32,32,100"))


def test_a_disk_without_room_is_noticed_before_the_start(source: Path) -> None:
    with small_disk(source.parent / "disk", 4 * MIB) as disk:
        for name, options in (KINDS["placed"], KINDS["split"], CHUNKED):
            said = refusal("convert", source, disk.seen / name, *options, "-q")
            assert re.search(r"the outputs take 9\.\d+ MB but .* has [34]\.\d+ MB free", said), said
        assert sorted(path.name for path in disk.seen.iterdir()) == ["mounted"]


def test_chunks_on_this_machine_need_room_once(source: Path) -> None:
    """Joining them at the end copies none of them."""
    with small_disk(source.parent / "disk", 12 * MIB) as disk:
        name, options = CHUNKED
        undisturbed("convert", source, disk.seen / name, *options, "-q", "--engine", "serial")
        with h5py.File(disk.seen / name) as file:
            np.testing.assert_array_equal(file["data"], load(source))


def test_a_disk_without_inodes_is_noticed_before_the_start(source: Path) -> None:
    with small_disk(source.parent / "disk", 64 * MIB, ",nr_inodes=40") as disk:
        for kind, options in (
            ("blocks", ("--blocks", "5x5x5")),
            ("new.h5", ("--virtual", *MEMORY, "--threads", "4", "--engine", "threads")),
        ):
            if kind == "new.h5":
                disk.remount("nr_inodes=26")
            said = refusal("convert", source, disk.seen / kind, *options, "-q")
            assert re.search(
                r"the run makes \d+ files, .* but the file system of .* has room for only \S+"
                r" more file",
                said,
            )
        assert sorted(path.name for path in disk.seen.iterdir()) == ["mounted"]


def test_what_is_compressed_or_has_folders_is_refused_too(source: Path) -> None:
    """Compressed output is taken to be about as small as a compressed source; the folders of chunks
    are inodes.
    """
    packed = source.parent / "in.nii.gz"
    undisturbed("convert", source, packed, "-q", "--engine", "serial")
    with small_disk(source.parent / "disk", 2 * MIB, ",nr_inodes=600") as disk:
        said = refusal("convert", packed, disk.seen / "new.nii.gz", "-q")
        assert re.search(r"the outputs take about [56]\.\d+ MB but .* free some space", said), said
        disk.remount("size=64M")
        said = refusal("convert", source, disk.seen / "new.zarr", "--chunks", "8,1,1200", "-q")
        assert "the run makes 483 files in 497 folders, and" in said


def test_remedies_are_options_that_convert_has(source: Path) -> None:
    out = source.parent / "out"
    said = refusal(
        "convert", source, out / "new.h5", "--chunks", "64,60,600", "--memory", "2MB", "-q"
    )
    assert "a task needs" in said
    assert "--partition" not in said
    assert "--block-shape" not in said
    (source.parent / "file").write_text("")
    said = refusal("convert", source, source.parent / "file", "--blocks", 2, "-q")
    assert f"{source.parent / 'file'} is a file: give a directory" in said
    assert "-o" not in said.split()
    line = ("convert", source, out / "new.h5", "--dtype", "uint8", "--engine", "serial")
    failed = call(*line, "--no-report")
    assert failed.code == 1
    assert "choose another --dtype" in failed.err
    assert failed.out.startswith(f"converting {source.name}: ")
    assert "--resume" not in failed.err + failed.out
    assert call("clean", out / "new.h5").code == 0
    assert list(out.iterdir()) == [], "as the sentence says"


def test_a_disk_that_fills_up(source: Path, held: dict[str, str], values: Array) -> None:
    with small_disk(source.parent / "disk", 24 * MIB) as disk:
        out, seen = disk.path / "out" / "new.h5", disk.seen / "out"
        line = (
            "convert",
            source,
            out,
            "--compression",
            "gzip",
            *MEMORY,
            "--engine",
            "threads",
            "--threads",
            4,
            "-q",
        )
        with running(*line, inside=disk.inside, environment=held) as run:
            await_tasks(run, seen, 2)
            disk.fill()
            let_go(held)
            code, said = run.wait()
        assert code == 1, said
        assert "No space left on device" in said
        assert "Traceback" not in said
        if (seen / "new.h5").exists():  # its tasks were done: the records of it did not fit
            assert_holds(seen / "new.h5", values)
        (disk.seen / "filler").unlink()
        done = program(*line, "--resume", inside=disk.inside)
        assert done.returncode == 0, done.stderr
        assert_holds(seen / "new.h5", values)
        assert list(in_bytes(seen)) == ["new.h5"]


def assert_holds(path: Path, values: Array) -> None:
    with h5py.File(path, "r", locking=False) as file:
        assert np.array_equal(file["data"][()], values)


def test_a_read_only_destination(source: Path) -> None:
    with small_disk(source.parent / "disk", 64 * MIB) as disk:
        (disk.seen / "old.nii").write_bytes(b"old")
        disk.remount("ro")
        for name, more in (
            ("new.nii", ()),
            ("old.nii", ("--overwrite",)),
            ("blocks", ("--blocks", "2")),
        ):
            said = refusal("convert", source, disk.seen / name, *more, "-q")
            assert "cannot be written" in said
            assert str(disk.seen) in said
        assert (disk.seen / "old.nii").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["größe 日本 it's; $(echo) #1", "100% of [a-c]*", "-dash"])
def test_names_of_any_kind(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    path = folder / f"{name}.nii"
    values = make_volume(path)
    line = ("-q", "--engine", "serial")
    for made in (f"{name}.h5", f"{name}.nii.gz"):
        undisturbed("convert", path, folder / "out" / made, *line)
    blocks = folder / f"{name} blocks"
    undisturbed(
        "convert", folder / "out" / f"{name}.h5", blocks, "--blocks", "2", "--format", "nii", *line
    )
    undisturbed("convert", blocks, folder / "merged.nii", *line)
    assert (folder / "merged.nii").read_bytes() == path.read_bytes()
    assert np.array_equal(content(folder / "out" / f"{name}.nii.gz"), values)


def test_the_source_is_never_the_destination(source: Path) -> None:
    before = source.read_bytes()
    link, blocks = source.parent / "link.nii", source.parent / "blocks"
    link.symlink_to(source)
    (source.parent / "same").symlink_to(source.parent)
    for one, other in (
        (source, source),
        (link, source),
        (source, link),
        (source.parent / "same" / "in.nii", source),
        (f"{source.parent}/blocks/../in.nii", source),
    ):
        blocks.mkdir(exist_ok=True)
        assert "is the source itself" in refusal("convert", one, other, "--overwrite", "-q")
    blocks.rmdir()
    undisturbed("convert", source, blocks, "--blocks", "1x1x2", "-q", "--engine", "serial")
    for inside in (
        blocks / "merged.nii",
        blocks / "deeper" / "merged.nii",
        source.parent / "same" / "blocks" / "m.nii",
    ):
        assert "lies inside the source" in refusal("convert", blocks, inside, "-q")
    assert len(list(blocks.glob("[!.]*"))) == 2
    assert source.read_bytes() == before


def test_one_writer_at_a_time_where_machines_share_pages(source: Path, values: Array) -> None:
    """A file system of FUSE may be another machine's."""
    with slow_files(source.parent, 0) as mount:
        line = ("convert", source, mount / "new.nii", *MEMORY, "-q")
        said = refusal(*line, "--workers", 2)
        assert re.search(
            r"is on fuse\S*, where two writers must not share a page, .* use --workers 1", said
        )
        assert list(mount.iterdir()) == []
        undisturbed(*line, "--workers", 1, "--threads", 1)
        assert np.array_equal(load(mount / "new.nii"), values)
        undisturbed(
            "convert",
            source,
            mount / "new.h5",
            *KINDS["chunks"][1],
            *MEMORY,
            "-q",
            "--engine",
            "threads",
        )
        assert np.array_equal(content(mount / "new.h5"), values)
