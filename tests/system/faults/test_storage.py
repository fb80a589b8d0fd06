"""What a run has reported as done is on storage: a loss of power takes nothing of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hyperslab.storage import renaming
from tests.repetitions import few
from tests.system.end_to_end.command import call, save
from tests.system.faults.command import FUNCTIONS, SHAPE, make_volume
from tests.system.faults.conversions import KINDS, job, undisturbed

pytestmark = pytest.mark.usefixtures("without_a_report")
SERIAL = ("--engine", "serial", "-q")
MEAN = """
def mean(block):
    if block.min() == 2**16 - 1:
        raise OSError("not yet")
    return block.mean(axis=-1).astype("float32")
"""
FREE = {"trace.parquet", "summary.json.part", "lock", "workers.ended", "worker.log"}
"Records that a loss of power may take: nothing rests on them."


class Storage:
    """Which files and names would survive a loss of power, by inode."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._sizes: dict[int, int] = {}
        self._names: dict[int, set[tuple[str, int]]] = {}
        fsync, synchronise = os.fsync, renaming.synchronise

        def noted_fsync(fd: int) -> None:
            fsync(fd)
            self._take(Path(os.readlink(f"/proc/self/fd/{fd}")))

        def noted_synchronise(path: Path, only_names: bool = False) -> None:
            synchronise(path, only_names)
            if path.is_dir() and not only_names:  # a whole file system
                for each in (root, *root.rglob("*")):
                    self._take(each)

        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(renaming, "synchronise", noted_synchronise)

    def _take(self, path: Path) -> None:
        about = path.stat()
        if path.is_dir():
            self._names[about.st_ino] = {(entry.name, entry.inode()) for entry in os.scandir(path)}
        else:
            self._sizes[about.st_ino] = about.st_size

    def lost(self, folder: Path) -> Iterator[str]:
        """What in a folder would be gone or shorter."""
        for path in sorted(folder.rglob("*")):
            about = path.stat()
            if path.name in FREE or "partials" in path.parts or path.suffix == ".parquet":
                continue
            if (path.name, about.st_ino) not in self._names.get(path.parent.stat().st_ino, set()):
                yield f"the name of {path.relative_to(folder)}"
            if path.is_file() and self._sizes.get(about.st_ino) != about.st_size:
                yield f"bytes of {path.relative_to(folder)}"


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    return Storage(tmp_path, monkeypatch)


def is_lost(what: str) -> bool:
    """Outputs and what they are known by; the folders and pictures of a submission are neither."""
    return ".hyperslab" not in what or any(
        name in what for name in ("manifest", "journal", "plan", "committed")
    )


FORMS = ("placed", "parts", "split", "shards")
"One kind of each form of writing."


@pytest.mark.parametrize("kind", few(FORMS, KINDS, "a conversion is on storage when it ends"))
def test_a_conversion(tmp_path: Path, source: Path, storage: Storage, kind: str) -> None:
    undisturbed(*job(source, kind))
    assert list(filter(is_lost, storage.lost(tmp_path / "out"))) == []


@pytest.mark.parametrize(
    "function", ["histogram", "stats", f"{FUNCTIONS}:TOTAL", f"{FUNCTIONS}:BLOCKS", "array"]
)
def test_a_reduction(tmp_path: Path, storage: Storage, function: str) -> None:
    make_volume(tmp_path / "in.nii")
    if function == "array":
        (tmp_path / "profile.py").write_text(
            "import numpy as np\nimport hyperslab\nprofile = hyperslab.Fold(lambda block:"
            " block.sum(axis=(0, 1)).sum(keepdims=True), lambda a, b: a + b)\n"
        )
        function = f"{tmp_path}/profile.py:profile"
    done = call("run", function, tmp_path / "in.nii", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done
    assert list(filter(is_lost, storage.lost(tmp_path / "out"))) == []
    results = [path for path in (tmp_path / "out").iterdir() if path.is_file()]
    assert results, "nothing was made"
    assert all(path.stat().st_size for path in results)


def test_blocks(tmp_path: Path, storage: Storage) -> None:
    values = make_volume(tmp_path / "in.nii")
    done = call(
        "run", "increment", tmp_path / "in.nii", "-o", tmp_path / "out", "--blocks", 4, *SERIAL
    )
    assert done.code == 0, done
    assert list(filter(is_lost, storage.lost(tmp_path / "out"))) == []
    assert len(list((tmp_path / "out").glob("*.nii"))) == 4
    assert values.size


def test_complete_files_of_a_run_that_failed(
    tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they are known by is on storage before the first of them has its name."""
    (tmp_path / "mine.py").write_text(MEAN)
    for name in ("a", "b"):
        make_volume(tmp_path / "in" / f"{name}.nii")
    save(tmp_path / "in" / "bad.nii", np.full(SHAPE, 2**16 - 1, np.uint16))
    plain, before = renaming.rename, list[str]()

    def rename(ready: Path, final: Path, overwrite: bool) -> None:
        journal = [what for what in storage.lost(tmp_path / "out") if "journal" in what]
        before.extend([final.name, *journal])
        plain(ready, final, overwrite)

    monkeypatch.setattr(renaming, "rename", rename)
    function = f"{tmp_path}/mine.py:mean"
    done = call("run", function, tmp_path / "in", "-o", tmp_path / "out", "--retries", 0, *SERIAL)
    assert done.code == 1
    assert before == ["a.nii", "b.nii"]
    named = [what for what in storage.lost(tmp_path / "out") if "a.nii" in what or "b.nii" in what]
    assert named == []


def test_what_is_not_synchronised_counts_as_lost(tmp_path: Path, storage: Storage) -> None:
    """Or the tests above could not fail."""
    (tmp_path / "out").mkdir()
    np.save(tmp_path / "out" / "result.npy", np.arange(4))
    assert list(storage.lost(tmp_path / "out")) == ["the name of result.npy", "bytes of result.npy"]
