"""Functions whose results depend on where blocks are cut are told of before they run; others never
are.
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import hyperslab
from hyperslab.arrays import Array
from hyperslab.driver import learning
from hyperslab.driver.learning import learn
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.plan.pipeline import Pipeline
from tests.repetitions import each_value
from tests.system.end_to_end.command import FUNCTIONAL, ROOT, call, save, succeed

NOISE = np.random.default_rng(3).normal(1000, 100, (12, 10, 9, 11))


def dependent(
    function: Any, uncut: tuple[int, ...] = (), values: Array = NOISE, **more: Any
) -> tuple[int, ...]:
    return learn(Pipeline(values).map(function, **more), uncut=uncut).dependent


def standardised(block: Array) -> Array:
    return np.asarray((block - block.mean()) / block.std())


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a moment has its time on a busy machine, too."""
    for limit in ("_LEAST_S", "_MOST_S"):
        monkeypatch.setattr(learning, limit, 100)


@pytest.fixture(autouse=True, scope="module")
def _signal() -> None:
    """Imported once, before functions are tried in forks; not by those who only collect tests."""
    import scipy.signal  # noqa: F401


def detrended(block: Array) -> Array:
    from scipy import signal

    return np.asarray(signal.detrend(block, axis=3))


def blurred(block: Array) -> Array:
    return np.asarray(ndimage.gaussian_filter(block, (1, 0, 1, 0)))


def numbered(block: Array) -> Array:
    return np.asarray(ndimage.label(block > 50)[0])


@pytest.mark.parametrize(
    ("function", "axes"),
    [
        (standardised, (0, 1, 2, 3)),
        (detrended, (3,)),
        (blurred, (0, 2)),
        (numbered, (0, 1, 2, 3)),
        (lambda block: np.cumsum(block, axis=1), (1,)),
        (lambda block: np.flip(np.cumsum(np.flip(block, 1), axis=1), 1), (1,)),
        (lambda block: block.mean(axis=3) - block.mean(), (0, 1, 2)),
        (lambda block: {"same": block, "other": block / block.max(axis=0)}, (0,)),
        (lambda block: block - block[:, :, ::-1], (2,)),
        (lambda block: block[::-1, ::-1], (0, 1)),
        (
            lambda block: block * (np.arange(block.shape[1]) < block.shape[1] / 2)[:, None, None],
            (1,),
        ),
        (lambda block: block * (np.arange(len(block)) % 2)[:, None, None, None], (0,)),
    ],
)
def test_axes_along_which_blocks_decide_are_found(function: Any, axes: tuple[int, ...]) -> None:
    assert dependent(function) == axes
    assert dependent(function, uncut=axes) == ()


def mirrored_if_short(block: Array) -> Array:
    if block.shape[3] > 4:
        raise ValueError("too long")
    return block[..., ::-1]


def test_a_mirror_is_found_along_an_axis_of_four_planes() -> None:
    assert dependent(mirrored_if_short, values=NOISE[..., :4]) == (3,)


def peaked(block: Array) -> Array:
    peak = np.unravel_index(block.argmax(), block.shape)
    return np.asarray(block * np.hypot.reduce(peak))


@each_value("extremes are found in every dtype")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2"])
@pytest.mark.parametrize(
    "function",
    [
        lambda block: block / np.abs(block).max(),
        lambda block: block - block.min(),
        lambda block: (block - block.min()) / np.ptp(block),
        lambda block: block / np.percentile(block, 99),
        lambda block: np.clip(block, *np.percentile(block, [2, 98])),
        lambda block: block / block.flat[block.argmax()],
        peaked,
    ],
)
def test_what_is_made_by_extremes_of_a_block_is_found(function: Any, dtype: str) -> None:
    values = NOISE.astype(dtype)
    assert dependent(function, values=values) == (0, 1, 2, 3)
    assert dependent(function, values=values, halo=2) == (0, 1, 2, 3)


def test_what_is_made_by_extremes_within_a_mask_is_found() -> None:
    pipeline = Pipeline(NOISE, mask=NOISE > 1000)
    for extreme in (np.max, np.min):
        within = pipeline.map(lambda block, mask, of=extreme: block / of(block[mask]))
        assert learn(within, uncut=()).dependent == (0, 1, 2, 3)


