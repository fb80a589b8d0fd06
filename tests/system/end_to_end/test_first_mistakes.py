"""What somebody meets whose function is not right yet, or whose command lacks something."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.errors import HyperslabError, UsageError
from tests.system.end_to_end.command import Finished, call, succeed, values_of

BLOCKS = 8
MINE = """import numpy as np
import hyperslab

def fragile(block, slab):
    if slab.start[0] == 6:
        raise KeyError("mend me")
    return block

def mixed(block):
    if block.flat[0] > 1000:
        return block.astype(np.int16)
    return block * 1.0

def listed(block):
    return [1, 2, 3]

def bare(block):
    return {}

def nameless(block):
    return {"": block}

def told(block):
    return "hello"

def paired(block):
    return {"mean": block, "text": "hello"}

def nested(block):
    return (block * 2.0).tolist()

def empty(block):
    block = block + 1

def forks(block):
    if block.max() > 1e9:
        return block
    for _ in ():
        return block

def one_of_two(block, slab):
    if slab.start[0] == 6:
        return block[1:]
    return block

def inner(block):
    def tidy(part):
        return part
    tidy(block)

def shorter(block, slab):
    block = block + 1
    return block[1:] if slab.start[0] == 6 else block

def counts(block, slab):
    if slab.start[0] == 6:
        return np.bincount([1, 5], minlength=99)
    return block

def broken(block):
    return block.foo

unfinished = hyperslab.Fold(
    lift=lambda block: float(block.sum()),
    merge=lambda a, b: a + b,
    finish=lambda total: total.mean,
)

