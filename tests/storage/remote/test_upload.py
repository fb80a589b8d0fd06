"""Uploads: complete or not there, never over something else, with few bytes in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import hyperslab
from hyperslab.errors import FormatError, HyperslabError, OutputBusy, Unavailable, UsageError
from hyperslab.storage import zarr_names
from hyperslab.storage.remote import objects
from hyperslab.storage.remote import uploading as upload
from hyperslab.storage.remote.uploading import PART_NBYTES
from hyperslab.testing.formats import traced_memory
from tests.storage.remote.conftest import BUCKET, S3
from tests.storage.remote.server import Server

VALUES = np.arange(6 * 8 * 10, dtype="i4").reshape(6, 8, 10)
PATIENCE_S = 60.0
"""Time for an answer, but where none comes: a store on a busy machine takes seconds for some, and
what it has not answered in time is sent again.
"""


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch, s3: S3) -> Iterator[None]:
    monkeypatch.setattr(objects, "_FIRST_PAUSE_S", 0.01)
    yield
    s3.server.forget()
    if s3.fs.exists(f"{BUCKET}/up"):
        s3.fs.rm(f"{BUCKET}/up", recursive=True)


def sent(
    s3: S3, local: Path, name: str, timeout_s: float = PATIENCE_S, **more: Any
) -> upload.Uploaded:
    options = {**s3.options, "hyperslab_attempts": 3, "hyperslab_timeout_s": timeout_s}
    return upload.upload(local, f"s3://{BUCKET}/up/{name}", options, **more)


def test_a_file(s3: S3, folder: Path) -> None:
    """What was sent is what is read."""
    for name in ("made.h5", "plain.nii", "ä b#?%20.nii"):
        local = folder / ("plain.nii" if "ä" in name else name)
        done = sent(s3, local, name)
        assert done == upload.Uploaded(f"s3://{BUCKET}/up/{name}", 1, local.stat().st_size)
        assert s3.fs.cat_file(f"{BUCKET}/up/{name}") == local.read_bytes()
    assert hyperslab.open(f"s3://{BUCKET}/up/made.h5::raw", storage_options=s3.options)[...].any()


def test_an_empty_file(s3: S3, tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    assert sent(s3, tmp_path / "none", "none").nbytes == 0
    assert s3.fs.info(f"{BUCKET}/up/none")["size"] == 0


def test_a_large_file_is_sent_in_parts(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that fail are sent again, the others are not; what it takes of memory does not grow
    with the file.
    """
    monkeypatch.setattr(upload, "PART_NBYTES", 5 * 2**20)  # the least that S3 takes
    raw = np.random.default_rng(0).bytes(23 * 2**20)
    (tmp_path / "large").write_bytes(raw)
    s3.server.only = "partNumber"
    s3.server.faults.extend(["", "503", "", "drop", ""])
    with traced_memory() as peak:
        sent(s3, tmp_path / "large", "large")
    assert s3.fs.cat_file(f"{BUCKET}/up/large") == raw
    puts = [
        seen
        for seen in s3.server.seen
        if seen.method == "PUT" and "partNumber" in seen.path and seen.status == 200
    ]
    assert len(puts) == 5
    assert peak[0] < 4 * PART_NBYTES * upload.DEPTH


def test_a_large_file_that_cannot_be_sent_leaves_nothing(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART_NBYTES", 5 * 2**20)
    (tmp_path / "large").write_bytes(bytes(12 * 2**20))
    s3.put("up/large", b"older")
    s3.server.only = "partNumber"
    s3.server.faults.append("403")
    with pytest.raises(FormatError, match="access is denied"):
        sent(s3, tmp_path / "large", "large", overwrite=True)
    assert s3.fs.cat_file(f"{BUCKET}/up/large") == b"older"
    assert not s3.fs.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads")


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("403", FormatError, "access is denied"),
        ("503", Unavailable, "slow down .503 SlowDown., at each of 3 attempts"),
        ("drop", Unavailable, "at each of 3 attempts"),
        ("hang", Unavailable, "no answer within 1 s"),
    ],
)
def test_what_goes_on_failing(
    fault: str, error: type[HyperslabError], words: str, s3: S3, folder: Path
) -> None:
    s3.server.always = fault
    timeout_s = 1.0 if fault == "hang" else PATIENCE_S
    with pytest.raises(error, match=words) as raised:
        sent(s3, folder / "plain.nii", "plain.nii", timeout_s)
    assert raised.value.__cause__ is None
    s3.server.forget()
    assert not s3.fs.exists(f"{BUCKET}/up/plain.nii")


def test_what_fails_in_passing(s3: S3, folder: Path) -> None:
    s3.server.faults.extend(["503", "", "500", "503"])
    sent(s3, folder / "plain.nii", "plain.nii")
    assert s3.fs.cat_file(f"{BUCKET}/up/plain.nii") == (folder / "plain.nii").read_bytes()
    assert not s3.server.faults