def largest_cluster(block: Array, threshold: float) -> Array:
    numbers, _ = ndimage.label(block > threshold)
    sizes = np.bincount(numbers.ravel())[1:]
    return np.asarray(numbers == 1 + sizes.argmax(), "u1")


@each_value("thresholds are found in every dtype")
@pytest.mark.parametrize("dtype", ["f4", "f8", "u2", "<i4"])
@pytest.mark.parametrize(
    "function",
    [
        lambda block: ndimage.label(block > 1050)[0],
        lambda block: largest_cluster(block, 1050),
        lambda block: ndimage.distance_transform_edt(block > 1000),
        lambda block: block - block[block > 900].mean() if (block > 900).any() else block,
        lambda block: ndimage.binary_fill_holes(block < 1100).astype("u1"),
    ],
)
def test_what_needs_a_threshold_of_this_array_is_found(function: Any, dtype: str) -> None:
    assert dependent(function, values=NOISE.astype(dtype)) == (0, 1, 2, 3)
    assert dependent(lambda block: np.where(block > 1050, block, 0)) == ()


BRAIN = np.random.default_rng(4).normal(500, 30, (40, 36, 30))
BRAIN[sum(x**2 for x in np.ogrid[-1.2:1.2:40j, -1.3:1.3:36j, -1.1:1.1:30j]) > 1] = 0


def opened(block: Array) -> Array:
    smooth = ndimage.gaussian_filter(block, 2) > 200
    return np.asarray(ndimage.binary_opening(smooth), "u1")


def bright(block: Array) -> Array:
    return np.asarray(ndimage.gaussian_filter(block, 1) > 400, "u1")


def test_a_threshold_after_smoothing_is_tried_on_neighbours(tmp_path: Path) -> None:
    packed = save(tmp_path / "brain.nii.gz", BRAIN.astype("i2"))
    series = np.tile(BRAIN.astype("f4")[..., None], (1, 1, 1, 80))
    large = save(tmp_path / "series.nii", series)
    assert large.stat().st_size > 8 * 2**20, "planes of it are seen, and a box is read beside"
    for source in (BRAIN, packed):
        for function in (opened, bright):
            pipeline = Pipeline(source).map(function)
            assert learn(pipeline, uncut=()).dependent == (0, 1, 2)
        assert learn(Pipeline(source).map(opened, halo=10), uncut=()).dependent == ()
        assert learn(Pipeline(source).map(bright, halo=4), uncut=()).dependent == ()
    mean = Pipeline(large).map(lambda block: bright(block.mean(axis=3)))
    assert learn(mean, uncut=()).dependent == (0, 1, 2)


def clusters_of(least: int, block: Array) -> Array:
    numbers, _ = ndimage.label(block > 300)
    are_kept = np.bincount(numbers.ravel()) >= least
    are_kept[0] = False
    return np.asarray(are_kept[numbers], "u1")


@pytest.mark.parametrize("least", [20, 80, 300, 1000])
def test_a_filter_of_clusters_is_found_where_the_array_has_one_large(least: int) -> None:
    pipeline = Pipeline(BRAIN).map(partial(clusters_of, least))
    assert learn(pipeline, uncut=()).dependent == (0, 1, 2)


def test_neighbours_of_a_mask_lie_beside_those_of_the_array(tmp_path: Path) -> None:
    image = save(tmp_path / "series.nii", np.tile(BRAIN[..., None], (1, 1, 1, 2)))
    mask = save(tmp_path / "mask.nii", (BRAIN > 0).astype("u1"))
    pipeline = Pipeline(image, mask=mask)
    within = pipeline.map(lambda block, mask: bright(block) * (mask > 0))
    assert learn(within, uncut=(3,)).dependent == (0, 1, 2)
    beyond = pipeline.map(lambda block, mask: (block > 0) & (mask == 0))
    assert learn(beyond, uncut=(3,)).dependent == ()


def test_labels_are_tried_as_they_are_in_the_array() -> None:
    labels = np.where(NOISE > 1000, 2001, 1000).astype("i4")
    pipeline = Pipeline(NOISE, labels=labels)
    within = pipeline.map(
        lambda block, labels: block - block[labels == 2001].sum() if 2001 in labels else block
    )
    assert learn(within, uncut=()).dependent == (0, 1, 2, 3)


