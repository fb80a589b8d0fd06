"""What is wrong is refused by the call that says it, in the words of Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.keywords import MAP_OPTIONS, PIPELINE_OPTIONS, WRITE_OPTIONS
from hyperslab.testing import functions
from tests.system.end_to_end.command import ANATOMICAL

REFUSED: list[tuple[Callable[[hyperslab.Pipeline], object], str]] = [
    (lambda _: hyperslab.Options(memory="5XB"), "^memory='5XB': give a positive size"),
    (lambda _: hyperslab.Options(blocks="3q"), "^blocks='3q': give whole numbers"),
    (lambda _: hyperslab.Options(axes_whole=(0, 1.5)), "^axes_whole: .* not whole numbers"),  # type: ignore[arg-type]
    (lambda _: hyperslab.Options(blocks=3, block_shape=(1, 2)), "^block_shape and blocks are"),
    (lambda _: hyperslab.Options(engine="dsk"), "^engine='dsk': choose one of serial, "),
    (lambda _: hyperslab.Options(workers=0), "^workers=0: give 1 or more"),
    (lambda _: hyperslab.Options(task_timeout=-1), "^task_timeout=-1: give a positive"),
    (lambda _: hyperslab.Options(granularity="fine"), "^granularity fine: choose"),  # type: ignore[arg-type]
    (
        lambda _: hyperslab.Options(accept_changed_function=True),
        "^accept_changed_function=True needs resume=True",
    ),
    (lambda _: hyperslab.Rule("blcks"), "choose one of auto, block-shape"),  # type: ignore[arg-type]
    (lambda _: hyperslab.Fold(3, 4), "the lift of a Fold: 3 is not a function"),  # type: ignore[arg-type]
    (lambda p: p.map(_gained, {"gian": 2}), "^parameter gian: .*did you mean 'gain'"),
    (lambda p: p.map(_gained, gian=2), "^parameter gian: .*did you mean 'gain'"),
    (lambda p: p.map("smooth", sigm=2), "^parameter sigm: .*did you mean 'sigma'"),
    (lambda p: p.map("smooth", 2.0), r"^params=2.0: give parameters by name, as sigma=1 or params"),  # type: ignore[arg-type]
    (lambda p: p.map(_gained, {"gain": 2}, gain=3), "^gain= is also given in params"),
    (
        lambda p: p.map(_any, hallo=2),
        r"^hallo=: map\(\) has no such option .did you mean 'halo'.*params={'hallo': ...}",
    ),
    (
        lambda p: p.map(_gained, boundary="nearest"),
        r"^boundary=: map\(\) has no such option: it belongs to Pipeline\(source, boundary=",
    ),
    (lambda p: p.map(_any, workers=2), r"^workers=: map\(\) .* and compute\(workers=\.\.\.\); if"),
    (lambda p: p.map(_gained, hallo=2), r"^hallo=: map\(\) .*did you mean 'halo'"),
    (lambda p: p.map(_needing), "^function '_needing' needs 'level': give parameter level=VALUE"),
    (lambda p: p.map(3), "function 'int' is of type int, neither a function nor a Fold"),
    (lambda p: p.map(functions.TOTAL), "is a fold: use reduce"),
    (lambda p: p.map("smoth"), "there is no such built-in .did you mean 'smooth'"),
    (lambda p: p.map("stats"), r"'stats' makes one value of all blocks: use reduce\('stats'\)"),
    (lambda p: p.reduce("smooth"), r"'smooth' makes blocks of blocks: use map\('smooth'\)"),
    (
        lambda p: p.map("smooth", halo=2),
        "^halo: the built-in 'smooth' sets it itself; leave it out",
    ),
    (lambda p: p.map(_gained, halo=1.5), r"^halo=1.5: give one number"),  # type: ignore[arg-type]
    (lambda p: p.map(_gained, dtype="flot"), "^dtype flot: not a NumPy dtype"),
    (lambda p: p.write("out", format="niii"), "^format niii: choose one of nii, "),
    (lambda p: p.write("out", keep="all"), "^keep all: choose one of blocks, volume"),  # type: ignore[arg-type]
    (lambda _: hyperslab.Pipeline(ANATOMICAL, values="reel"), "^values reel: choose one of real"),  # type: ignore[arg-type]
    (lambda _: hyperslab.Pipeline(ANATOMICAL, boundary="x"), "^boundary x: choose one of"),  # type: ignore[arg-type]
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, boundry="nearest"),
        r"^boundry=: Pipeline has no such option .did you mean 'boundary'.*; as a further input, ",
    ),
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, halo=2),  # type: ignore[arg-type]
        r"^halo=: this option belongs to map\(function, halo=...\); as a further input, 2 ",
    ),
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, engine="threads"),
        r"^engine=: this option belongs to run\(pipeline, engine=...\) and compute\(engine=",
    ),
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, sigma=2.0),  # type: ignore[arg-type]
        r"^sigma=: parameters of a function belong to map\(function, sigma=...\); as",
    ),
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, regoin="10:20"),
        "did you mean 'region'.* SOURCE '10:20': there is no such file",
    ),
    (lambda _: hyperslab.Pipeline(ANATOMICAL, mask="no.nii"), "^SOURCE 'no.nii': there is no such"),
    (
        lambda _: hyperslab.Pipeline(ANATOMICAL, storage_option={"anon": 1}),  # type: ignore[arg-type]
        "did you mean 'storage_options'",
    ),
    (lambda p: p.compute(resume=True), "^resume=True: "),
    (lambda _: hyperslab.run("scan.nii"), r"^run\(\) takes a Pipeline, not a str"),  # type: ignore[arg-type]
    (lambda p: p.write("out").compute(), "leave write"),
]


def _gained(block: Array, gain: int = 1) -> Array:
    return block * np.int16(gain)


def _any(block: Array, **more: int) -> Array:
    return block + np.int16(len(more))


def _of_two_shapes(block: Array) -> tuple[Array, Array]:
    return block, block[1:]


def _needing(block: Array, level: int) -> Array:
    return block * np.int16(level)


@pytest.mark.parametrize(("say", "told"), REFUSED)
def test_what_is_wrong_is_refused_when_it_is_said_in_pythons_words(
    say: Callable[[hyperslab.Pipeline], object], told: str
) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    with pytest.raises(UsageError, match=told) as raised:
        say(pipeline)
    assert "--" not in str(raised.value)


def test_parameters_are_keywords_of_map_and_reduce() -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    by_name = {"sigmas": (2.0,) * 3, "truncate": 4.0}
    assert pipeline.map("smooth", sigma=2).steps[0].ref.params == by_name
    assert pipeline.map(_gained, gain=3).steps[0].ref.params == {"gain": 3}
    assert pipeline.map(_any, {"a": 1}, b=2, halo=1).steps[0].ref.params == {"a": 1, "b": 2}
    value = pipeline.reduce("histogram", bins=7).compute(engine="serial")
    assert len(value.counts) == 7


def test_options_of_map_are_no_parameters() -> None:
    taken = inspect.signature(hyperslab.Pipeline.map).parameters
    assert list(taken) == ["self", "function", *MAP_OPTIONS, "more"]
    assert list(inspect.signature(hyperslab.Pipeline).parameters) == [
        "source",
        *PIPELINE_OPTIONS,
        "others",
    ]
    written = inspect.signature(hyperslab.Pipeline.write).parameters
    assert list(written) == ["self", "dest", *WRITE_OPTIONS, "more"]


def test_a_pipeline_shows_built_ins_as_they_are_called() -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    assert repr(pipeline.map("smooth", sigma=1)).endswith("-> smooth>")
    assert repr(pipeline.reduce("histogram-python")).endswith("-> histogram-python>")


def test_a_setting_that_is_none_is_refused_as_python_does() -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    with pytest.raises(TypeError, match=r"run\(\) has no setting 'blcks' .did you mean 'blocks'"):
        hyperslab.run(pipeline, blcks=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^compute\(\) has no setting 'boundary': .* Pipeline\("):
        pipeline.compute(boundary="nearest")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^run\(\) has no setting 'halo': it belongs to map\("):
        hyperslab.run(pipeline, halo=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^write\(\) has no option 'workers': it .* run\("):
        pipeline.write("out", workers=2)


def test_a_failure_is_told_in_the_words_of_who_called(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(lambda block: block / 2, dtype="int16")
    with pytest.raises(hyperslab.TasksFailed, match="dtype='int16': the value "):
        hyperslab.run(pipeline.write(tmp_path / "out"), engine="serial", report=False)


def test_a_failed_computation_does_not_advise_to_resume() -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(lambda block: block / 2, dtype="int16")
    with pytest.raises(hyperslab.TasksFailed, match=r"then call compute\(\) again") as raised:
        pipeline.compute(engine="serial")
    assert "resume" not in str(raised.value)


def test_of_several_arrays_the_shapes_are_told() -> None:
    pipeline = hyperslab.Pipeline(np.zeros((4, 5, 6)))
    with pytest.raises(
        hyperslab.TasksFailed, match=r"a tuple of shapes \(4, 5, 6\) and \(3, 5, 6\), not one"
    ):
        pipeline.map(_of_two_shapes).compute(engine="serial", trial=False)
    with pytest.raises(
        hyperslab.TasksFailed, match=r"as 'b' a block of shape \(3, 5, 6\), not \(4, 5, 6\)"
    ):
        pipeline.map(_of_two_shapes, outputs=["a", "b"]).compute(engine="serial", trial=False)