spread = hyperslab.Fold(
    lift=lambda block: (int(block.min()), float(block.max())),
    merge=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    code = tmp_path / "mine.py"
    code.write_text(f"{MINE}# {tmp_path}\n")  # files of equal content are one module
    values = np.arange(BLOCKS * 6, dtype=np.float64).reshape(BLOCKS, 2, 3)
    values[6:] += 2000
    nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    return code


def run(mine: Path, function: str, *more: object) -> Finished:
    folder = mine.parent
    fixed = ("--blocks", f"{BLOCKS}x1x1", "-o", folder / "out", "--engine", "serial", "-q")
    return call("run", f"{mine}:{function}", folder / "in.nii", *fixed, "--no-report", *more)


def test_a_function_that_is_not_there_is_answered_by_functions(mine: Path) -> None:
    assert run(mine, "npp").err.rstrip().endswith("has no 'npp'"), "np is a module"
    assert "(did you mean 'told'?)" in run(mine, "tolb").err


def line_of(mine: Path, text: str) -> int:
    return mine.read_text().splitlines().index(text) + 1


def test_the_command_that_is_advised_works_after_the_function_is_mended(mine: Path) -> None:
    out = mine.parent / "out"
    failed = run(mine, "fragile")
    advice = "--resume --accept-changed-function"
    kept = f"the {BLOCKS - 1} tasks that have succeeded keep what the function made before"
    assert f"run the same command with {advice}, which does only what is missing" in failed.err
    assert kept in failed.err
    status = call("status", out).out
    assert f"run the same command with {advice}: it does only what is missing; {kept}" in status
    mine.write_text(mine.read_text().replace('raise KeyError("mend me")', "block = block + 1"))
    done = run(mine, "fragile", *advice.split())
    assert (done.code, done.err) == (0, "")
    assert len(list(out.glob("*.nii"))) == BLOCKS


def test_no_flag_is_advised_where_nothing_has_succeeded(mine: Path) -> None:
    failed = run(mine, "broken", "--keep-going")
    assert "with --resume, which does only what is missing" in failed.err
    mine.write_text(mine.read_text().replace("block.foo", "block"))
    assert run(mine, "broken", "--resume").code == 0


def test_python_names_both_arguments(mine: Path) -> None:
    pipeline = hyperslab.Pipeline(mine.parent / "in.nii").map(f"{mine}:fragile")
    with pytest.raises(hyperslab.TasksFailed) as raised:
        hyperslab.run(pipeline.write(mine.parent / "out"), engine="serial", blocks="8x1x1")
    assert "; resume=True and accept_changed_function=True do only what is missing; the 7 " in str(
        raised.value
    )


def test_a_dtype_is_advised_that_holds_all_blocks(mine: Path) -> None:
    failed = run(mine, "mixed")
    assert failed.code == 1
    assert "returned int16, not float64: say --dtype float64, which holds both, or" in failed.err
    shutil.rmtree(mine.parent / "out")
    assert run(mine, "mixed", "--dtype", "float64", "--keep", "volume").code == 0
    assert np.array_equal(values_of(mine.parent / "out/in.nii"), values_of(mine.parent / "in.nii"))


@pytest.mark.parametrize(
    ("function", "said", "line"),
    [
        ("listed", "listed returned a list of 3", "    return [1, 2, 3]"),
        ("told", "told returned a text", '    return "hello"'),
        (
            "paired",
            "paired returned as 'text' a text",
            '    return {"mean": block, "text": "hello"}',
        ),
    ],
)
def test_what_is_no_array_is_said_before_the_run(
    mine: Path, function: str, said: str, line: str
) -> None:
    refused = run(mine, function)
    assert refused.code == 2
    assert f"{said}, not an array of the shape of its block: return one, or" in refused.err
    assert refused.err.endswith(f"mine.py:{line_of(mine, line)}\n")
    assert not (mine.parent / "out").exists()


def test_what_is_no_array_is_said_by_tasks_that_nobody_has_tried(mine: Path) -> None:
    for function, said in (("listed", "a list of 3"), ("told", "a text")):
        failed = run(mine, function, "--no-trial")
        assert f"{function} returned {said}, not an array of shape (1, 2, 3): return" in failed.err
        shutil.rmtree(mine.parent / "out")


def test_arrays_without_names_are_told(mine: Path) -> None:
    for function, said in (("bare", "a dict of nothing"), ("nameless", "a dict of ''")):
        failed = run(mine, function)
        assert failed.code == 1
        assert f"{function} returned {said}, not one array: give every array" in failed.err
        shutil.rmtree(mine.parent / "out")


def test_a_list_of_the_shape_of_its_block_is_an_array(mine: Path) -> None:
    assert run(mine, "nested", "--keep", "volume").code == 0
    doubled = values_of(mine.parent / "in.nii") * 2
    assert np.array_equal(values_of(mine.parent / "out/in.nii"), doubled)


def test_a_lambda_that_returns_none_is_told_of_its_expression() -> None:
    pipeline = hyperslab.Pipeline(np.zeros((4, 4, 4))).map(lambda block: None)
    with pytest.raises(UsageError) as raised:
        pipeline.compute(engine="serial")
    said = "returned None: the expression of a lambda has to be the block"
    assert said in str(raised.value)
    assert "'return'" not in str(raised.value)


NUMBERS_OF_BLOCKS = [
    (lambda block: (block.min(), block.max()), "a tuple of 2"),
    (lambda block: [float(block.max())] * 3, "a list of 3"),
]


@pytest.mark.parametrize(("function", "what"), NUMBERS_OF_BLOCKS)
def test_numbers_of_a_block_are_told_of_folds(function: Any, what: str) -> None:
    pipeline = hyperslab.Pipeline(np.zeros((4, 4, 4))).map(function)
    said = f"returned {what}, not an array of .*: return one, or write a hyperslab.Fold as that"
    with pytest.raises(HyperslabError, match=said):
        pipeline.compute(engine="serial")


@pytest.mark.parametrize("function", [function for function, _ in NUMBERS_OF_BLOCKS])
def test_numbers_of_one_axis_are_those_of_all_of_it(function: Any) -> None:
    """As for any axis without a name that a function makes shorter, which is not cut."""
    values = np.random.default_rng(1).permutation(64).astype(float)
    made = hyperslab.Pipeline(values).map(function).compute(engine="serial")
    assert np.array_equal(made, np.asarray(function(values)))


@pytest.mark.parametrize(
    ("function", "more", "line"),
    [
        ("empty", " (it has no 'return' with a value)", "def empty(block):"),
        ("inner", " (it has no 'return' with a value)", "def inner(block):"),
        ("forks", " (it returns in lines {} and {})", "def forks(block):"),
        ("one_of_two", "", "        return block[1:]"),
        ("shorter", "", "    return block[1:] if slab.start[0] == 6 else block"),
    ],
)
def test_errors_point_at_where_the_function_returns(
    mine: Path, function: str, more: str, line: str
) -> None:
    lines = mine.read_text().splitlines()
    (place,) = [number for number, text in enumerate(lines, 1) if text == line]
    told = run(mine, function, "--no-trial").err.splitlines()
    failed, where = [line for line in told if function in line][-2:]
    assert more.format(place + 2, place + 4) in failed
    assert where == f"    {mine}:{place}, in {function}: {line.strip()}"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("x = [1][3]", ", in <module>: x = [1][3]"),
        ("import numpyy", ", in <module>: import numpyy"),
        ("x = 1 +* 2", ": x = 1 +* 2"),
        ("raise SystemExit(0)", ", in <module>: raise SystemExit(0)"),
        ("hyperslab.Pipeline('/nowhere.nii')", ", in <module>: hyperslab.Pipeline('/nowhere.nii')"),
    ],
)
def test_the_line_is_told_for_which_a_file_cannot_be_loaded(
    mine: Path, wrong: str, told: str
) -> None:
    mine.write_text(f"import hyperslab\n{wrong}\n\n\ndef f(block):\n    return block\n")
    done = run(mine, "f")
    assert done.code == 2
    assert done.err.splitlines()[1:] == [f"    {mine}:2{told}"]


