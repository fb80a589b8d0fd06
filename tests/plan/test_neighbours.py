"""A user's file imports what lies beside it, whatever others have imported by the same names."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


WITHIN = """
def number():
    import deep

    assert __import__("within.deep", fromlist=["NUMBER"]).NUMBER == deep.ONE
    return deep.NUMBER
"""


def test_helpers_import_what_lies_beside_them_whenever_they_do(tmp_path: Path) -> None:
    functions = []
    for n in (11, 12):
        folder = tmp_path / str(n)
        target = file_of(folder, AT_ONCE.replace("helper.NUMBER", "helper.number()"), n)
        (folder / "helper.py").write_text(WITHIN)
        (folder / "deep.py").write_text(
            f"from within.deep import NUMBER as ONE\nNUMBER = ONE + {n}"
        )
        functions.append(refer(target).load())
    for _ in range(2):
        assert [int(function(np.zeros(1))[0]) for function in functions] == [22, 24]


def test_a_helper_that_fails_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    target = file_of(tmp_path, LATER, 13)
    (tmp_path / "helper.py").write_text("import other\nNUMBER = 13\nraise ValueError('soon')\n")
    (tmp_path / "other.py").touch()
    function = refer(target).load()
    for _ in range(2):
        with pytest.raises(ValueError, match="soon"):
            function(np.zeros(1))


def test_imports_of_twins_by_many_threads_at_once(tmp_path: Path) -> None:
    functions = [refer(file_of(tmp_path / str(n), LATER, n)).load() for n in (14, 15)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda n: int(functions[n % 2](np.zeros(1))[0]), range(400)))
    finally:
        sys.setswitchinterval(before)
    assert made == [14, 15] * 200


SUM = """
import hyperslab, helper

def merge(a, b):
    return helper.Sum(a.value + b.value)

fold = hyperslab.Fold(
    lift=lambda block: helper.Sum(int(block.sum())), merge=merge, finish=lambda one: one.told()
)
"""
HELPER = """
class Sum:
    def __init__(self, value):
        self.value = value

    def told(self):
        return self.value * {number}
"""


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_objects_of_helpers_are_of_the_class_that_lies_beside(tmp_path: Path, engine: str) -> None:
    """Of twins in turn, and of a helper that was edited."""
    source = tmp_path / "in.h5"
    with h5py.File(source, "w") as file:
        file["v"] = np.ones((4, 4))
    for name, number in (("a", 1), ("b", 2), ("a", 1), ("a", 3)):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text(SUM)
        (folder / "helper.py").write_text(HELPER.format(number=number))
        os.utime(folder / "helper.py", (number, number))
        pipeline = Pipeline(source).reduce(f"{folder / 'mine.py'}:fold")
        done = run(pipeline, engine=engine, workers=1, blocks=(2, 2), report=False)
        assert done.value == 16 * number


def test_a_programs_own_helper_stays_where_it_is(tmp_path: Path) -> None:
    """Also where it lies beside a function's file, and another function has a helper so called."""
    functions = [file_of(tmp_path / str(n), AT_ONCE, n) for n in (16, 17)]
    lines = [
        "import helper, sys",
        "import numpy",
        "from hyperslab.plan.function import refer",
        f"loaded = [refer(each).load() for each in {functions!r}]",
        "assert [int(each(numpy.zeros(1))[0]) for each in loaded] == [16, 17]",
        "assert sys.modules['helper'] is helper and helper.NUMBER == 16",
    ]
    script = tmp_path / "16" / "program.py"
    script.write_text("\n".join(lines))
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)
