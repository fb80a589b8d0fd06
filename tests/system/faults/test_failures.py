"""What a user sees of an error in their function: its line, once, and soon."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import TasksFailed
from tests.system.end_to_end.command import call, succeed

TASKS = 304
MINE = """import time
import numpy as np

def brain_mean(values):
    total = values.summ()
    return total

def wrong(block):
    return block - brain_mean(block)

def forgetful(block):
    block = block + 1

def slow(block):
    time.sleep(0.05)
    raise TypeError("not like this")

def last_only(block, slab):
    if slab.start[0] == 303:
        raise KeyError("a block of its own")
    return block

def full_disk(block):
    raise OSError(28, "No space left on device", "/scratch/x")

def picky(block, slab, good):
    if slab.start[0] < 6:
        raise TypeError("not like this")
    return block
"""
LINE = "5, in brain_mean: total = values.summ()"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    code = tmp_path / "mine.py"
    code.write_text(f"{MINE}# {tmp_path}\n")  # files of equal content are one module
    values = np.arange(TASKS * 4, dtype=np.int16).reshape(TASKS, 2, 2)
    nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    return code


def run(mine: Path, function: str, *more: object) -> Any:
    folder = mine.parent
    fixed = ("--block-shape", "1,2,2", "-o", folder / "out", "-q", "--no-report")
    return call("run", f"{mine}:{function}", folder / "in.nii", *fixed, *more)


def plan(mine: Path, function: str, **params: Any) -> hyperslab.Pipeline:
    folder = mine.parent
    pipeline = hyperslab.Pipeline(folder / "in.nii").map(f"{mine}:{function}", params)
    return pipeline.write(folder / "out", keep="volume")


def settings(**more: Any) -> dict[str, Any]:
    rule = hyperslab.Rule("block-shape", (1, 2, 2))
    return {"engine": "serial", "rule": rule, "report": False, **more}


def test_equal_failures_are_one_line_with_their_count_and_the_users_own_line(mine: Path) -> None:
    done = run(mine, "wrong", "--engine", "serial", "--keep-going")
    assert done.code == 1
    reason = "AttributeError: 'numpy.ndarray' object has no attribute 'summ'"
    failed, where, first, end = done.err.splitlines()
    assert failed.startswith(f"failed: {TASKS} tasks: {reason}")
    assert where == f"    {mine}:{LINE}"
    assert first == f"    first of them: {mine.parent}/in.nii[0:1, 0:2, 0:2] (after 2 attempts)"
    assert end.startswith(f"{TASKS} of {TASKS} tasks failed; fix the cause")
    told = call("status", mine.parent / "out")
    assert f"failed     {TASKS} tasks: {reason}" in told.out
    assert f"           {mine}:{LINE}\n" in told.out


def test_the_traceback_is_the_functions_own_and_whole_with_debug(mine: Path) -> None:
    done = run(mine, "wrong", "--engine", "serial")
    assert "Traceback" not in done.err
    done = run(mine, "wrong", "--engine", "serial", "--resume", "--debug")
    before, _, trace = done.err.partition("Traceback (most recent call last):\n")
    assert before
    assert f'File "{mine}", line 9, in wrong' in trace
    assert f'File "{mine}", line 5, in brain_mean' in trace
    assert "plan/steps.py" in trace


def test_the_journal_of_many_failures_stays_small(mine: Path) -> None:
    code = mine.parent / "loud.py"
    code.write_text("def loud(block):\n    raise ValueError('x' * 10**6)\n")
    run(code, "loud", "--engine", "serial", "--keep-going", "--retries", "0")
    records = mine.parent / "out" / ".hyperslab" / "run-0001"
    journal = sum(path.stat().st_size for path in (records / "journal").iterdir())
    assert journal < TASKS * 16_000
    assert (records / "failures.json").stat().st_size < TASKS * 3_000
    assert (
        "loud.py:2, in loud: raise ValueError('x' * 10**6)"
        in call("status", mine.parent / "out").out
    )


@pytest.mark.parametrize(("engine", "workers"), [("serial", 1), ("threads", 2), ("processes", 2)])
def test_a_run_whose_first_tasks_all_fail_alike_ends_early_and_goes_on_when_corrected(
    mine: Path, engine: str, workers: int
) -> None:
    began = time.monotonic()
    done = run(mine, "slow", "--engine", engine, "--workers", workers)
    assert time.monotonic() - began < TASKS * 0.05
    assert done.code == 1
    *_, end = done.err.splitlines()
    failed = int(end.partition(" ")[0])
    assert 5 <= failed < TASKS / 2
    assert f"of {TASKS} tasks failed, and the run ended early: the first " in end
    assert "failed in the same way and none succeeded" in end
    assert "--resume" in end
    assert "--keep-going" in end
    assert "early: the first" in call("status", mine.parent / "out").out
    mine.write_text(mine.read_text().replace('raise TypeError("not like this")', "return block"))
    again = run(mine, "slow", "--engine", "threads", "--workers", "8", "--resume")
    assert again.code == 0, again.err
    assert succeed("verify", mine.parent / "out").startswith(f"{TASKS} of {TASKS} outputs")


def test_one_bad_block_of_many_does_not_end_a_run(mine: Path) -> None:
    done = run(mine, "last_only", "--engine", "serial")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"1 of {TASKS} tasks failed; fix")


def test_what_depends_on_the_machine_does_not_end_a_run(mine: Path) -> None:
    done = run(mine, "full_disk", "--engine", "serial", "--retries", "0")
    assert done.err.splitlines()[-1].startswith(f"{TASKS} of {TASKS} tasks failed; fix")


def test_bad_blocks_do_not_end_a_resumed_run_that_had_succeeded_with_others(mine: Path) -> None:
    with pytest.raises(TasksFailed) as first:
        hyperslab.run(plan(mine, "picky", good=1), **settings(fail_fast=False, retries=0))
    assert len(first.value.failures) == 6
    result = hyperslab.run(plan(mine, "picky", good=1), **settings(resume=True, check=False))
    assert (result.ended_early, len(result.failures)) == ("", 6)


def test_fail_fast_ends_a_run_at_its_first_failure(mine: Path) -> None:
    with pytest.raises(TasksFailed) as raised:
        hyperslab.run(plan(mine, "last_only"), **settings(fail_fast=True, retries=0))
    assert len(raised.value.failures) == 1
    (mine.parent / "out").rename(mine.parent / "before")
    result = hyperslab.run(plan(mine, "picky", good=1), **settings(fail_fast=True, check=False))
    assert result.state == "failed"
    assert 1 <= len(result.failures) < 6
    assert result.ended_early


def test_a_function_that_returns_none_is_told_so(mine: Path) -> None:
    done = run(mine, "forgetful", "--engine", "serial")
    failed, where, *_ = done.err.splitlines()
    assert "tasks: forgetful returned None: end it with 'return'" in failed
    assert where == f"    {mine}:11, in forgetful: def forgetful(block):"


def test_python_raises_what_failed_with_its_line_and_traceback(mine: Path) -> None:
    with pytest.raises(TasksFailed) as raised:
        hyperslab.run(plan(mine, "wrong"), **settings())
    error = raised.value
    assert f"({mine}:{LINE})" in str(error)
    assert "line 5, in brain_mean" in error.traceback
    assert "steps.py" not in error.traceback
    assert any("line 5, in brain_mean" in note for note in error.__notes__)
    assert error.failures is error.result.failures
    assert error.failures[0].line == 5
    assert error.result.ended_early


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder to stand in from where the files of a test are shown by their whole path."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
