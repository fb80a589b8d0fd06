"""NaN and infinite values that functions make of others are told of, by a look at few values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.plan.odd import MOST_VALUES, odd_values, stands_for
from tests.system.end_to_end.command import call, save, succeed

VALUES = np.random.default_rng(0).uniform(1, 2, (40, 36, 30))


@pytest.mark.parametrize("shape", [(), (3,), (2000,), (40, 36, 30), (5000, 2), (7, 1, 90, 8)])
def test_few_values_all_over_a_block_are_looked_at(shape: tuple[int, ...]) -> None:
    block = np.ones(shape)
    assert odd_values(block) == 0
    assert odd_values(np.full(shape, -np.inf, np.complex64)) == block.size
    assert odd_values(block.astype(int)) == 0
    half = np.where(np.arange(block.size).reshape(shape) < block.size / 2, np.nan, block)
    exact = np.count_nonzero(np.isnan(half))
    if block.size <= MOST_VALUES:
        assert odd_values(half) == exact
    assert odd_values(half) == pytest.approx(exact, rel=0.1)


def test_of_many_small_blocks_some_stand_for_all() -> None:
    small = [stands_for(number, 2**20) for number in range(10_256)]
    assert small[:256] == [1] * 256
    assert sum(small[256:]) == 10_000
    assert sum(number > 0 for number in small[256:]) == 2500
    assert [stands_for(number, 2**23) for number in range(1000)] == [1] * 1000


def with_zeros(block: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(block / (block > 1.5))


def noted(source: Array, out: Path) -> str:
    pipeline = hyperslab.Pipeline(source).map(with_zeros).write(out)
    result = hyperslab.run(pipeline, engine="serial", report=False, blocks="4x1x1")
    return result.summary.odd_values


def test_a_function_that_makes_them_is_told_of(tmp_path: Path) -> None:
    made = np.count_nonzero(VALUES < 1.5)
    told = noted(VALUES, tmp_path / "a")
    said = re.match("with_zeros returned NaN or infinite values, about ([0-9,]+) of them, ", told)
    assert said, told
    assert float(said[1].replace(",", "")) == pytest.approx(made, rel=0.15)
    assert told.endswith("first seen in array[0:10, 0:36, 0:30]")
    late = np.where(np.arange(40)[:, None, None] < 20, 2, VALUES)
    assert noted(late, tmp_path / "b").endswith("in array[20:30, 0:36, 0:30]")
    assert noted(np.full_like(VALUES, 2), tmp_path / "c") == ""
    assert noted(np.where(VALUES < 1.5, np.nan, VALUES), tmp_path / "d") == "", "it had them"


def test_the_terminal_and_the_page_say_so(tmp_path: Path) -> None:
    image = save(tmp_path / "in.nii", VALUES)
    (tmp_path / "mine.py").write_text("def root(block):\n    return (1.4 - block) ** 0.5\n")
    out = tmp_path / "out"
    done = call("run", f"{tmp_path}/mine.py:root", image, "-o", out, "--workers", "2")
    assert done.code == 0, done
    assert "warning    root returned NaN or infinite values, about " in done.err
    quiet = call("run", f"{tmp_path}/mine.py:root", image, "-o", tmp_path / "quiet", "-q")
    assert "warning    root returned NaN or infinite values, about " in quiet.err
    assert quiet.out == ""
    assert "root returned NaN or infinite values, about" in succeed("report", out)
    page = (out / ".hyperslab/run-0001/report.html").read_text()
    assert '<p class="warning">Note: root returned NaN' in page
