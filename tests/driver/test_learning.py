"""What functions return is learned from samples, whatever they do to the process that asks."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.axes import Axes
from hyperslab.driver import learning
from hyperslab.driver.inferred import matched, of_any_dtype
from hyperslab.driver.learning import learned
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.run import run
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.promise import PLAIN, Promise, Trial
from tests.system.end_to_end.command import image_of, real_values_of, save
from tests.system.faults.command import PATIENCE_S, await_that

SERIES = (6, 6, 6, 6)
"A shape that tells its axes apart by nothing."


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in") / "series.nii"
    return save(path, np.zeros(SERIES, np.int16))


def promises(source: Path, function: Any, **more: Any) -> tuple[Promise, ...]:
    """What is learned of a function."""
    return learned(Pipeline(source).map(function, **more)).returns


@pytest.mark.parametrize("axis", range(4))
def test_which_axis_is_dropped_is_known_where_all_are_alike(series: Path, axis: int) -> None:
    assert promises(series, lambda block: block.max(axis=axis)) == (
        Promise(drop_axis=(axis,)),
    )  # fmt: skip


def test_dtypes_names_and_new_axes_are_learned(series: Path) -> None:
    def fit(block: Array) -> dict[str, Array]:
        both = np.stack([block.min(axis=3), block.max(axis=3)], axis=-1)
        return {"mean": block.mean(axis=3), "range": both}

    assert promises(series, fit) == (
        Promise("mean", "float64", (3,)),
        Promise("range", None, (3,), ((3, 2),)),
    )


def test_names_are_texts(series: Path) -> None:
    made = promises(series, lambda block: {0: block, 7: block[..., 0]})
    assert [promise.name for promise in made] == ["0", "7"]
    with pytest.raises(UsageError, match="files are named by it"):
        promises(series, lambda block: {"a/b": block})


def test_a_step_after_another_gets_what_that_returned(series: Path) -> None:
    pipeline = Pipeline(series).map(lambda block: block.mean(axis=3))
    both = learned(pipeline.map(lambda block: block.sum(axis=0) > 1))
    assert [axes.kept for axes in both.axes] == [(1, 2)]
    assert both.returns == (Promise(dtype="bool", drop_axis=(0,)),)
    assert both.dropped == (0, 3)


def test_axes_that_must_be_whole_are_tried(series: Path) -> None:
    def of_six(block: Array) -> Array:
        return np.asarray(block @ np.arange(6.0))

    assert promises(series, of_six) == (Promise(dtype="float64", drop_axis=(3,)),)


def test_an_axis_that_gets_shorter_by_any_length_is_the_same(series: Path) -> None:
    shorter = Promise(drop_axis=(3,), new_axis=((3, 5),), continued=(3,))
    assert promises(series, lambda block: np.diff(block, axis=3)) == (shorter,)
    other = Promise(drop_axis=(3,), new_axis=((3, 3),))
    assert promises(series, lambda block: block[..., ::2]) == (other,)
    (both,) = promises(series, lambda block: {"a": block[..., :-1] + 0.5})
    assert (both.name, both.continued) == ("a", (3,))


def test_an_axis_that_gets_much_shorter_is_the_same(tmp_path: Path) -> None:
    """So short are the samples of functions that take any length that nothing is left of them."""
    long = save(tmp_path / "long.nii", np.zeros((4, 4, 4, 12), np.int16))
    without_first = Promise(drop_axis=(3,), new_axis=((3, 5),), continued=(3,))
    assert promises(long, lambda block: block[..., 7:]) == (without_first,)
    parts = Promise(drop_axis=(3,), new_axis=((3, 5),))
    assert promises(long, lambda block: block[..., :5]) == (parts,)


def _leave(_: Array) -> Array:
    os._exit(7)


def _exit(_: Array) -> Array:
    sys.exit(3)


def _late(block: Array) -> Array:
    time.sleep(30)
    return block


def _raise(_: Array) -> Array:
    raise ValueError("not to my liking")


_calls = itertools.count()


def _otherwise(block: Array) -> dict[str, Array]:
    """An array of another name each time."""
    return {f"a{next(_calls)}": block}


@pytest.mark.parametrize(
    "function",
    [_leave, _exit, _late, _raise, _otherwise],
)
def test_where_nothing_is_learned_blocks_are_taken_to_keep_their_shape(
    series: Path, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    monkeypatch.setattr(learning, "LIMIT_S", 0.3)
    assert promises(series, function) == PLAIN


def test_a_sample_changes_nothing_here(series: Path, capfd: pytest.CaptureFixture[str]) -> None:
    calls = []

    def told(block: Array) -> Array:
        calls.append(block.shape)
        print("called")
        return np.asarray(block.max(axis=3))

    assert promises(series, told) == (Promise(drop_axis=(3,)),)
    assert calls == []
    assert capfd.readouterr().out == ""


def test_it_is_learned_in_a_daemon_too(series: Path) -> None:
    """Dask's workers are daemons, which multiprocessing lets start none of its processes."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def answer() -> None:
        theirs.send(promises(series, lambda block: block.max(axis=3)))

    child = multiprocessing.get_context("fork").Process(target=answer, daemon=True)
    child.start()
    assert ours.poll(PATIENCE_S)
    assert ours.recv() == (Promise(drop_axis=(3,)),)
    child.join()


