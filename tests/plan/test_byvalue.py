"""Functions without an importable name keep the lines that they were written in."""

from __future__ import annotations

import linecache
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.plan.byvalue import pickled_with_places
from hyperslab.plan.function import refer

CELL = """
def scaled(block):
    total = sum(1 for _ in block if _ is not None)
    return block / (total * undefined)
"""
CUTTING = """
def cut(block, slab):
    first = block[1:]
    if slab.start[0]:
        return first
    return block
"""


def of_cell(name: str, cell: str = CELL, function: str = "scaled") -> Callable[..., Any]:
    """The function of a notebook's cell, as IPython defines it."""
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), space)
    found: FunctionType = space[function]
    return found


def test_inner_functions_keep_their_files_too() -> None:
    found = pickle.loads(pickled_with_places(of_cell("<cell 1>")))
    inner = [each for each in found.__code__.co_consts if hasattr(each, "co_filename")]
    assert inner
    assert {each.co_filename for each in (found.__code__, *inner)} == {"<cell 1>"}


def test_a_function_is_the_same_in_another_cell() -> None:
    first, second = (refer(of_cell(name)) for name in ("<cell 1>", "<cell 2>"))
    assert first.digest == second.digest
    assert second.load().__code__.co_filename == "<cell 2>"


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_failures_name_the_line_of_a_cell_and_of_a_lambda(tmp_path: Path, engine: str) -> None:
    source = tmp_path / "in.nii"
    nib.save(nib.Nifti1Image(np.ones((4, 4, 4), np.float32), np.eye(4)), source)  # type: ignore[no-untyped-call]
    pipeline = hyperslab.Pipeline(source)
    with pytest.raises(hyperslab.TasksFailed) as raised:
        pipeline.map(of_cell("<cell 3>")).compute(engine=engine)
    (failed,) = raised.value.failures
    assert failed.place == "<cell 3>:4"
    assert failed.text == "return block / (total * undefined)"
    assert "<cell 3>:4, in scaled: return block / (total * undefined)" in str(raised.value)
    assert raised.value.traceback.splitlines()[1:3] == [
        '  File "<cell 3>", line 4, in scaled',
        "    return block / (total * undefined)",
    ]
    cut = pipeline.map(of_cell("<cell 4>", CUTTING, "cut"))
    with pytest.raises(hyperslab.TasksFailed) as raised:
        cut.compute(engine=engine, blocks="2x1x1")
    (failed,) = raised.value.failures
    assert (failed.place, failed.text) == ("<cell 4>:5", "return first")
    assert "name (<cell 4>:5, in cut: return first)" in str(raised.value)
    assert "axes that drop_axis and new_axis name" in str(raised.value)
    assert raised.value.traceback.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "<cell 4>", line 5, in cut',
        "    return first",
    ]
    assert raised.value.traceback.count("File ") == 1, "no lines of hyperslab"
    assert "--" not in raised.value.traceback
    here = traceback.extract_stack(limit=1)[0].lineno or 0
    with pytest.raises(hyperslab.TasksFailed) as raised:
        pipeline.map(lambda block: block.summ()).compute(engine=engine)
    (failed,) = raised.value.failures
    assert (failed.file, failed.line) == (__file__, here + 2)
    assert "block.summ()" in failed.text