def test_values_that_cannot_be_seen_are_no_matter() -> None:
    for values in (np.full_like(NOISE, np.nan), np.zeros_like(NOISE)):
        assert dependent(numbered, values=values) == (0, 1, 2, 3)


@pytest.mark.parametrize(("halo", "axes"), [(0, (0, 2)), (3, (0, 2)), (4, ()), (6, ())])
def test_a_halo_that_is_enough_is_no_matter(halo: int, axes: tuple[int, ...]) -> None:
    assert dependent(blurred, halo=(halo, 0, halo, 0)) == axes


def fit(block: Array) -> Array:
    return np.asarray(block @ np.linspace(-1, 1, block.shape[3]))


def cut_by_itself(block: Array) -> Array:
    return np.asarray(ndimage.gaussian_filter(block, 1)[4:-4, 4:-4, 4:-4, 4:-4])


def by_place(block: Array, slab: Any) -> Array:
    return block + np.arange(slab.start[0], slab.start[0] + slab.count[0])[:, None, None, None]


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (np.sqrt, {}),
        (np.negative, {"halo": 2}),
        (fit, {}),
        (lambda block: block.astype("f4") / 3, {}),
        (lambda block: np.percentile(block, [5, 95], axis=3), {}),
        (lambda block: (block.min(axis=3), block.max(axis=3)), {}),
        (lambda block: (block.min(axis=3), block.max(axis=3)), {"outputs": ["low", "high"]}),
        (lambda block: block @ np.arange(11.0), {}),
        (lambda block: np.where(block > 50, block, np.nan), {}),
        (by_place, {}),
        (cut_by_itself, {"halo": 4}),
        (lambda block: ndimage.median_filter(block, 3), {"halo": 1}),
    ],
)
def test_local_functions_are_never_accused(function: Any, more: dict[str, Any]) -> None:
    assert dependent(function, **more) == ()


def test_random_functions_are_not_judged() -> None:
    def random(block: Array) -> Array:
        return block + np.random.default_rng().normal(size=block.shape)

    counter = itertools.count()
    assert dependent(random) == ()
    assert dependent(lambda block: block + next(counter)) == ()


def test_what_fails_on_a_part_is_not_judged() -> None:
    def needs_all(block: Array) -> Array:
        if block.shape[0] < 8:
            raise ValueError("too short")
        return np.asarray(block - block.mean())

    assert dependent(needs_all) == (1, 2, 3)


def test_inputs_beside_it_are_cut_alike() -> None:
    pipeline = Pipeline(NOISE, mask=NOISE > 1000)
    local = pipeline.map(lambda block, mask: np.where(mask, block, 0))
    assert learn(local, uncut=()).dependent == ()
    within = pipeline.map(lambda block, mask: block - block[mask].mean())
    assert learn(within, uncut=()).dependent == (0, 1, 2, 3)


def test_steps_are_tried_together() -> None:
    smooth = Pipeline(NOISE).map(blurred, halo=(4, 0, 4, 0))
    assert learn(smooth.map(np.sqrt), uncut=()).dependent == ()
    assert learn(smooth.map(blurred), uncut=()).dependent == (0, 2)


def test_it_takes_no_longer_than_learning_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"

    def slow(block: Array) -> Array:
        with calls.open("a") as file:
            file.write("+")
        if len(calls.read_text()) > 2:
            time.sleep(1000)
        return np.asarray(block - block.mean())

    monkeypatch.setattr(learning, "LIMIT_S", 1000)
    monkeypatch.setattr(learning, "_LEAST_S", 0.5)
    monkeypatch.setattr(learning, "_MOST_S", 0.7)  # on a busy machine learning takes longer
    assert dependent(slow) == (), "five calls more would have shown it"
    assert 2 <= len(calls.read_text()) <= 3, "both samples, and what began in 0.7 s"


