"""Computations on plain Dask arrays: their results are as expected, and others are told."""

from __future__ import annotations

import pytest

from hyperslab.connectors.dask_arrays import WORKLOADS, computation, is_right
from hyperslab.errors import UsageError

pytest.importorskip("dask.array")


@pytest.mark.parametrize("name", WORKLOADS)
def test_results(name: str) -> None:
    found = float((computation(name, 200, 60, seed=3)).compute(scheduler="synchronous"))
    again = float((computation(name, 200, 60, seed=3)).compute(scheduler="synchronous"))
    assert found == again
    assert is_right(name, found, 200)
    assert not is_right(name, found * 1.5, 200)
    assert not is_right(name, float("nan"), 200)


def test_other_names_and_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"transpose-sun: .*transpose-sum"):
        computation("transpose-sun", 100, 10, 0)
    with pytest.raises(UsageError, match="at least 2 chunks"):
        computation("rechunk", 100, 80, 0)
