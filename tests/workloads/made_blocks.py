"""Blocks for the tests of kernels, and kernels with and without the native core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.arrays import Array
from hyperslab.native import core
from hyperslab.workloads import kernels

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")


def layouts() -> dict[str, Array]:
    """Blocks of 24 x 35 x 40 that lie differently in memory."""
    whole = np.random.default_rng(5).integers(0, 65536, (26, 39, 44)).astype(np.uint16)
    fortran = np.asfortranarray(whole[:24, :35, :40])
    return {
        "c": whole[:24, :35, :40].copy(),
        "fortran": fortran,
        "middle axis slowest": whole[:24, :35, :40].transpose(1, 0, 2).copy().transpose(1, 0, 2),
        "without halo": whole[1:25, 2:37, 2:42],
        "strided and flipped": np.repeat(whole, 2, axis=2)[:24, 34::-1, 0:80:2],
        "broadcast": np.broadcast_to(whole[:24, :1, :40], (24, 35, 40)),
        "other byte order": whole[:24, :35, :40].astype(">u2"),
    }


@pytest.fixture(params=["native", "plain Python"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the native core, and without it."""
    if request.param == "plain Python":
        monkeypatch.setattr(kernels, "core", None)
    else:
        assert core is not None


def both_ways(count: Callable[[], Any]) -> Any:
    """What the native core finds, which is what is found without it."""
    found = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "core", None)
        np.testing.assert_equal(count(), found)
    return found


def values_of(dtype: str) -> st.SearchStrategy[Array]:
    finite: dict[str, Any] = (
        {} if dtype in INTEGERS else {"allow_nan": False, "allow_infinity": False}
    )
    elements = hnp.from_dtype(np.dtype(dtype), **finite)
    return hnp.arrays(dtype, st.integers(1, 60), elements=elements)