def test_a_few_calls_more_are_enough_for_a_local_function(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def counted(block: Array) -> Array:
        with calls.open("a") as file:
            file.write("+")
        return block

    assert dependent(counted) == ()
    assert len(calls.read_text()) == 21, (
        "both samples, one as long as the array; two blocks made up, two like the array, two of it,"
        " twelve of clusters"
    )


def warning(function: Any, source: Any, tmp_path: Path, **options: Any) -> str:
    pipeline = Pipeline(source).map(function).write(tmp_path / "out", format="zarr")
    return prepare(pipeline, Options(engine="serial", **options)).warning


def test_it_is_told_of_axes_that_the_plan_cuts(tmp_path: Path) -> None:
    assert warning(standardised, NOISE, tmp_path) == "", "one block"
    assert "are cut along axes 0,2, as a trial" in warning(
        standardised, NOISE, tmp_path, blocks="2x1x3x1"
    )
    assert warning(blurred, NOISE, tmp_path, blocks="1x2x1x2") == ""
    whole = warning(standardised, NOISE, tmp_path, blocks="6", axes_whole="0,2")
    assert "are cut along axis 1, as" in whole
    assert "--axes-whole 0,1,2 does not cut there" in whole
    image = save(tmp_path / "in.nii", NOISE)
    assert "are cut along axis 3, as" in warning(detrended, image, tmp_path, blocks="1x1x1x3")


def test_a_run_and_its_plan_say_so_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def own(block):\n    return block - block.mean()\n")
    order = ("run", f"{path}:own", FUNCTIONAL, "--blocks", "2x1x1x1", "--no-report")
    said = "what own makes depends on where blocks are cut along axis 0, as a trial on a"
    (line,) = [
        line
        for line in call(*order, "-o", tmp_path / "a", "--dry-run").out.splitlines()
        if said in line
    ]
    assert "--check-locality tells which --halo helps, --axes-whole 0 does not cut there" in line
    for place, flags in (("a", ()), ("quiet", ("-q",))):
        done = call(*order, "-o", tmp_path / place, "--engine", "serial", *flags)
        assert (done.code, done.err.count(f"warning    {said}")) == (0, 1)
    told = json.loads(succeed("report", tmp_path / "quiet", "--json"))
    assert told["summary"]["warning"].startswith(said)
    assert f"warning    {said}" in succeed("report", tmp_path / "quiet")
    page = (tmp_path / "quiet" / ".hyperslab" / "run-0001" / "report.html").read_text()
    assert ">Warning: what own makes depends on" in page
    more = (*order[2:], "-o", tmp_path / "b", "--engine", "serial")
    local = call("run", f"{ROOT}/examples/slope.py:fit", *more)
    assert (local.code, "depends" in local.out + local.err) == (0, False)


def test_python_warns_at_the_line_of_the_call(tmp_path: Path) -> None:
    pipeline = Pipeline(NOISE).map(standardised)
    settings: dict[str, Any] = {"engine": "serial", "blocks": "2x1x1x1", "report": False}
    ways: dict[str, Callable[[], Any]] = {
        "run": lambda: hyperslab.run(pipeline.write(tmp_path / "out"), **settings),
        "compute": lambda: pipeline.compute(**settings),
        "reduce": lambda: pipeline.reduce("stats").compute(**settings),
    }
    for name, call_it in ways.items():
        with pytest.warns(hyperslab.LocalityWarning, match="depends on where") as seen:
            call_it()
        assert [Path(one.filename) for one in seen] == [Path(__file__)], name
        assert "check_locality tells which halo helps, axes_whole=" in str(seen[0].message)
    summary = json.loads((tmp_path / "out/.hyperslab/run-0001/summary.json").read_text())
    assert "axes_whole=" in json.dumps(summary)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.compute(engine="serial", blocks="1")


def test_a_filter_that_needs_a_long_series_is_tried_on_one() -> None:
    """Its kernel is longer than the axes of samples are: they are tried whole, and cut then."""

    from scipy import signal

    def filtered(block: Array) -> Array:
        return np.asarray(signal.filtfilt(*signal.butter(2, 0.1, "high"), block, axis=3))

    values = np.random.default_rng(0).random((6, 5, 4, 60))
    assert dependent(filtered, values=values, dtype="float64") == (3,)


def test_what_cannot_be_tried_is_said(tmp_path: Path) -> None:
    def broken(block: Array) -> Array:
        return np.asarray(block.foo)  # type: ignore[attr-defined]

    pipeline = Pipeline(NOISE).map(broken).write(tmp_path / "out", format="zarr")
    found = prepare(pipeline, Options(engine="serial"), dry=True).warning
    assert "broken could not be tried on made-up numbers (AttributeError: " in found
