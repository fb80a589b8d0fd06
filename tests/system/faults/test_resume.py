"""A resumed run takes over what is still right: it repeats what a mended, edited or added file
touches, no more.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hyperslab.testing import functions
from hyperslab.testing.functions import executions
from tests.system.end_to_end.command import call_program
from tests.system.faults.command import FUNCTIONS, hyperslab, load, make_volume

pytestmark = pytest.mark.usefixtures("on_threads")

BLOCKS = 4
EACH = 2
"Tasks per file."


@pytest.fixture
def wholes(tmp_path: Path) -> list[np.ndarray[tuple[int, ...], np.dtype[np.uint16]]]:
    (tmp_path / "runs").mkdir()
    return [make_volume(tmp_path / "in" / f"b_{n}.nii", n) for n in range(BLOCKS)]


def job(tmp_path: Path, function: str, *more: object) -> tuple[object, ...]:
    where = (
        f"{FUNCTIONS}:{function}",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "-p",
        f"folder={tmp_path}/runs",
    )
    return ("run", *where, "--blocks", EACH, "--quiet", *more)


def count(tmp_path: Path) -> int:
    return sum(executions(tmp_path / "runs").values())


def total(tmp_path: Path) -> int:
    return int((tmp_path / "out" / "result.json").read_text())


def test_a_mended_block_of_a_map(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    bad = tmp_path / "in" / "b_1.nii"
    shutil.copy2(bad, tmp_path / "good.nii")
    bad.write_bytes(bad.read_bytes()[:-1000])
    assert hyperslab(*job(tmp_path, "counted")).returncode == 1
    assert count(tmp_path) == EACH * (BLOCKS - 1)
    shutil.copy(tmp_path / "good.nii", bad)
    done = hyperslab(*job(tmp_path, "counted", "--resume"))
    assert done.returncode == 0, done.stderr
    assert count(tmp_path) == EACH * BLOCKS
    for n, values in enumerate(wholes):
        parts = [load(path) for path in sorted((tmp_path / "out").glob(f"b_{n}_*.nii"))]
        assert np.array_equal(np.concatenate(parts, axis=2), values + np.uint16(1))
    assert hyperslab("verify", tmp_path / "out").returncode == 0


def test_a_mended_block_of_a_reduction(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    bad = tmp_path / "in" / "b_1.nii"
    shutil.copy2(bad, tmp_path / "good.nii")
    bad.write_bytes(b"")
    assert hyperslab(*job(tmp_path, "COUNTED_TOTAL")).returncode == 1
    shutil.copy(tmp_path / "good.nii", bad)
    done = hyperslab(*job(tmp_path, "COUNTED_TOTAL", "--resume"))
    assert done.returncode == 0, done.stderr
    assert total(tmp_path) == sum(int(values.sum(dtype=np.int64)) for values in wholes)
    assert count(tmp_path) == EACH * BLOCKS


@pytest.mark.parametrize("function", ["counted", "COUNTED_TOTAL"])
def test_an_edited_block(tmp_path: Path, wholes: list[np.ndarray], function: str) -> None:
    assert hyperslab(*job(tmp_path, function)).returncode == 0
    wholes[2] = make_volume(tmp_path / "in" / "b_2.nii", seed=77)
    done = hyperslab(*job(tmp_path, function, "--resume"))
    assert done.returncode == 0, done.stderr
    if function == "COUNTED_TOTAL":
        assert total(tmp_path) == sum(int(values.sum(dtype=np.int64)) for values in wholes)
        return
    assert count(tmp_path) == EACH * (BLOCKS + 1)
    parts = [load(path) for path in sorted((tmp_path / "out").glob("b_2_*.nii"))]
    assert np.array_equal(np.concatenate(parts, axis=2), wholes[2] + np.uint16(1))


@pytest.mark.parametrize("function", ["counted", "COUNTED_TOTAL"])
def test_why_tasks_are_repeated_is_said(
    tmp_path: Path, wholes: list[np.ndarray], function: str
) -> None:
    assert hyperslab(*job(tmp_path, function)).returncode == 0
    again = job(tmp_path, function, "--resume")
    assert "will be repeated" not in hyperslab(*again, "--dry-run").stdout
    (tmp_path / "in" / "b_2.nii").touch()
    why = "will be repeated: what they read was changed or touched since they were done (b_2)"
    assert f"{EACH} tasks {why}" in hyperslab(*again, "--dry-run").stdout
    done = hyperslab(*again)
    assert done.returncode == 0, done.stderr
    assert f"{EACH} tasks {why}" in done.stderr
    assert "will be repeated" not in hyperslab(*again).stderr
    for n in range(len(wholes)):
        (tmp_path / "in" / f"b_{n}.nii").touch()
    assert "(b_0, b_1, b_2 and 1 more)" in hyperslab(*again, "--dry-run").stdout


def test_added_files(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    """One that comes before all others, so that every task gets another number."""
    assert hyperslab(*job(tmp_path, "COUNTED_TOTAL")).returncode == 0
    wholes.append(make_volume(tmp_path / "in" / "a_9.nii", seed=9))
    done = hyperslab(*job(tmp_path, "COUNTED_TOTAL", "--resume"))
    assert done.returncode == 0, done.stderr
    assert count(tmp_path) == EACH * (BLOCKS + 1)
    assert total(tmp_path) == sum(int(values.sum(dtype=np.int64)) for values in wholes)


def test_a_file_that_is_gone_is_not_forgotten(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    assert hyperslab(*job(tmp_path, "counted")).returncode == 0
    (tmp_path / "in" / "b_0.nii").unlink()
    refused = hyperslab(*job(tmp_path, "counted", "--resume"))
    assert refused.returncode == 2
    assert "b_0" in refused.stderr
    assert len(wholes) == BLOCKS


def test_another_parameter_is_another_run(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    assert hyperslab(*job(tmp_path, "counted")).returncode == 0
    for more in (
        ("-p", "seconds=0.01"),
        ("--values", "stored"),
        ("--format", "h5"),
        ("--keep", "volume"),
    ):
        refused = hyperslab(*job(tmp_path, "counted", "--resume", *more))
        assert refused.returncode == 2, more
        assert "choose another output" in refused.stderr
    assert count(tmp_path) == EACH * len(wholes)


def test_an_edited_function(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    code = (
        "def f(block, slab):\n    assert slab.start[2] == 0 or block[0, 0, 0] % 2\n    return"
        " block\n"
    )
    (tmp_path / "mine.py").write_text(code)
    arguments = (
        "run",
        f"{tmp_path}/mine.py:f",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "--blocks",
        8,
        "-q",
    )
    assert hyperslab(*arguments).returncode == 1
    (tmp_path / "mine.py").write_text("def f(block):\n    return block\n")
    refused = hyperslab(*arguments, "--resume")
    assert refused.returncode == 2
    assert "the function was edited" in refused.stderr
    done = hyperslab(*arguments, "--resume", "--accept-changed-function")
    assert done.returncode == 0, done.stderr
    for n, values in enumerate(wholes):
        parts = [load(path) for path in sorted((tmp_path / "out").glob(f"b_{n}_*.nii"))]
        assert np.array_equal(np.concatenate(parts, axis=2), values)


def test_the_same_function_by_another_way(tmp_path: Path, wholes: list[np.ndarray]) -> None:
    """As one of a module, by its path, by that of a copy: nothing is repeated."""
    assert len(wholes) == BLOCKS
    text = Path(functions.__file__).read_text()
    for folder in ("code", "copied"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ways_to_it.py").write_text(text)
    more = job(tmp_path, "counted", "--no-report", "--no-trial", "--engine", "serial")[2:]
    for way in ("ways_to_it", tmp_path / "copied" / "ways_to_it.py"):
        done = call_program("run", f"{way}:counted", *more, cwd=tmp_path / "code")
        assert done.code == 0, done.err
        assert count(tmp_path) == EACH * BLOCKS
        more = (*more, "--resume")
    (tmp_path / "code" / "ways_to_it.py").write_text(f"{text}\n# edited\n")
    done = call_program("run", "ways_to_it:counted", *more, cwd=tmp_path / "code")
    assert "the function was edited after" in done.err