def test_a_fold_that_cannot_be_finished_keeps_what_it_has_reduced(mine: Path) -> None:
    out = mine.parent / "out"
    place = f"{mine}:{line_of(mine, '    finish=lambda total: total.mean,')}"
    failed = run(mine, "unfinished")
    sentence, line = failed.err.splitlines()
    advice = "--resume and --accept-changed-function"
    assert failed.code == 1
    assert f"merge or finish failed at {place}: AttributeError: 'float' object" in sentence
    assert f"; correct it, then run the same command with {advice}, which" in sentence
    assert line == f"    {place}, in <lambda>: finish=lambda total: total.mean,"
    assert place in call("status", out).out
    mine.write_text(mine.read_text().replace("total.mean", "total / 2"))
    done = run(mine, "unfinished", *advice.split(" and "))
    assert (done.code, done.err) == (0, "")
    assert (
        json.loads((out / "result.json").read_text()) == values_of(mine.parent / "in.nii").sum() / 2
    )


def test_a_fold_is_advised_for_what_has_none_of_the_axes(mine: Path) -> None:
    cut = run(mine, "shorter").err
    assert "returned a block of shape (0, 2, 3), not (1, 2, 3)" in cut
    assert "Fold" not in cut
    shutil.rmtree(mine.parent / "out")
    assert "use a fold (hyperslab.Fold) where all blocks" in run(mine, "counts").err


def test_a_function_that_fails_in_every_trial_is_not_well(mine: Path) -> None:
    line = line_of(mine, "    return block.foo")
    why = "made-up numbers (AttributeError: 'numpy.ndarray' object has no attribute 'foo' at "
    order = ("run", f"{mine}:broken", mine.parent / "in.nii", "--engine", "serial", "-o")
    ran = call(*order, mine.parent / "out")
    assert ran.err.count("has no attribute 'foo'") == 1, "the failure says what a trial has seen"
    assert "could not be tried" not in ran.err
    done = call(*order, mine.parent / "new", "--dry-run")
    told = (done.out + done.err).replace("\n", " ")
    assert f"broken could not be tried on {why}" in told
    assert f"mine.py:{line})" in told
    assert done.out.splitlines()[-1].startswith("but        broken failed whenever it was tried")
    plan = json.loads(succeed(*order, mine.parent / "new", "--dry-run", "--json"))
    assert plan["failing"] == "broken"


def test_the_output_of_functions_is_named_where_there_is_any(mine: Path) -> None:
    assert "the output of functions" not in run(mine, "fragile").err
    shutil.rmtree(mine.parent / "out")
    source = mine.read_text()
    mine.write_text(source.replace("raise KeyError", "print(' ')\n        raise KeyError", 1))
    told = run(mine, "fragile", "--engine", "processes", "--workers", "1").err
    assert "the output of functions" not in told
    shutil.rmtree(mine.parent / "out")
    mine.write_text(mine.read_text().replace("    if slab", "    print('here')\n    if slab", 1))
    told = run(mine, "fragile", "--engine", "processes", "--workers", "1").err
    assert "the output of functions is in " in told


def test_a_conversion_to_nowhere_is_told_what_is_missing() -> None:
    alone = call("convert", "a.mnc")
    assert alone.code == 2
    assert "the DEST is missing: name the new file or directory" in alone.err
    assert "name the SOURCE and the DEST" in call("convert").err
