"""Bad files among good ones, and files that change while a run reads them."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.testing.holding import hold, let_go
from tests.repetitions import few
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    running,
)

pytestmark = pytest.mark.usefixtures("on_threads")

BLOCKS = 4


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


def behead(path: Path) -> None:
    os.truncate(path, 352)


def scramble(path: Path) -> None:
    path.write_bytes(b"no image" * 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncate, "truncated: 1,000 bytes missing"),
    "header only": (behead, "truncated: 16,384 bytes missing"),
    "no image": (scramble, "is not a NIfTI file although its name says so"),
    "empty": (empty, "is empty"),
}


@pytest.mark.parametrize(
    ("how", "function"), [*((how, "add") for how in BROKEN), ("truncated", "TOTAL")]
)
def test_a_broken_block_among_good_ones(tmp_path: Path, how: str, function: str) -> None:
    damage, reason = BROKEN[how]
    wholes = [make_volume(tmp_path / "in" / f"b_{n}.nii", n) for n in range(BLOCKS)]
    damage(tmp_path / "in" / "b_2.nii")
    done = hyperslab("run", f"{FUNCTIONS}:{function}", tmp_path / "in", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"failed: {tmp_path}/in/b_2.nii: " in done.stderr
    assert reason in done.stderr
    assert f"1 of {BLOCKS} tasks failed" in done.stderr
    assert "Traceback" not in done.stderr
    written = {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")}
    assert written == ({"b_0.nii", "b_1.nii", "b_3.nii"} if function == "add" else set())
    for name in written:
        assert np.array_equal(load(tmp_path / "out" / name), wholes[int(name[2])] + np.uint16(1))


def test_a_mosaic_needs_all_its_blocks(tmp_path: Path) -> None:
    for n in range(2):
        make_volume(tmp_path / "in" / f"b_{n}.nii", n)
    truncate(tmp_path / "in" / "b_1.nii")
    options = ("--sources", "concatenated", "--axis", 2)
    done = hyperslab("run", f"{FUNCTIONS}:add", tmp_path / "in", "-o", tmp_path / "out", *options)
    assert done.returncode == 1
    assert f"{tmp_path}/in/b_1.nii: truncated: 1,000 bytes missing" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_corrupt_gzip_stream(tmp_path: Path) -> None:
    make_volume(tmp_path / "in" / "b_0.nii")
    data = bytearray(gzip.compress((tmp_path / "in" / "b_0.nii").read_bytes(), mtime=0))
    data[-2000:-1000] = bytes(1000)
    (tmp_path / "in" / "b_1.nii.gz").write_bytes(data)
    done = hyperslab("run", f"{FUNCTIONS}:add", tmp_path / "in", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"failed: {tmp_path}/in/b_1.nii.gz[" in done.stderr
    assert "corrupt" in done.stderr
    assert [path.name for path in (tmp_path / "out").glob("*.nii")] == ["b_0.nii"]


def test_a_corrupt_chunk(tmp_path: Path) -> None:
    """One chunk of a file is damaged: only the task that needs it fails."""
    values = np.random.default_rng(5).integers(0, 9, (32, 32), dtype=np.int32)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        dataset = file.create_dataset("a", data=values, chunks=(8, 32), compression="gzip")
        chunk = dataset.id.get_chunk_info(2)
    with (tmp_path / "in.h5").open("r+b") as raw:
        raw.seek(chunk.byte_offset + chunk.size // 2)
        raw.write(bytes(20))
    done = hyperslab(
        "run",
        f"{FUNCTIONS}:add",
        tmp_path / "in.h5",
        "-o",
        tmp_path / "out",
        "--partition",
        "chunks",
    )
    assert done.returncode == 1
    assert f"failed: {tmp_path}/in.h5::/a[16:24, 0:32]: " in done.stderr
    assert "copy the file again" in done.stderr
    assert "1 of 4 tasks failed" in done.stderr
    assert len(list((tmp_path / "out").glob("*.nii"))) == 3


def rewrite(path: Path) -> None:
    make_volume(path, seed=9)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "rewritten": (rewrite, "was written to after the run was planned"),
    "longer": (grow, "was 16736 bytes when the run was planned and is 16740 now"),
    "gone": (Path.unlink, "is no longer there"),
}


NOTICED = "a file that is another one now: all changes, in all formats, tests/formats"


@pytest.mark.parametrize("change", few(["rewritten"], CHANGES, NOTICED))
def test_a_file_that_changes_under_way(tmp_path: Path, change: str) -> None:
    alter, reason = CHANGES[change]
    values, path, out = make_volume(tmp_path / "in.nii"), tmp_path / "in.nii", tmp_path / "out"
    runs = tmp_path / "runs"
    shutil.copy2(path, tmp_path / "copy.nii")
    arguments = (
        "run",
        f"{FUNCTIONS}:counted",
        path,
        "-o",
        out,
        "--partition",
        "slabs",
        "-p",
        f"folder={runs}",
        "--engine",
        "threads",
    )
    runs.mkdir()
    hold(runs)
    with running(*arguments) as run:
        await_recorded(run, out, 5)
        alter(path)
        let_go(runs)
        code, said = run.wait()
    assert code == 1
    assert f"{path}: {reason}" in said
    assert "Traceback" not in said
    for block in out.glob("*.nii"):
        assert np.array_equal(
            load(block)[:, :, 0], values[:, :, int(block.stem[-2:])] + np.uint16(1)
        )
    shutil.copy2(tmp_path / "copy.nii", path)
    assert hyperslab(*arguments, "--resume", "-q").returncode == 0
    assert len(list(out.glob("*.nii"))) == SLABS


WAITS = """
import os, time

def f(block, slab):
    while any(slab.start) and os.path.exists({hold!r}):
        time.sleep(0.01)
    return block
"""
"Its first block waits for nobody."


def test_a_function_that_is_edited_under_way(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    code = WAITS.format(hold=str(tmp_path / "hold"))
    (tmp_path / "mine.py").write_text(code)
    (tmp_path / "hold").touch()
    arguments = (
        "run",
        f"{tmp_path}/mine.py:f",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        "--blocks",
        8,
        "--no-trial",
    )
    with running(*arguments) as run:
        await_recorded(run, tmp_path / "out", 1)
        (tmp_path / "mine.py").write_text(code.replace("return block", "return block * 0"))
        for worker in run.workers():
            worker.kill()
        (tmp_path / "hold").unlink()
        status, said = run.wait()
    assert status == 1
    assert f"{tmp_path}/mine.py was edited after the run was planned: start the run again" in said
    refused = hyperslab(*arguments, "--resume")
    assert refused.returncode == 2
    assert "the function was edited after" in refused.stderr
