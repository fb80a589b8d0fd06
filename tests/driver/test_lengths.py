"""Axes that functions resize are as long as follows from the array of each, or from its region."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import hyperslab
from hyperslab.apps.locality import check_locality
from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.driver import lengths
from hyperslab.driver.lengths import distinct, some_of, with_lengths
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.run import run
from hyperslab.errors import UsageError
from hyperslab.plan.function import refer
from hyperslab.plan.pipeline import Pipeline, Step
from hyperslab.plan.promise import Promise
from tests.system.end_to_end.command import real_values_of, save

LENGTHS = (20, 17, 25)
DESIGN = np.vander(np.linspace(-1, 1, 16), 2)


def glm(block: Array) -> dict[str, Array]:
    """Slopes and residuals of a design of 16 rows."""
    betas = block @ np.linalg.pinv(DESIGN).T
    return {"betas": betas, "rest": block - betas @ DESIGN.T}


def both(block: Array) -> dict[str, Array]:
    return {"mean": block.mean(axis=3), "diff": np.diff(block, axis=3)}


def even(block: Array) -> Array:
    """The volumes without the last one of an odd number."""
    return block[..., : block.shape[3] // 2 * 2]


RESIZING: Mapping[str, Callable[[Array], Any]] = {
    "diff": lambda block: np.diff(block, axis=3),
    "spectrum": lambda block: np.abs(np.fft.rfft(block, axis=3)),
    "later": lambda block: block[..., 2:],
    "second": lambda block: block[..., ::2],
    "halves": lambda block: block[..., ::2] if block.shape[3] % 2 else block[..., :-1:2],
    "twice": lambda block: np.repeat(block, 2, axis=3),
    "even": even,
    "both": both,
    "spread": lambda block: {"shape": block.std(axis=3), "even": even(block)},
}


def subjects(folder: Path, each: Sequence[int] = LENGTHS) -> list[Path]:
    """Series of these lengths, of numbers of their own."""
    found = []
    for number, length in enumerate(each):
        values = np.random.default_rng(number).integers(0, 100, (5, 6, 4, length), np.int16)
        found.append(save(folder / f"s{number:02}.nii", values))
    return found


def made_of(function: Any, files: Any, **more: Any) -> list[Any]:
    """What a pipeline of a function makes of every file."""
    made = hyperslab.Pipeline(files, **more).map(function).compute(engine="serial")
    return made if isinstance(made, list) else [made]


def require_same(found: Any, expected: Any) -> None:
    if not isinstance(expected, dict):
        found, expected = {"": found}, {"": expected}
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), array, rtol=1e-12)


def require_each(found: Sequence[Any], files: Sequence[Path], function: Any) -> None:
    """These are the arrays that a function makes of every file, file by file."""
    made = [function(np.asarray(hyperslab.open(path))) for path in files]
    expected = [list(one.values()) if isinstance(one, dict) else [one] for one in made]
    flat = [array for arrays in expected for array in arrays]
    assert len(found) == len(flat) > 0
    for array, other in zip(found, flat, strict=True):
        require_same(array, other)


@pytest.mark.parametrize("name", RESIZING)
def test_every_array_has_the_length_that_follows_from_its_own(name: str, tmp_path: Path) -> None:
    files = subjects(tmp_path)
    require_each(made_of(RESIZING[name], files), files, RESIZING[name])


def test_a_step_after_one_that_resizes_gets_what_that_made(tmp_path: Path) -> None:
    files = subjects(tmp_path)
    pipeline = hyperslab.Pipeline(files).map(RESIZING["second"]).map(RESIZING["diff"])
    made = pipeline.compute(engine="serial")
    for path, found in zip(files, made, strict=True):
        values = np.asarray(hyperslab.open(path))
        require_same(found, np.diff(values[..., ::2], axis=3))


@pytest.mark.parametrize("text", ["...,4:", ":,:,:,4:20", "1:4,:,:,4:"])
@pytest.mark.parametrize("name", ["diff", "both", "spectrum"])
def test_a_region_is_what_a_function_is_tried_on(name: str, text: str, tmp_path: Path) -> None:
    (path,) = subjects(tmp_path, [22])
    (found,) = made_of(RESIZING[name], path, region=text)
    first = slice(1, 4) if text.startswith("1") else slice(None)
    last = slice(4, 20) if text.endswith("20") else slice(4, None)
    require_same(found, RESIZING[name](np.asarray(hyperslab.open(path))[first, ..., last]))


def test_regions_have_lengths_of_their_own(tmp_path: Path) -> None:
    files = subjects(tmp_path)
    made = made_of(RESIZING["diff"], files, region="...,4:")
    for path, found in zip(files, made, strict=True):
        require_same(found, np.diff(np.asarray(hyperslab.open(path))[..., 4:], axis=3))


def test_a_design_fits_a_region(tmp_path: Path) -> None:
    (path,) = subjects(tmp_path, [20])
    pipeline = Pipeline(path, region="...,4:20").map(glm)
    prepared = prepare(pipeline.write(tmp_path / "out"), Options(engine="serial"))
    assert prepared.untried == ""
    (found,) = made_of(glm, path, region="...,4:20")
    require_same(found, glm(np.asarray(hyperslab.open(path))[..., 4:20]))


def test_blocks_of_a_region_have_its_length(tmp_path: Path) -> None:
    (path,) = subjects(tmp_path, [20])
    pipeline = Pipeline(path, region="...,4:").map(RESIZING["diff"])
    written = pipeline.write(tmp_path / "out", keep="blocks")
    result = run(written, engine="serial", rule=Rule("blocks", (2, 1, 1, 1)), report=False)
    assert result.ok


def test_blocks_of_the_shape_of_a_region_are_not_cut(tmp_path: Path) -> None:
    """Nor where chunks of the file end within it."""
    values = np.random.default_rng(0).random((5, 6, 4, 20))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("d", data=values, chunks=(5, 6, 4, 8))
    pipeline = Pipeline(tmp_path / "in.h5", region="...,4:").map(lambda block: block.mean(axis=3))
    rule = Rule("block-shape", (2, 6, 4, 16))
    run(pipeline.write(tmp_path / "mean.nii"), engine="serial", rule=rule, report=False)
    found = real_values_of(tmp_path / "mean.nii")
    np.testing.assert_allclose(found, values[..., 4:].mean(axis=3), rtol=1e-6)
    rule = Rule("block-shape", (2, 6, 4, 15))
    with pytest.raises(UsageError, match="cuts axis 3"):
        run(pipeline.write(tmp_path / "no.nii"), engine="serial", rule=rule, report=False)


def test_samples_of_locality_lie_in_a_region(tmp_path: Path) -> None:
    (path,) = subjects(tmp_path, [20])
    found = check_locality(Pipeline(path, region="1:,...,4:").map(glm))
    assert found.ok
    assert found.window.bounds == ((1, 0, 0, 4), (5, 6, 4, 20))


def test_only_arrays_that_a_function_does_not_fit_fail(tmp_path: Path) -> None:
    files = subjects(tmp_path, [16, 20])
    pipeline = Pipeline(files).map(lambda block: np.diff(block * DESIGN[:, 0], axis=3))
    result = run(pipeline.write(tmp_path / "out"), engine="serial", check=False, report=False)
    (failed,) = result.failures
    assert "could not be broadcast" in failed.message


def test_time_of_netcdf(tmp_path: Path) -> None:
    paths = []
    for number, length in enumerate((6, 9)):
        values = np.random.default_rng(number).random((length, 4, 5))
        array = xr.DataArray(values, dims=("time", "y", "x"), name="t2m")
        array.to_netcdf(tmp_path / f"{number}.nc", engine="h5netcdf")
        paths.append(tmp_path / f"{number}.nc")
    for path, found in zip(
        paths, made_of(lambda block: np.diff(block, axis=0), paths), strict=True
    ):
        require_same(found, np.diff(np.asarray(hyperslab.open(path)), axis=0))
    for path, found in zip(
        paths, made_of(lambda block: block[1:], paths, region="2:"), strict=True
    ):
        require_same(found, np.asarray(hyperslab.open(path))[3:])


@pytest.mark.parametrize("name", ["diff", "spectrum", "second", "twice", "both"])
def test_further_lengths_follow_by_a_rule(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "MOST_TRIED", 4)
    files = subjects(tmp_path, range(9, 19))
    require_each(made_of(RESIZING[name], files), files, RESIZING[name])


def test_further_lengths_that_follow_by_no_rule_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "MOST_TRIED", 4)

    def two_thirds(block: Array) -> Array:
        return block[..., block.shape[3] // 3 :]

    with pytest.raises(UsageError, match=r"follows by no rule .*: run over arrays of one length"):
        made_of(two_thirds, subjects(tmp_path, range(9, 19)))


def test_other_arrays_for_another_length_are_refused(tmp_path: Path) -> None:
    def odd(block: Array) -> dict[str, Array]:
        later = block[..., 2:]
        return {"later" if block.shape[3] == LENGTHS[0] else "more": later}

    with pytest.raises(UsageError, match="odd returns other arrays for arrays of other lengths"):
        made_of(odd, subjects(tmp_path))


def test_lengths_that_are_left_are_refused(tmp_path: Path) -> None:
    """A function that ends the process in which it is tried."""

    def leave(block: Array) -> Array:
        if block.shape[3] == LENGTHS[1]:
            os._exit(1)
        return block[..., 2:]

    with pytest.raises(UsageError, match=r"leave: the trial ended before .* of 3 lengths"):
        made_of(leave, subjects(tmp_path))


def test_some_are_tried_from_the_smallest_to_the_largest() -> None:
    shapes = [(4, n) for n in range(50, 10, -1)]
    some = some_of(shapes)
    assert (len(some), some[0], some[-1]) == (lengths.MOST_TRIED, (4, 11), (4, 50))
    assert some_of(shapes[:3]) == [(4, 48), (4, 49), (4, 50)]
    assert distinct([(4, 7), (5, 7), (5, 8)], {1}) == [(4, 7), (5, 8)]


def test_what_was_said_stays() -> None:
    said = Promise(drop_axis=(1,), new_axis=((1, 3),))
    step = Step(refer(even, {}), returns=(said,))
    known = [(said,)]
    assert with_lengths([step], known, [(4, 7), (4, 8)], {(4, 8): [(Promise(),)]}) == known