def test_what_was_said_stays_and_is_not_asked_for(series: Path) -> None:
    said = Promise(dtype="float32", drop_axis=(0,))
    assert promises(series, _raise, dtype="float32", drop_axis=0) == (said,)
    assert promises(series, lambda block: block.mean(axis=3), dtype="float32") == (
        Promise(dtype="float32", drop_axis=(3,)),
    )


def test_several_arrays_go_into_no_further_step(series: Path) -> None:
    pipeline = Pipeline(series).map(lambda block: {"a": block, "b": block})
    again = pipeline.map(lambda block: block)
    with pytest.raises(UsageError, match="several arrays go into"):
        learned(again).settled()


def test_a_single_number_is_a_matter_for_folds(series: Path) -> None:
    with pytest.raises(UsageError, match="a fold"):
        learned(Pipeline(series).map(np.sum).write("out")).settled()


def test_axes_are_told_by_both_extents() -> None:
    given = [(5, 8), (7, 10), (9, 9), (9, 9)]
    assert matched([(5, 8), (7, 10)], given) == Axes((0, 1), (0, 0))
    assert matched([(7, 10), (5, 8)], given) is None
    assert matched([(5, 8), (9, 9)], given) is None  # which of the two?
    assert matched([(9, 9), (9, 9)], given) == Axes((2, 3), (0, 0))
    assert matched([(2, 2), (5, 8)], given) == Axes((None, 0), (2, 0))
    assert matched([(2, 3)], given) is None
    assert matched([(0, 0)], given) is None


def test_what_a_function_starts_for_a_sample_ends_with_it(series: Path, tmp_path: Path) -> None:
    def leaving(block: Array) -> Array:
        child = subprocess.Popen(["sleep", "100"])
        (tmp_path / "pid").write_text(str(child.pid))
        return block

    assert promises(series, leaving) == PLAIN
    pid = int((tmp_path / "pid").read_text())
    await_that("the end of what it started", lambda: _state(pid) in ("", "Z", "X"))


def _state(pid: int) -> str:
    """State of a process; '' where it is gone."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    return ""


def of_real_numbers(block: Array) -> Array:
    """Fails on made-up numbers, which are below 120."""
    if block.max() < 1000:
        raise ValueError("no brain")
    return np.asarray(block.mean(axis=3))


def test_what_fails_on_made_up_numbers_is_tried_on_such_as_were_seen(tmp_path: Path) -> None:
    for values in (np.full(SERIES, 2000, np.int16), np.arange(np.prod(SERIES)).reshape(SERIES)):
        source = save(tmp_path / "in.nii", values.astype("i2"))
        (mean,) = promises(Path(source), of_real_numbers)
        assert (mean.drop_axis, mean.dtype) == ((3,), "float64")


def of_missing_values(block: Array) -> Array:
    if not np.isnan(block).all():
        raise ValueError("no brain")
    return np.asarray(block.sum(axis=3))


def test_what_a_trial_raised_is_said_where_its_assumption_is_wrong(tmp_path: Path) -> None:
    source = save(tmp_path / "in.nii", np.full(SERIES, np.nan, np.float32))
    pipeline = Pipeline(source).map(of_missing_values)
    result = run(pipeline.write(tmp_path / "out"), engine="serial", check=False, report=False)
    (failed,) = result.failures
    assert "it failed on the made-up numbers that it was tried on (ValueError: no brain at " in (
        failed.message
    )
    assert f"{Path(__file__).name}:" in failed.message
    assert "say what it returns (" in failed.message
    told = run(
        Pipeline(source).map(of_missing_values, drop_axis=3, dtype="f4").write(tmp_path / "b"),
        engine="serial",
        report=False,
    )
    assert told.ok


@pytest.mark.parametrize("function", [np.sum, lambda block: {"all": block, "sum": block.sum()}])
def test_a_number_of_each_block_is_a_fold(series: Path, function: Any) -> None:
    with pytest.raises(UsageError, match=r"single number for a block.*hyperslab\.Fold, whose lift"):
        learned(Pipeline(series).map(function))


def test_a_trial_that_takes_long_is_told_and_bounded(
    series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is tried beside the two samples has a limit of its own."""
    calls = tmp_path / "calls"

    def slow(block: Array) -> Array:
        with calls.open("a") as file:
            file.write("+")
        time.sleep(0.2)
        if len(calls.read_text()) > 2:
            time.sleep(1000)
        return block

    monkeypatch.setattr(learning, "LIMIT_S", 1000)
    monkeypatch.setattr(learning, "_TOLD_S", 0.1)
    monkeypatch.setattr(learning, "_MOST_S", 0.1)
    told: list[str] = []
    learning.learn(Pipeline(series).map(slow), uncut=(), tell=told.append)
    (line,) = told
    assert line.endswith("slow on made-up numbers, for 1000.1 s at most (or --no-trial)")
    told.clear()
    monkeypatch.setattr(learning, "_TOLD_S", 1000)
    learning.learn(Pipeline(series).map(lambda block: block), tell=told.append)
    assert told == []


