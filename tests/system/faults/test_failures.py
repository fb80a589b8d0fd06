"""What a user sees of an error in their function: its line, once, and soon."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import TasksFailed
from hyperslab.report.progress import Quiet
from tests.repetitions import few
from tests.system.end_to_end.command import call, succeed

TASKS = 104
LOUD = 40
"Tasks that fail with much to say."
MINE = """import os
import time
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
    if slab.start[0] == 103:
        raise KeyError("a block of its own")
    return block

def full_disk(block):
    raise OSError(28, "No space left on device", "/scratch/x")

def attempted(block, slab, error, log):
    with open(log, "a") as file:
        file.write("+")
    raise eval(error)

def mismatched(block):
    return block + np.zeros((7, 7))

def mended(block, slab, log):
    if slab.start[0] < 1 and not os.path.exists(log):
        open(log, "w").close()
        raise RuntimeError("the device is busy")
    return block

def picky(block, slab, good):
    if slab.start[0] < 6:
        raise TypeError("not like this")
    return block
"""
LINE = "6, in brain_mean: total = values.summ()"


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
    assert first == f"    first of them: {mine.parent}/in.nii[0:1, 0:2, 0:2] (after 1 attempt)"
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
    assert f'File "{mine}", line 10, in wrong' in trace
    assert f'File "{mine}", line 6, in brain_mean' in trace
    assert "plan/steps.py" in trace


def test_the_journal_of_many_failures_stays_small(mine: Path) -> None:
    code = mine.parent / "loud.py"
    code.write_text("def loud(block):\n    raise ValueError('x' * 10**5)\n")
    values = np.zeros((LOUD, 2, 2), np.int16)
    nib.save(nib.Nifti1Image(values, np.eye(4)), mine.parent / "in.nii")  # type: ignore[no-untyped-call]
    run(code, "loud", "--engine", "serial", "--keep-going", "--retries", "0")
    records = mine.parent / "out" / ".hyperslab" / "run-0001"
    journal = sum(path.stat().st_size for path in (records / "journal").iterdir())
    assert journal < LOUD * 16_000
    assert (records / "failures.json").stat().st_size < LOUD * 3_000
    assert (
        "loud.py:2, in loud: raise ValueError('x' * 10**5)"
        in call("status", mine.parent / "out").out
    )


ENGINES = (("serial", 1), ("threads", 2), ("processes", 2))


@pytest.mark.parametrize(("engine", "workers"), few(ENGINES[1:2], ENGINES, "its driver ends a run"))
def test_a_run_whose_first_tasks_all_fail_alike_ends_early_and_goes_on_when_corrected(
    mine: Path, engine: str, workers: int
) -> None:
    done = run(mine, "slow", "--engine", engine, "--workers", workers)
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
    done = run(mine, "forgetful", "--engine", "serial", "--no-trial")
    failed, where, *_ = done.err.splitlines()
    assert "tasks: forgetful returned None: end it with 'return'" in failed
    assert where == f"    {mine}:12, in forgetful: def forgetful(block):"


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        ("NameError('x')", 1),
        ("TypeError('x')", 1),
        ("KeyError('x')", 1),
        ("np.exceptions.AxisError(3, 2)", 1),
        ("ValueError('operands could not be broadcast together')", 1),
        ("ValueError('not to my liking')", 2),
        ("OSError('x')", 2),
        ("TimeoutError()", 2),
        ("MemoryError()", 2),
        ("RuntimeError('x')", 2),
        ("type('Own', (KeyError,), {'__module__': 'mine'})()", 2),
    ],
)
def test_a_mistake_in_the_code_is_not_tried_again(mine: Path, error: str, attempts: int) -> None:
    log = mine.parent / "log"
    pipeline = hyperslab.Pipeline(np.zeros((2, 2, 2), "i2"))
    pipeline = pipeline.map(f"{mine}:attempted", {"error": error, "log": str(log)}, dtype="i2")
    pipeline = pipeline.write(mine.parent / "out")
    options = hyperslab.Options(engine="serial", report=False, blocks=1)
    prepared = hyperslab.prepare(pipeline, options)
    log.unlink()  # of its trial on made-up numbers
    result = hyperslab.run(pipeline, options, prepared=prepared, check=False)
    assert (len(log.read_text()), result.failures[0].attempts) == (attempts, attempts)


@pytest.mark.parametrize(
    "function",
    [
        lambda block, mask: np.where(mask > 0, block.mean(axis=3), 0),
        lambda block, mask: block[mask > 0].mean(axis=1),
        lambda block, mask: block[mask > 0],
    ],
)
def test_a_mask_without_time_is_told_of_where_shapes_do_not_fit(
    function: Any, tmp_path: Path
) -> None:
    series = np.ones((4, 4, 4, 5))
    hint = r"; mask comes in the block's shape, .* axis 3 .*: mask\[..., 0\] is the mask without it"
    pipeline = hyperslab.Pipeline(series, mask=np.ones((4, 4, 4), "u1"))
    with pytest.raises(TasksFailed, match=hint):
        pipeline.map(function).compute(engine="serial", trial=False)
    told = pipeline.map(lambda block, mask: np.where(mask[..., 0] > 0, block.mean(axis=3), 0))
    assert told.compute(engine="serial").shape == (4, 4, 4)
    of_equal = hyperslab.Pipeline(series, mask=series).map(function)
    with pytest.raises(TasksFailed) as raised:
        of_equal.compute(engine="serial", trial=False)
    assert "mask comes" not in str(raised.value)


def test_a_reason_is_one_line_of_the_terminal(mine: Path) -> None:
    reasons = {"mismatched": "could not be broadcast together", "full_disk": "device: /scratch/x"}
    for function, reason in reasons.items():
        out = mine.parent / function
        told = call(
            *("run", f"{mine}:{function}", mine.parent / "in.nii", "-o", out, "--blocks", "4x1x1"),
            *("--engine", "serial", "--no-report", "--keep-going"),
        )
        lines = (told.out + told.err).splitlines()
        assert len([line for line in lines if reason in line and "made-up" not in line]) == 1


def test_what_another_attempt_has_mended_is_told(mine: Path) -> None:
    log = mine.parent / "log"
    out = mine.parent / "out"
    log.touch()  # while it is tried on made-up numbers
    pipeline = hyperslab.Pipeline(mine.parent / "in.nii").map(f"{mine}:mended", {"log": str(log)})
    pipeline = pipeline.write(out)
    options = hyperslab.Options(engine="serial", blocks=2, report=False)
    prepared = hyperslab.prepare(pipeline, options)
    log.unlink()
    told = Told()
    assert hyperslab.run(pipeline, options, prepared=prepared, progress=told).ok
    assert told.reasons == ["RuntimeError: the device is busy"]


class Told(Quiet):
    """Keeps the reasons that it is told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        assert will_retry
        self.reasons.append(reason)


def test_python_raises_what_failed_with_its_line_and_traceback(mine: Path) -> None:
    with pytest.raises(TasksFailed) as raised:
        hyperslab.run(plan(mine, "wrong"), **settings())
    error = raised.value
    assert f"({mine}:{LINE})" in str(error)
    assert re.match(r"\d+ of 104 tasks failed: AttributeError: 'numpy", str(error))
    assert "line 6, in brain_mean" in error.traceback
    assert "steps.py" not in error.traceback
    assert any("line 6, in brain_mean" in note for note in error.__notes__)
    assert error.failures is error.result.failures
    assert error.failures[0].line == 6
    assert error.result.ended_early


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder to stand in from where the files of a test are shown by their whole path."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
