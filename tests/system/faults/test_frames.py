"""`verify` covers all of a volume: its values by the checksums of regions, what is beside them by
that of its frame.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.blocks import checksums
from tests.repetitions import few
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.conversions import KINDS, job, undisturbed

pytestmark = pytest.mark.usefixtures("without_a_report")
Sound = Callable[[str], Path]


def verified(out: Path) -> Finished:
    return call("verify", out)


def place(tmp_path: Path, kind: str) -> Path:
    return tmp_path / "out" / KINDS[kind][0]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Change bytes and leave size and time as they were."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        assert file.read(len(data)) != data
        file.seek(offset)
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def set_slope(path: Path) -> None:
    """The field scl_slope of NIfTI-1."""
    overwrite(path, 112, np.array(2.5, "<f4").tobytes())


def rename_axis(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["data"].attrs["units_of_values"] = "mm"


def flip_in_the_index(path: Path) -> None:
    """A byte of the last node of the B-tree, which lies behind all chunks."""
    offset = path.stat().st_size - 1
    overwrite(path, offset, bytes([path.read_bytes()[-1] ^ 255]))


def change_document(path: Path) -> None:
    document = path / "data" / "zarr.json"
    said = json.loads(document.read_text())
    said.setdefault("attributes", {})["scale_factor"] = 2.5
    document.write_text(json.dumps(said))


def remove_document(path: Path) -> None:
    (path / "data" / "zarr.json").unlink()


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def add_document(path: Path) -> None:
    (path / "data" / "c" / ".zattrs").write_text("{}")


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "slope of .nii": ("placed", set_slope),
    "header of .nii.gz": (
        "runs",
        lambda path: overwrite(path, 40, bytes([path.read_bytes()[40] ^ 255])),
    ),
    "attribute of .h5": ("chunks", rename_axis),
    "index of .h5": ("chunks", flip_in_the_index),
    "virtual .h5": ("parts", rename_axis),
    "document of .zarr": ("store", change_document),
    "more behind .nii": ("placed", append),
    "more behind .nii.gz": ("runs", append),
    "another document of .zarr": ("store", add_document),
    "no document of .zarr": ("store", remove_document),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, saved: Path) -> Sound:
    """The folder of a conversion of a kind, made once, of which tests have copies; a first one is
    verified.
    """
    found: dict[str, Path] = {}

    def of_kind(kind: str) -> Path:
        if kind not in found:
            folder = tmp_path_factory.mktemp(kind)
            undisturbed(*job(Path(shutil.copy2(saved, folder)), kind))
            found[kind] = folder / "out"
            shutil.copytree(found[kind], folder / "copy" / "out")
            assert verified(place(folder / "copy", kind)).code == 0
        return found[kind]

    return of_kind


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_header_is_found(tmp_path: Path, sound: Sound, change: str) -> None:
    kind, deed = CHANGES[change]
    shutil.copytree(sound(kind), tmp_path / "out")
    path = place(tmp_path, kind)
    deed(path)
    found = verified(path)
    assert (found.code, f"{path.name} (header)" in found.out + found.err) == (1, True), found


FORMS = ("placed", "parts", "split", "shards")
"One kind of each form of writing."


@pytest.mark.parametrize("kind", few(FORMS, KINDS, "every volume has a frame"))
def test_every_volume_has_a_frame(sound: Sound, kind: str) -> None:
    (record,) = sound(kind).rglob("manifest.json")
    entries = json.loads(record.read_text())["outputs"]
    names = {entry["path"] for entry in entries}
    assert sorted(entry["path"] for entry in entries if "frame" in entry) == sorted(names)
    assert all(entry["nbytes"] > 0 for entry in entries if "frame" in entry)


def test_a_frame_of_a_file_that_an_earlier_submission_finished_is_kept(
    tmp_path: Path, source: Path
) -> None:
    undisturbed(*job(source, "split"))
    last, *_ = sorted(place(tmp_path, "split").glob("*.nii"), reverse=True)
    last.unlink()
    undisturbed(*job(source, "split", "--resume"))
    first = min(place(tmp_path, "split").glob("*.nii"))
    set_slope(first)
    found = verified(place(tmp_path, "split"))
    assert (found.code, f"{first.name} (header)" in found.out + found.err) == (1, True), found


STORES: dict[str, Callable[[Path], None]] = {
    "changed": change_document,
    "removed": remove_document,
    "added": add_document,
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, saved: Path) -> Path:
    """The folder of a run whose blocks are stores, of which tests have copies."""
    folder = tmp_path_factory.mktemp("stores")
    words = ("increment", saved, "-o", folder / "out", "--blocks", 2, "--format", "zarr")
    undisturbed("run", *words, "--engine", "serial", "-q")
    shutil.copytree(folder / "out", folder / "copy")
    assert verified(folder / "copy").code == 0
    return folder / "out"


@pytest.mark.parametrize("change", STORES)
def test_documents_of_blocks_that_are_stores_are_covered(
    tmp_path: Path, stores: Path, change: str
) -> None:
    """Each block is an output by itself, which has no frame."""
    out = tmp_path / "out"
    shutil.copytree(stores, out)
    block = min(out.glob("*.zarr"))
    STORES[change](block)
    found = verified(out)
    assert (found.code, f"wrong: {block.name}" in found.out) == (1, True), found


def test_a_store_of_an_earlier_version_is_verified_by_its_values(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum covers no documents."""
    monkeypatch.setattr(checksums, "with_documents", lambda values, *_: values)
    out = tmp_path / "out"
    words = ("increment", source, "-o", out, "--blocks", 2, "--format", "zarr")
    undisturbed("run", *words, "--engine", "serial", "-q")
    monkeypatch.undo()
    assert verified(out).code == 0


@pytest.mark.parametrize("version", [2, 3])
def test_gzip_in_stores_is_read_chunk_by_chunk(tmp_path: Path, version: int) -> None:
    """It is no gzip stream, although its only codec is gzip: `verify`, `diff`, views and runs read
    it.
    """
    values = np.random.default_rng(0).integers(0, 50, (80, 64, 512)).astype("u2")
    nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    encoding = ("--compression", "gzip", "--chunks", "40,64,64", "--zarr-version", version)
    threads = ("--engine", "threads", "--threads", 2, "--memory", "24MB", "-q")
    undisturbed("convert", tmp_path / "in.nii", tmp_path / "a.zarr", *encoding, *threads)
    assert verified(tmp_path / "a.zarr").code == 0
    assert call("diff", tmp_path / "in.nii", tmp_path / "a.zarr", "--memory", "24MB").code == 0
    view = hyperslab.open(tmp_path / "a.zarr")
    assert np.array_equal(view[3:70, :, 5:500:7], values[3:70, :, 5:500:7])
    undisturbed("convert", tmp_path / "a.zarr", tmp_path / "b.nii", "--engine", "threads", "-q")
    assert np.array_equal(np.asanyarray(nib.load(tmp_path / "b.nii").dataobj), values)  # type: ignore[attr-defined]
