"""The built-ins by name: their parameters, what they refuse, and increment."""

from __future__ import annotations

import hashlib
import importlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab import workloads
from hyperslab.arrays import Array
from hyperslab.driver import run
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.workloads import downsample, histogram, histogram_python, increment, smooth, stats


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "uint64", "float32", "complex128"])
def test_increment_has_a_step_per_iteration(dtype: str) -> None:
    data = np.random.default_rng(1).integers(0, 100, (3, 4, 5)).astype(dtype)
    pipeline = workloads.build("increment", Pipeline(data), {"iterations": 3})
    block = data.copy()
    for step in pipeline.steps:
        returned = step.ref.load()(block, **step.ref.params)
        assert returned is block
    assert len(pipeline.steps) == 3
    assert block.dtype == data.dtype
    np.testing.assert_array_equal(block, data + 3)


def test_increment_wraps_around() -> None:
    np.testing.assert_array_equal(increment.increment(np.array([255, 0], np.uint8)), [0, 1])
    np.testing.assert_array_equal(increment.increment(np.array([127], np.int8)), [-128])


def test_increment_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    increment.increment(np.zeros(1), delay=0.25)
    assert slept == [0.25]


@pytest.mark.parametrize("name", workloads.BUILTINS)
def test_every_built_in_describes_itself(name: str) -> None:
    module = {
        "increment": increment,
        "histogram": histogram,
        "histogram-python": histogram_python,
        "stats": stats,
        "smooth": smooth,
        "downsample": downsample,
    }[name]
    assert module.__name__ == workloads.BUILTINS[name]
    assert module.SUMMARY.endswith(".")
    assert "\n" not in module.SUMMARY
    taken = module.build.__code__.co_varnames[1 : module.build.__code__.co_argcount]
    assert set(module.PARAMS) == set(taken)


