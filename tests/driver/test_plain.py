"""How the result of a reduction is written: JSON where that has words for it, else a pickle."""

from __future__ import annotations

import json
import pickle
from collections import namedtuple
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab import Fold
from hyperslab.driver.submission import save_value

Moments = namedtuple("Moments", "count mean")  # noqa: PYI024  as users write them


def saved(value: Any, tmp_path: Path) -> Path:
    fold = Fold(np.sum, max)
    (path,) = save_value(fold, value, tmp_path / "staging", tmp_path)
    return path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((3, 2.5), [3, 2.5]),
        ((np.int64(3), np.float32(2.5)), [3, 2.5]),
        (((1, 2), (3, "four"), None), [[1, 2], [3, "four"], None]),
        (None, None),
        (np.bool_(True), True),
        ({"range": (0, 9), "n": 4}, {"range": [0, 9], "n": 4}),
        ({np.uint8(1): 5, 2: 6}, {"1": 5, "2": 6}),
        (Moments(2, np.float64(0.5)), {"count": 2, "mean": 0.5}),
        ([np.arange(3), Moments(1, 2)], [[0, 1, 2], {"count": 1, "mean": 2}]),
        ({"sums": np.arange(3)}, {"sums": [0, 1, 2]}),
        (7, 7),
    ],
)
def test_plain_values_are_json(value: Any, expected: Any, tmp_path: Path) -> None:
    path = saved(value, tmp_path)
    assert path == tmp_path / "result.json"
    assert json.loads(path.read_text()) == expected


@pytest.mark.parametrize(
    "value",
    [
        {(1, 2): 3},
        [date(2026, 1, 1)],
        (1, date(2026, 1, 1)),
        b"bytes",
        {1, 2},
        1 + 2j,
        np.complex64(2j),
        np.longdouble(1),
    ],
)
def test_all_else_is_kept_as_it_is(value: Any, tmp_path: Path) -> None:
    path = saved(value, tmp_path)
    assert path == tmp_path / "result.pickle"
    assert pickle.loads(path.read_bytes()) == value


def test_arrays_are_arrays(tmp_path: Path) -> None:
    assert saved(np.arange(3), tmp_path).name == "result.npy"
    (tmp_path / "pair").mkdir()
    assert saved((np.arange(3), 2), tmp_path / "pair").name == "result.pickle"