def test_a_function_of_which_all_is_said_is_not_tried(series: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def mean(block: Array) -> Array:
        calls.touch()
        return np.asarray(block.mean(axis=3))

    learning.learn(Pipeline(series).map(mean, dtype="f8", drop_axis=3), uncut=())
    assert not calls.exists()
    prepare(Pipeline(series).map(mean).write(tmp_path / "out"), Options(trial=False))
    assert not calls.exists()
    learning.learn(Pipeline(series).map(mean, dtype="f8"), uncut=())
    assert calls.exists()


def misspelt(block: Array) -> Array:
    return blok * 2  # type: ignore[name-defined,no-any-return]  # noqa: F821


def leaves(block: Array) -> Array:
    sys.exit("singular")


def ends(block: Array) -> Array:
    os._exit(3)


def test_why_a_trial_failed_is_known_however_it_ended(
    series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def why(function: Any) -> str:
        (step,) = learned(Pipeline(series).map(function)).steps
        return step.trial.error

    assert "NameError: name 'blok' is not defined at " in why(misspelt)
    assert "the function called sys.exit('singular')" in why(leaves)
    assert why(ends) == "it ended the process in which it was tried"

    def odd(block: Array) -> Array:
        if block.shape == SERIES:
            time.sleep(1000)
        raise IndexError("volume 9")

    monkeypatch.setattr(learning, "LIMIT_S", 4)
    assert why(odd).startswith("IndexError: volume 9 at "), "of the samples before"
    monkeypatch.setattr(learning, "LIMIT_S", 0.5)
    assert why(lambda block: time.sleep(1000)) == "it did not end within 0.5 s"


def slow(block: Array) -> dict[str, Array]:
    """It takes longer for a sample than for all of a small array."""
    if block.shape != SERIES:
        time.sleep(1000)
    return {"a": block, "b": block}


def test_a_slow_function_is_not_told_to_fail(
    series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "LIMIT_S", 0.3)
    pipeline = Pipeline(series).map(slow)
    dry = prepare(pipeline.write(tmp_path / "a"), Options(engine="serial"), dry=True)
    assert (dry.failing, dry.warning) == ("", "")
    (note,) = dry.notes
    assert note.startswith("slow is too slow to be tried on made-up numbers (it did not end within")
    result = run(pipeline.write(tmp_path / "b"), engine="serial", blocks=1, check=False)
    (failed,) = result.failures
    assert "its trial on made-up numbers took too long (it did not end within 0.3 s)" in (
        failed.message
    )
    assert "it failed on" not in failed.message
    assert "or let it take such numbers" not in failed.message


def test_what_was_neither_clear_nor_wrong_before_time_was_up_is_late(
    series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unclear(block: Array) -> dict[str, Array]:
        if block.shape == SERIES:
            time.sleep(1000)
        return _otherwise(block)

    monkeypatch.setattr(learning, "LIMIT_S", 2)
    (step,) = learned(Pipeline(series).map(unclear)).steps
    assert step.trial == Trial("it did not end within 2 s", is_late=True)


def test_what_fails_for_any_sample_is_tried_on_one(series: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def count(error: type[Exception]) -> int:
        def fails(block: Array) -> Array:
            with calls.open("a") as file:
                file.write("x")
            raise error("no")

        calls.write_text("")
        learned(Pipeline(series).map(fails))
        return len(calls.read_text())

    assert count(NameError) == 1
    kinds = 2  # made-up numbers, and values of the array
    assert count(ValueError) == kinds * (1 + 4 + 1), "no axis, each, all"


@pytest.mark.parametrize("order", ["scaled first", "scaled last"])
def test_a_dtype_is_that_of_all_arrays_however_they_are_ordered(tmp_path: Path, order: str) -> None:
    """Images of a study: one holds scaled values, which are float64, and one integers."""
    plain = save(tmp_path / "plain.nii", np.full(SERIES, 3, np.int16))
    scaled = save(tmp_path / "scaled.nii", np.full(SERIES, 5, np.int16))
    with scaled.open("r+b") as file:
        file.seek(112)  # scl_slope
        file.write(np.float32(0.5).tobytes())
    sources = [plain, scaled]
    if order == "scaled first":
        sources.reverse()

    def fit(block: Array) -> dict[str, Array]:
        return {"mean": block.mean(axis=3), "most": block.max(axis=3)}

    pipeline = Pipeline(sources).map(fit)
    assert learned(pipeline).returns == (
        Promise("mean", "float64", (3,)),
        Promise("most", None, (3,)),
    )
    run(pipeline.write(tmp_path / "out"), Options("threads", report=False))
    means = {path.name: float(real_values_of(path).max()) for path in _found(tmp_path, "mean")}
    assert sorted(means.values()) == [2.5, 3.0]
    most = {float(real_values_of(path).max()) for path in _found(tmp_path, "most")}
    assert most == {2.5, 3.0}


def test_arrays_of_several_dtypes_have_results_of_several(tmp_path: Path) -> None:
    """A mean is float64 of int16, and float32 of float32."""
    plain = save(tmp_path / "plain.nii", np.full(SERIES, 3, np.int16))
    single = save(tmp_path / "single.nii", np.full(SERIES, 5, np.float32))
    scaled = save(tmp_path / "scaled.nii", np.full(SERIES, 7, np.int16))
    with scaled.open("r+b") as file:
        file.seek(112)  # scl_slope
        file.write(np.float32(0.5).tobytes())
    for number, sources in enumerate(itertools.permutations([plain, single, scaled])):
        out = tmp_path / f"out{number}"
        pipeline = Pipeline(sources).map(lambda block: block.mean(axis=3)).write(out)
        run(pipeline, Options("threads", report=False))
        means = {path.name: image_of(out / path.name) for path in sources}
        kinds = {name: image.get_data_dtype().name for name, image in means.items()}
        assert kinds == {"plain.nii": "float64", "single.nii": "float32", "scaled.nii": "float64"}
        values = {name: float(image.get_fdata().max()) for name, image in means.items()}
        assert values == {"plain.nii": 3.0, "single.nii": 5.0, "scaled.nii": 3.5}


@pytest.mark.parametrize(
    ("promised", "told"),
    [
        pytest.param([None, None], Promise(), id="as its block"),
        pytest.param(["float32", "float32"], Promise(dtype="float32"), id="one for all"),
        pytest.param(["int16", None], Promise(dtype="int16"), id="one of which it is that"),
        pytest.param(["float64", ...], Promise(dtype="float64"), id="nothing learned of one"),
        pytest.param(
            ["float64", "int16"],
            Promise(of_dtypes=(("float32", "float64"), ("int32", "int16"))),
            id="each its own",
        ),
    ],
)
def test_promises_for_blocks_of_two_dtypes(promised: list[Any], told: Promise) -> None:
    """Of float32 and int32; where nothing differs from the block, it stays unsaid, as before."""
    names = ["float32", "int32"]
    if promised == ["int16", None]:
        names = ["int32", "int16"]
    each = [[(Promise(dtype=name),)] if name is not ... else [] for name in promised]
    assert of_any_dtype(each, [np.dtype(name) for name in names]) == [(told,)]


def test_a_further_input_of_several_dtypes_changes_no_promise() -> None:
    of_one = [[(Promise(),)], [(Promise(),)]]
    assert of_any_dtype(of_one, [np.dtype("int16")] * 2) == [(Promise(),)]


def _found(folder: Path, name: str) -> list[Path]:
    """Images of a map that a run has written."""
    return [path for path in (folder / "out").rglob("*.nii") if name in str(path)]
