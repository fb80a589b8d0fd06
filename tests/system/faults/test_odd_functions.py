"""Functions that behave oddly: their task fails with a sentence, the rest of the run goes on,
nothing hangs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from tests.loaded import Gain, interrupting, leaves_a_child, nameless, unspeakable
from tests.repetitions import few
from tests.system.clusters.processes import runs
from tests.system.faults.command import await_that, hyperslab, make_volume

Block = np.ndarray[Any, Any]
ENGINES = [("serial", 1), ("threads", 2), ("processes", 2)]


def masked(block: Block) -> Block:
    return np.ma.masked_less(block, 100)


# In the main thread, where `serial` runs it, KeyboardInterrupt is Ctrl-C:
# tests/system/faults/test_driver.py sends that.
ODD_EXCEPTIONS = [
    (engine, workers, function, said)
    for engine, workers in ENGINES
    for function, said in (
        (unspeakable, "cannot be shown"),
        (interrupting, "KeyboardInterrupt"),
        (nameless, "a name that is no text"),
    )
    if (engine, function) != ("serial", interrupting)
]


PLAYED = [case for case in ODD_EXCEPTIONS if case[0] == "threads" or case[2] is unspeakable]
"All of them on one engine, and one that has to travel between processes."


@pytest.mark.parametrize(
    ("engine", "workers", "function", "said"), few(PLAYED, ODD_EXCEPTIONS, "a task fails alone")
)
def test_an_odd_exception_fails_its_task_only(
    tmp_path: Path, engine: str, workers: int, function: Any, said: str
) -> None:
    make_volume(tmp_path / "in.nii")
    pipeline = hs.Pipeline(str(tmp_path / "in.nii")).map(function).write(tmp_path / "out")
    result = hs.run(
        pipeline,
        engine=engine,
        workers=workers,
        rule=hs.Rule("blocks", (4,)),
        retries=0,
        check=False,
    )
    assert result.state == "failed"
    assert len(result.outputs) == 3
    assert [said in failed.message for failed in result.failures] == [True]
    assert (result.folder / "report.html").is_file()


def test_a_masked_array_is_refused(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    result = hs.run(
        hs.Pipeline(str(tmp_path / "in.nii")).map(masked).write(tmp_path / "out"),
        engine="serial",
        check=False,
    )
    assert [".filled(value)" in failed.message for failed in result.failures] == [True]


def test_a_callable_that_cannot_be_hashed(tmp_path: Path) -> None:
    values = make_volume(tmp_path / "in.nii")
    result = hs.run(
        hs.Pipeline(str(tmp_path / "in.nii")).map(Gain(3)).write(tmp_path / "out"), workers=2
    )
    assert result.ok, result.failures
    assert np.array_equal(hs.open(str(result.outputs[0]))[...], values * np.uint16(3))


def test_a_dtype_that_no_file_can_hold_is_refused_before_anything_runs(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    refused = hyperslab(
        "run", "increment", tmp_path / "in.nii", "-o", tmp_path / "out", "--format", "nope"
    )
    assert refused.returncode == 2
    (tmp_path / "mine.py").write_text("def f(block):\n    return block > 3\n")
    refused = hyperslab(
        "run",
        f"{tmp_path}/mine.py:f",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        "--dtype",
        "float16",
    )
    assert refused.returncode == 2
    assert "float16" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_fold_whose_module_a_worker_cannot_load_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fold's merge travels by the name of its module, which exists in this process only."""
    module = ModuleType("only_here")
    exec("def merge(a, b):\n    return a + b\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    fold = hs.Fold(lift=np.sum, merge=module.merge)
    result = hs.run(
        hs.Pipeline(np.zeros((4, 4))).reduce(fold), out=tmp_path / "out", workers=2, check=False
    )
    assert (result.state, result.value) == ("failed", None)
    assert all("No module named 'only_here'" in failed.message for failed in result.failures)


def test_what_a_function_starts_ends_with_its_worker(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    params = {"pid_file": str(tmp_path / "pid")}
    pipeline = (
        hs.Pipeline(str(tmp_path / "in.nii")).map(leaves_a_child, params).write(tmp_path / "out")
    )
    result = hs.run(pipeline, workers=1, retries=0, check=False)
    assert ["code 3" in failed.message for failed in result.failures] == [True]
    child = int((tmp_path / "pid").read_text())
    await_that("the end of the child of a worker", lambda: not runs(child))