def test_importing_the_built_ins_loads_no_heavy_library() -> None:
    code = (
        "import sys, importlib; [importlib.import_module(m) for m in"
        f" {list(workloads.BUILTINS.values())}];print({{'scipy', 'h5py', 'nibabel', 'pyarrow',"
        " 'bokeh'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "set()"


def test_parameters_from_texts() -> None:
    texts = [
        "iterations=10",
        "delay=0.1",
        "on=true",
        "off=False",
        "range=0,1.5",
        "name=a=b",
        "none=",
        "path=a,b",
        "one=3,",
    ]
    assert workloads.parse_params(texts) == {
        "iterations": 10,
        "delay": 0.1,
        "on": True,
        "off": False,
        "range": (0, 1.5),
        "name": "a=b",
        "none": "",
        "path": "a,b",
        "one": (3,),
    }
    assert type(workloads.parse_params(["delay=1e3"])["delay"]) is float


@pytest.mark.parametrize("text", ["iterations", "=3", "a-b=1"])
def test_texts_that_are_no_parameters(text: str) -> None:
    with pytest.raises(UsageError, match=f"--param {text}: write it as name=value"):
        workloads.parse_params([text])


def test_a_parameter_given_twice() -> None:
    with pytest.raises(UsageError, match="--param bins is given twice"):
        workloads.parse_params(["bins=1", "bins=2"])


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        (
            "histgram",
            {},
            (
                "FUNCTION 'histgram': there is no such built-in (did you mean 'histogram'?); choose"
                " one of incr"
            ),
        ),
        (
            "smooth",
            {"sigm": 1},
            "--param sigm: 'smooth' has no parameter 'sigm' (did you mean 'sigma'?); it has sigma",
        ),
        ("stats", {"bins": 1}, "--param bins: 'stats' has no parameter 'bins'; it has mask_above"),
        ("increment", {"iterations": 1.5}, "--param iterations=1.5: give an integer: "),
        ("increment", {"iterations": True}, "--param iterations=True: give an integer: "),
        ("increment", {"iterations": 0}, "--param iterations=0: give 1 or more"),
        ("increment", {"delay": "long"}, "--param delay=long: give a number: "),
        ("increment", {"delay": -1}, "--param delay=-1: give 0 or more seconds"),
        (
            "histogram",
            {"bins": "many"},
            "--param bins=many: give an integer: number of equal bins, from 1 to 1048576",
        ),
        ("histogram", {"bins": 0}, "--param bins=0: give "),
        (
            "histogram",
            {"range": (1, 2, 3)},
            "--param range=1,2,3: give 2 numbers joined by commas: ",
        ),
        (
            "histogram",
            {"range": (2, 1)},
            "--param range=2,1: give two finite numbers that float64 can hold",
        ),
        ("histogram", {"range": (0, math.inf)}, "--param range=0,inf: give two finite numbers"),
        ("histogram", {"range": (0, math.nan)}, "--param range=0,nan: give two finite numbers"),
        (
            "smooth",
            {"sigma": (1.0, 2.0)},
            "--param sigma=1,2: give one number of at least 0, or 3 of them",
        ),
        ("smooth", {"sigma": -1.0}, "--param sigma=-1: give one number of at least 0"),
        ("smooth", {"truncate": 0.0}, "--param truncate=0: give a number above 0"),
        (
            "downsample",
            {"factor": 0},
            "--param factor=0: give one integer of at least 1, or 3 of them",
        ),
        (
            "downsample",
            {"factor": (2, 2.5, 2)},
            "--param factor=2,2.5,2: give an integer or integers joined by commas",
        ),
    ],
)
def test_wrong_names_and_parameters(name: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        workloads.build(name, Pipeline(np.zeros((4, 4, 4))), params)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "dtype", "said"),
    [
        ("histogram", "complex64", "a histogram needs real numbers, not complex64"),
        ("histogram-python", "float32", "for float32 may outgrow the array"),
        ("stats", "complex128", "stats needs real numbers"),
        ("stats", "longdouble", "stats needs real numbers of up to 64 bits"),
        ("smooth", "complex128", "smooth needs real numbers"),
        ("downsample", "complex128", "downsample needs real numbers"),
        ("increment", "bool", "increment needs numbers, not bool"),
    ],
)
def test_types_that_a_built_in_cannot_take(name: str, dtype: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        workloads.build(name, Pipeline(np.zeros((4, 4, 4), dtype)), {})


def test_a_range_that_the_dtype_cannot_hold() -> None:
    with pytest.raises(UsageError, match="that float32 can hold"):
        workloads.build(
            "histogram", Pipeline(np.zeros((4, 4, 4), np.float32)), {"range": (0, 1e39)}
        )


def test_built_ins_take_one_input() -> None:
    pipeline = Pipeline(np.zeros((4, 4, 4)), mask=np.ones((4, 4, 4)))
    with pytest.raises(UsageError, match="the built-in 'smooth' takes one input; leave out mask"):
        workloads.build("smooth", pipeline, {})
    pipeline = Pipeline(np.zeros((4, 4, 4)), t1=np.ones((4, 4, 4)))
    with pytest.raises(UsageError, match="takes one input beside mask and labels; leave out t1"):
        workloads.build("stats", pipeline, {})


def test_the_dtype_is_that_of_the_last_step() -> None:
    pipeline = workloads.build("smooth", Pipeline(np.zeros((4, 4, 4), np.uint8)), {})
    assert workloads.build("histogram", pipeline, {}).end.ref.load() is histogram.FROM_LOW_TO_HIGH  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="for float32"):
        workloads.build("histogram-python", pipeline, {})


RESULTS = {
    "increment": (1, "dcf0b799876f3228"),
    "histogram": (1, "0b4331dc69b96b3c"),
    "histogram-python": (1, "0b4331dc69b96b3c"),
    "stats": (1, "44e719e03d43598d"),
    "smooth": (1, "38a9e9b6588b1b28"),
    "downsample": (1, "7ab97a9a65239de9"),
}
"VERSION of each built-in, and what it made of `known_values` then."


def known_values() -> Array:
    return np.random.default_rng(5).integers(0, 200, (6, 7, 8)).astype(np.uint8)


@pytest.mark.parametrize("name", workloads.BUILTINS)
def test_results_do_not_change_within_a_version(name: str, tmp_path: Path) -> None:
    """A run of the version before is resumed while VERSION is the same: if this fails because
    results are meant to be others, raise VERSION and say here what they are.
    """
    pipeline = workloads.build(name, Pipeline(known_values()), {})
    if pipeline.end is None:
        pipeline = pipeline.write(tmp_path / "out", "nii", "volume")
    result = run.run(pipeline, engine="serial", out=tmp_path / "out")
    if result.value is None:
        (path,) = result.outputs
        said = str(np.round(hyperslab.open(path)[...], 2).tolist())
    else:
        said = "\n".join(result.value.lines())
    module = importlib.import_module(workloads.BUILTINS[name])
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    assert (module.VERSION, digest) == RESULTS[name]