def test_nothing_is_written_over_unless_told(s3: S3, folder: Path, tmp_path: Path) -> None:
    s3.put("up/a.nii", b"older")
    with pytest.raises(OutputBusy, match="exists; choose another name"):
        sent(s3, folder / "plain.nii", "a.nii")
    assert s3.fs.cat_file(f"{BUCKET}/up/a.nii") == b"older"
    sent(s3, folder / "plain.nii", "a.nii", overwrite=True)
    assert s3.fs.cat_file(f"{BUCKET}/up/a.nii") == (folder / "plain.nii").read_bytes()
    s3.put("up/dir/x", b"1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "y").write_bytes(b"2")
    with pytest.raises(OutputBusy, match="exists"):
        sent(s3, tmp_path / "d", "dir/")


def test_somebody_else_is_faster(s3: S3, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that appears after we have looked is not written over."""
    monkeypatch.setattr(upload, "_there", lambda _: {})
    s3.put("up/a.nii", b"theirs")
    with pytest.raises(UsageError, match="exists"):
        sent(s3, folder / "plain.nii", "a.nii")
    assert s3.fs.cat_file(f"{BUCKET}/up/a.nii") == b"theirs"


def make_group(path: Path, version: Any, fill: int = 0) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=version)
    array = group.create_array(
        "inner/data", shape=VALUES.shape, chunks=(2, 4, 5), dtype="i4", fill_value=-1
    )
    array[:] = VALUES + fill
    if version == 2:
        zarr.consolidate_metadata(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_directory(version: int, s3: S3, tmp_path: Path) -> None:
    make_group(tmp_path / "z", version)
    done = sent(s3, tmp_path / "z", "z")
    files = [path for path in (tmp_path / "z").rglob("*") if path.is_file()]
    assert (done.files, done.nbytes) == (len(files), sum(path.stat().st_size for path in files))
    s3.fs.get(f"{BUCKET}/up/z", str(tmp_path / "back"), recursive=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "back")["inner/data"][:], VALUES)  # type: ignore[index]
    order = [
        seen.path.split("?")[0].removeprefix(f"/{BUCKET}/up/z/")
        for seen in s3.server.seen
        if seen.method == "PUT"
    ]
    documents = [name for name in order if name.rpartition("/")[2] in zarr_names.DOCUMENTS]
    assert order[-len(documents) :] == documents, (
        "all data come before what says that they are there"
    )
    assert [name.count("/") for name in documents] == sorted(
        (name.count("/") for name in documents), reverse=True
    )
    assert s3.server.most_at_once <= upload.DEPTH


def test_a_directory_that_is_cut_off_cannot_be_opened(s3: S3, tmp_path: Path) -> None:
    make_group(tmp_path / "z", 3)
    s3.server.faults.extend(["", "", "", "", *["403"] * 8])
    with pytest.raises(FormatError, match="access is denied"):
        sent(s3, tmp_path / "z", "z")
    s3.server.forget()
    there = s3.fs.find(f"{BUCKET}/up/z")
    assert there
    assert not any(name.endswith("zarr.json") for name in there)
    sent(s3, tmp_path / "z", "z", overwrite=True)
    assert len(s3.fs.find(f"{BUCKET}/up/z")) == sum(
        path.is_file() for path in (tmp_path / "z").rglob("*")
    )


def test_a_directory_over_an_older_one(s3: S3, tmp_path: Path) -> None:
    """Nothing of the older one is left; while both are there, nothing says so."""
    make_group(tmp_path / "old", 2)
    make_group(tmp_path / "new", 3, fill=7)
    sent(s3, tmp_path / "old", "z")
    s3.server.forget()
    sent(s3, tmp_path / "new", "z", overwrite=True)
    names = {name.removeprefix(f"{BUCKET}/up/z/") for name in s3.fs.find(f"{BUCKET}/up/z")}
    assert names == {
        str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*") if p.is_file()
    }
    acts = [
        seen.method
        for seen in s3.server.seen
        if seen.method in ("PUT", "DELETE") and upload.REPLACING not in seen.path
    ]
    assert acts.index("PUT") > 0, "the older documents go first"


@pytest.mark.parametrize(
    ("local", "url", "words"),
    [
        ("plain.nii", "https://host/a.nii", "cannot be written to"),
        ("plain.nii", "/a/b.nii", "cannot be written to"),
        ("plain.nii", "file:///a/b.nii", "cannot be written to"),
        ("absent.nii", "s3://bucket/up/a.nii", "is not a file that is there"),
        ("pipe", "s3://bucket/up/a.nii", "is not a file that is there"),
        ("hollow", "s3://bucket/up/a", "there is nothing to upload"),
    ],
)
def test_wrong_use(local: str, url: str, words: str, s3: S3, folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hollow").mkdir()
    source = tmp_path / local if local in ("pipe", "hollow") else folder / local
    with pytest.raises(UsageError, match=words):
        upload.upload(source, url, s3.options if url.startswith("s3") else None)


class Shelf(MemoryFileSystem):  # type: ignore[misc]
    """A store whose objects can be seen while they are written."""

    protocol = "shelf"
    names: list[str] = []  # noqa: RUF012

    def put_file(self, lpath: str, rpath: str, *args: Any, **options: Any) -> None:
        self.names.append(rpath)
        if "broken" in rpath:
            raise ValueError("no room")
        super().put_file(lpath, rpath, *args, **options)


def test_other_stores(folder: Path) -> None:
    """Where an object could be seen before it is complete, it is renamed when it is."""
    fsspec.register_implementation("shelf", Shelf, clobber=True)
    Shelf.names.clear()
    for scheme in ("memory", "shelf"):
        done = upload.upload(folder / "plain.nii", f"{scheme}://{scheme}/a.nii")
        assert done.nbytes == (folder / "plain.nii").stat().st_size
    store = fsspec.filesystem("memory", skip_instance_cache=True)
    assert store.cat_file("/memory/a.nii") == (folder / "plain.nii").read_bytes()
    (temporary,) = Shelf.names
    assert temporary.endswith(".part")
    assert hyperslab.open("memory://memory/a.nii")[0].any()
    with pytest.raises(UsageError, match="no room"):
        upload.upload(folder / "plain.nii", "shelf://shelf/broken.nii")
    store.rm("/memory", recursive=True)


def test_what_has_not_arrived_is_found_out(
    s3: S3, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_put", lambda *_: _nothing())
    with pytest.raises(Unavailable, match=r"holds 0 bytes of .* after it was sent"):
        sent(s3, folder / "plain.nii", "lost.nii")


async def _nothing() -> None:
    """Say that it was sent."""


def test_web_servers_are_left_alone(web: Server, folder: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written to"):
        upload.upload(folder / "plain.nii", f"{web.url}/a.nii")
    assert web.seen == []


def test_what_is_not_of_a_zarr_store_is_not_removed(s3: S3, tmp_path: Path) -> None:
    make_group(tmp_path / "z", 3)
    s3.put("up/results/paper.csv", b"1,2")
    with pytest.raises(
        OutputBusy, match=r"up/results holds paper\.csv, which is not of a Zarr store"
    ):
        sent(s3, tmp_path / "z", "results", overwrite=True)
    make_group(tmp_path / "above", 3)
    sent(s3, tmp_path / "z", "many/a.zarr")
    with pytest.raises(OutputBusy, match=r"up/many holds a\.zarr/"):
        sent(s3, tmp_path / "above", "many", overwrite=True)
    s3.put("up/many/a.zarr/inner/notes.txt", b"of a user")
    with pytest.raises(OutputBusy, match=r"holds inner/notes.txt"):
        sent(s3, tmp_path / "above", "many/a.zarr", overwrite=True)
    assert s3.fs.exists(f"{BUCKET}/up/many/a.zarr/zarr.json")
    with pytest.raises(UsageError, match=r"s3://bucket names all of a store"):
        upload.upload(tmp_path / "z", "s3://bucket/", s3.options, overwrite=True)
    assert s3.fs.cat_file(f"{BUCKET}/up/results/paper.csv") == b"1,2"


def test_a_replacement_that_was_cut_off_is_made_again(s3: S3, tmp_path: Path) -> None:
    """Also where the older store had other names and has lost its documents."""
    make_group(tmp_path / "old", 2)
    make_group(tmp_path / "new", 3, fill=7)
    sent(s3, tmp_path / "old", "z")
    s3.server.only = "c/1/1/1"
    s3.server.faults.extend(["403"])
    with pytest.raises(FormatError, match="access is denied"):
        sent(s3, tmp_path / "new", "z", overwrite=True)
    s3.server.forget()
    sent(s3, tmp_path / "new", "z", overwrite=True)
    names = {name.removeprefix(f"{BUCKET}/up/z/") for name in s3.fs.find(f"{BUCKET}/up/z")}
    assert names == {
        str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*") if p.is_file()
    }


def test_directories_behind_links_are_sent(s3: S3, tmp_path: Path) -> None:
    make_group(tmp_path / "z", 3)
    (tmp_path / "z/inner/data/c").rename(tmp_path / "elsewhere")
    (tmp_path / "z/inner/data/c").symlink_to(tmp_path / "elsewhere")
    sent(s3, tmp_path / "z", "z")
    s3.fs.get(f"{BUCKET}/up/z", str(tmp_path / "back"), recursive=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "back")["inner/data"][:], VALUES)  # type: ignore[index]
    (tmp_path / "z/inner/again").symlink_to(tmp_path / "z")
    with pytest.raises(UsageError, match="inner/again is a link to a directory that it lies in"):
        sent(s3, tmp_path / "z", "circle")
