"""`hyperslab run` with a user's own functions and folds, over every format, against NumPy on the
whole array.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.testing import functions
from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    EPI,
    FUNCTIONAL,
    LAYOUT,
    ROOT,
    affine_of,
    assembled,
    block_box,
    call,
    image_of,
    only_output,
    outputs,
    real_values_of,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

MINE = """
import numpy as np
import hyperslab
from neighbour import OFFSET

def brighten(block, gain=2):
    return block * block.dtype.type(gain)

def shifted(block):
    return block + block.dtype.type(OFFSET)

def ramp(block, slab):
    rows = np.arange(slab.start[0], slab.start[0] + slab.count[0], dtype=block.dtype)
    return block + rows[:, None, None]

def inside(block, mask, level=0):
    return np.where(mask > level, block, 0).astype(block.dtype)

def halve(block):
    return (block / 2).astype(np.float32)

def sometimes(block, slab):
    return halve(block) if slab.start[2] else block

def spread(block):
    return np.maximum(np.roll(block, 1, 0), np.roll(block, -1, 0))

nothing = 3

bright = hyperslab.Fold(
    lift=lambda block, threshold=0: int(np.count_nonzero(block > threshold)),
    merge=lambda a, b: a + b,
    finish=lambda voxels: {"voxels": voxels},
)
profile = hyperslab.Fold(lift=lambda block: block.sum((0, 1, 2)), merge=lambda a, b: a + b)
"""


PLACE = os.path.relpath(functions.__file__)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of a user's functions, beside a module that it imports."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "neighbour.py").write_text("OFFSET = 5\n")
    (folder / "mine.py").write_text(MINE)
    return folder / "mine.py"


ENGINES = ["serial", "threads", "processes"]


@pytest.mark.parametrize("engine", few(["processes"], ENGINES, "files are alike: EngineTests"))
def test_a_function_in_a_file(mine: Path, tmp_path: Path, engine: str) -> None:
    succeed(
        "run",
        f"{mine}:brighten",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "-p",
        "gain=3",
        "--blocks",
        "2x3x2",
        "--engine",
        engine,
    )
    assert np.array_equal(
        assembled(tmp_path / "out", ANATOMICAL), values_of(ANATOMICAL).astype("<i2") * np.int16(3)
    )


def test_a_function_of_a_module_in_the_current_directory(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine.parent)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    succeed("run", "mine:shifted", ANATOMICAL, "-o", tmp_path / "out", "--keep", "volume")
    monkeypatch.delitem(sys.modules, "mine")
    assert np.array_equal(values_of(only_output(tmp_path / "out")), values_of(ANATOMICAL) + 5)


def test_a_function_of_an_installed_module(tmp_path: Path) -> None:
    succeed("run", "numpy:negative", ANATOMICAL, "-o", tmp_path / "out", "--keep", "volume")
    assert np.array_equal(values_of(only_output(tmp_path / "out")), -values_of(ANATOMICAL))


def test_a_function_that_asks_for_its_slab(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:ramp", ANATOMICAL, "-o", tmp_path / "out", "--block-shape", "10,41,7")
    expected = values_of(ANATOMICAL) + np.arange(33)[:, None, None]
    assert np.array_equal(assembled(tmp_path / "out", ANATOMICAL), expected)


def test_a_mask(mine: Path, tmp_path: Path) -> None:
    mask = np.random.default_rng(2).integers(0, 5, (33, 41, 25), dtype=np.uint8)
    path = save(tmp_path / "in" / "mask.nii.gz", mask, affine_of(ANATOMICAL))
    succeed(
        "run",
        f"{mine}:inside",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--with",
        f"mask={path}",
        "-p",
        "level=1",
        "--blocks",
        "3",
    )
    assert np.array_equal(
        assembled(tmp_path / "out", ANATOMICAL), np.where(mask > 1, values_of(ANATOMICAL), 0)
    )


def test_a_mask_for_each_of_several_files(mine: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for folder in ("images", "masks"):
        for name in ("a.nii", "b.nii"):
            save(tmp_path / folder / name, rng.integers(0, 3, (6, 5, 4), dtype=np.int16))
    succeed(
        "run",
        f"{mine}:inside",
        tmp_path / "images",
        "-o",
        tmp_path / "out",
        "--with",
        f"mask={tmp_path}/masks",
    )
    for name in ("a.nii", "b.nii"):
        image, mask = (values_of(tmp_path / folder / name) for folder in ("images", "masks"))
        assert np.array_equal(values_of(tmp_path / "out" / name), np.where(mask > 0, image, 0))


def test_a_function_that_returns_another_dtype(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:halve",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--dtype",
        "float32",
        "--keep",
        "volume",
    )
    written = only_output(tmp_path / "out")
    assert values_of(written).dtype == np.float32
    assert np.array_equal(values_of(written), values_of(ANATOMICAL) / np.float32(2))


def test_another_dtype_that_was_not_announced_is_learned(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:halve", ANATOMICAL, "-o", tmp_path / "out")
    written = only_output(tmp_path / "out")
    assert values_of(written).dtype == np.float32
    assert np.array_equal(values_of(written), values_of(ANATOMICAL) / np.float32(2))


def test_a_block_of_another_dtype_than_the_others_fails_with_the_remedy(
    mine: Path, tmp_path: Path
) -> None:
    done = call("run", f"{mine}:sometimes", ANATOMICAL, "-o", tmp_path / "out", "--blocks", "1x1x2")
    assert done.code == 1
    assert "sometimes returned float32, not int16: say --dtype float32 if that is" in done.err


def test_a_halo(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:spread",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--halo",
        "1,0,0",
        "--blocks",
        "4x2x1",
        "--boundary",
        "nearest",
    )
    padded = np.pad(values_of(ANATOMICAL), ((1, 1), (0, 0), (0, 0)), mode="edge")
    assert np.array_equal(
        assembled(tmp_path / "out", ANATOMICAL), np.maximum(padded[:-2], padded[2:])
    )


def test_a_fold(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:bright",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "-p",
        "threshold=9000",
        "--blocks",
        "6",
    )
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found == {"voxels": int((values_of(ANATOMICAL) > 9000).sum())}


def test_a_fold_whose_result_is_an_array(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run", f"{mine}:profile", EPI, "-o", tmp_path / "out", "--blocks", "3", "--axes-whole", "3"
    )
    found = np.load(tmp_path / "out" / "result.npy")
    assert np.array_equal(found, values_of(EPI).sum((0, 1, 2), dtype=np.int64))


def test_four_axes(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:brighten",
        EPI,
        "-o",
        tmp_path / "out",
        "--axes-whole",
        "3",
        "--block-shape",
        "50,50,24,1",
    )
    assert [values_of(path).shape[3] for path in outputs(tmp_path / "out")] == [2] * 6
    assert np.array_equal(assembled(tmp_path / "out", EPI), values_of(EPI) * np.int16(2))


def test_a_compressed_volume_of_one_block(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:brighten", ANATOMICAL, "-o", tmp_path / "out", "--format", "nii.gz")
    written = only_output(tmp_path / "out")
    assert written.name == "anatomical.nii.gz"
    assert written.read_bytes()[:2] == b"\x1f\x8b"
    assert np.array_equal(values_of(written), values_of(ANATOMICAL) * np.int16(2))
    assert np.array_equal(affine_of(written), affine_of(ANATOMICAL))


def test_hdf5_in_and_out(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:brighten",
        f"{LAYOUT}/deflate.h5",
        "-o",
        tmp_path / "out",
        "--format",
        "h5",
        "--partition",
        "chunks",
    )
    with h5py.File(LAYOUT / "deflate.h5") as file:
        expected = file["Dataset1"][:] * 2
    found = np.zeros_like(expected)
    for path in outputs(tmp_path / "out"):
        with h5py.File(path) as file:
            row, column = (int(n) for n in path.stem.split("_")[-2:])
            assert np.array_equal(
                file["Dataset1"].attrs.get("affine", np.eye(4)).reshape(4, 4)[:3, 3],
                [row, column, 0],
            )
            found[row : row + 50, column : column + 50] = file["Dataset1"]
    assert len(outputs(tmp_path / "out")) == 8
    assert np.array_equal(found, expected)


def test_hdf5_blocks_of_a_nifti_keep_their_place(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        f"{mine}:brighten",
        ANATOMICAL,
        "-o",
        tmp_path / "h5",
        "--format",
        "h5",
        "--blocks",
        "2x2x2",
    )
    succeed(
        "run",
        "numpy:positive",
        tmp_path / "h5",
        "-o",
        tmp_path / "out",
        "--sources",
        "mosaic",
        "--keep",
        "volume",
    )
    written = only_output(tmp_path / "out")
    assert np.array_equal(values_of(written), values_of(ANATOMICAL) * np.int16(2))
    assert np.allclose(affine_of(written), affine_of(ANATOMICAL))


def test_stored_values_keep_slope_and_intercept(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        "numpy:positive",
        FUNCTIONAL,
        "-o",
        tmp_path / "out",
        "--values",
        "stored",
        "--blocks",
        "2x2x1x5",
    )
    for path in outputs(tmp_path / "out"):
        written, parent = image_of(path).dataobj, image_of(FUNCTIONAL).dataobj
        assert (written.slope, written.inter) == (parent.slope, parent.inter)
        box = (*block_box(path, affine_of(FUNCTIONAL)), slice(None))
        first = int(path.stem.split("_")[-1])
        box = (*box[:3], slice(first, first + values_of(path).shape[3]))
        assert np.array_equal(values_of(path), values_of(FUNCTIONAL)[box])
        assert np.array_equal(real_values_of(path), real_values_of(FUNCTIONAL)[box])
    assert (
        sum(values_of(path).size for path in outputs(tmp_path / "out"))
        == values_of(FUNCTIONAL).size
    )


def test_real_values_become_floats_without_slope(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        "numpy:positive",
        FUNCTIONAL,
        "-o",
        tmp_path / "out",
        "--keep",
        "volume",
        "--blocks",
        "7",
    )
    written = image_of(only_output(tmp_path / "out")).dataobj
    assert (written.slope, written.inter) == (1, 0)
    assert np.asarray(written).dtype == np.float64
    assert np.array_equal(np.asarray(written), real_values_of(FUNCTIONAL))


def test_the_functions_of_the_examples(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (20, 21, 22), np.uint8)
    source = save(tmp_path / "in" / "image.nii", values)
    example = ROOT / "examples" / "brighten.py"
    succeed(
        "run",
        f"{example}:brighten",
        source,
        "-o",
        tmp_path / "out",
        "-p",
        "gain=1.5",
        "--keep",
        "volume",
    )
    expected = np.clip(values * 1.5, 0, 255).astype(np.uint8)
    assert np.array_equal(values_of(only_output(tmp_path / "out")), expected)


def test_a_block_that_fails_is_named_and_the_others_are_written(tmp_path: Path) -> None:
    done = call(
        "run",
        f"{functions.__name__}:misbehave",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1x1x5",
        "-p",
        "deed=raise",
        "-p",
        "at=0,0,10",
        "--retries",
        "0",
    )
    assert done.code == 1
    label = f"{ANATOMICAL}[0:33, 0:41, 10:15]"
    reason = "ValueError: this block is not to my liking"
    failed, where, end = done.err.splitlines()[-3:]
    assert failed == f"failed: {label}: {reason} (after 1 attempt)"
    assert where.startswith(f"    {PLACE}:")
    assert where.endswith(', in _raise: raise ValueError("this block is not to my liking")')
    assert "misbehave over anatomical.nii: 1 of 5 tasks failed in _raise (" in done.out
    assert "tasks      4 of 5 done, 1 failed\n" in call("status", tmp_path / "out").out
    assert end.startswith("1 of 5 tasks failed; fix the cause, then run the same command with")
    names = [path.name for path in outputs(tmp_path / "out")]
    assert names == [f"anatomical_00_00_{first}.nii" for first in ("00", "05", "15", "20")]


def test_a_file_edited_between_runs_is_not_resumed(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:brighten", ANATOMICAL, "-o", tmp_path / "out")
    mine.write_text(MINE.replace("block * ", "block + "))
    done = call("run", f"{mine}:brighten", ANATOMICAL, "-o", tmp_path / "out", "--resume")
    assert done.code == 2
    assert "the function was edited" in done.err
    assert "--accept-changed-function" in done.err
    succeed(
        "run",
        f"{mine}:brighten",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--resume",
        "--accept-changed-function",
    )


def test_outputs_can_be_verified_and_cleaned(tmp_path: Path) -> None:
    shutil.copy(ANATOMICAL, tmp_path / "a.nii")
    succeed("run", "increment", tmp_path / "a.nii", "-o", tmp_path / "out", "--blocks", "3")
    assert succeed("verify", tmp_path / "out") == "3 of 3 outputs unchanged since the run\n"
    assert succeed("status", tmp_path / "out").startswith(
        "state      done\ntasks      3 of 3 done\n"
    )
    spoiled = outputs(tmp_path / "out")[1]
    spoiled.write_bytes(spoiled.read_bytes()[:-1] + b"\x07")
    done = call("verify", tmp_path / "out")
    assert done.code == 1
    assert f"wrong: {spoiled.name}: " in done.out
    assert "2 of 3 outputs unchanged since the run" in done.out
    succeed("clean", tmp_path / "out")
    assert len(outputs(tmp_path / "out")) == 3
    assert not (tmp_path / "out" / ".hyperslab" / "run-0001").exists()
