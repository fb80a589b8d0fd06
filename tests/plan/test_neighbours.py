"""A user's file imports what lies beside it, whatever others have imported by the same names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.driver.run import run
from hyperslab.plan.function import refer
from hyperslab.plan.pipeline import Pipeline

AT_ONCE = """
import helper

def own(block):
    return block * 0 + helper.NUMBER
"""
LATER = """
def own(block):
    import helper
    from within.deep import NUMBER

    assert NUMBER == helper.NUMBER
    return block * 0 + helper.NUMBER
"""


def file_of(folder: Path, text: str, number: int) -> str:
    """A function of a file in a folder of its own, with helpers that say a number."""
    (folder / "within").mkdir(parents=True, exist_ok=True)
    (folder / "within" / "__init__.py").touch()
    (folder / "mine.py").write_text(text)
    for name in ("helper.py", "within/deep.py"):
        path = folder / name
        path.write_text(f"NUMBER = {number}\n")
        os.utime(path, (number, number))  # or a compiled one of the same second would do
    return f"{folder / 'mine.py'}:own"


@pytest.mark.parametrize("text", [AT_ONCE, LATER], ids=["at once", "later"])
def test_twins_import_what_lies_beside_each(tmp_path: Path, text: str) -> None:
    functions = [refer(file_of(tmp_path / str(n), text, n)).load() for n in (1, 2)]
    block = np.zeros(1)
    for _ in range(2):
        assert [int(function(block)[0]) for function in functions] == [1, 2]


@pytest.mark.parametrize("text", [AT_ONCE, LATER], ids=["at once", "later"])
def test_a_helper_that_was_edited_is_loaded_again(tmp_path: Path, text: str) -> None:
    before = refer(file_of(tmp_path, text, 3))
    first = before.load()
    assert int(first(np.zeros(1))[0]) == 3
    after = refer(file_of(tmp_path, text, 4))
    assert int(after.load()(np.zeros(1))[0]) == 4
    assert before.digest != after.digest


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_twins_in_one_run(tmp_path: Path, engine: str) -> None:
    source = tmp_path / "in.h5"
    with h5py.File(source, "w") as file:
        file["v"] = np.zeros((4, 4))
    first, second = (file_of(tmp_path / str(n), AT_ONCE, n) for n in (5, 6))
    for name, order, number in (("a", (first, second), 6), ("b", (second, first), 5)):
        pipeline = Pipeline(source)
        for function in order:
            pipeline = pipeline.map(function)
        made = tmp_path / f"{name}.h5"
        run(pipeline.write(made), engine=engine, workers=1, report=False)
        with h5py.File(made) as file:
            np.testing.assert_array_equal(file["v"][:], number)


def test_modules_of_others_stay_as_they_are(tmp_path: Path) -> None:
    """A program has a helper of its own; a folder has a file that is named like one of Python."""
    function = file_of(tmp_path / "a", "import random\n" + AT_ONCE, 7)
    (tmp_path / "a" / "random.py").write_text("raise ImportError\n")
    (tmp_path / "helper.py").write_text("NUMBER = 8\n")
    lines = [
        "import helper, random, sys",
        "from hyperslab.plan.function import refer",
        f"ref = refer({function!r})",
        "import numpy",
        "assert ref.load()(numpy.zeros(1))[0] == 7",
        "assert sys.modules['helper'] is helper and helper.NUMBER == 8",
        "assert sys.modules['random'] is random",
    ]
    script = tmp_path / "program.py"
    script.write_text("\n".join(lines))
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)
