"""Scaling: pieces of a block are scaled as the whole is, wherever its region lies and whatever its
memory is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.arrays import scaling
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.testing.formats import assert_same, slabs, traced_memory
from tests.examples import examples

SHAPE = (4, 5, 6)
STORED = np.random.default_rng(5).integers(-9, 9, SHAPE).astype("i2")
BY_SLICE = np.linspace(0.5, 2, 4).reshape(4, 1, 1)
BY_TWO = np.linspace(-1, 1, 20).reshape(4, 5, 1)


def source(
    record: Scaling, real: str, axes: tuple[int, ...] = (0, 1, 2), stored: str = "i2"
) -> ArraySource:
    return ArraySource(
        url="/data/image",
        name="",
        format="hdf5",
        shape=SHAPE,
        dims=("z", "y", "x"),
        axes=axes,
        stored=np.dtype(stored),
        real=np.dtype(real),
        chunks=None,
        reason="r",
        scaling=record,
    )


CASES: list[tuple[Scaling, str, Any]] = [
    (Scaling(2.0, 1.0), "f8", STORED * 2.0 + 1),
    (
        Scaling(BY_SLICE, BY_TWO, clip=(-3.0, 4.0)),
        "f8",
        np.clip(STORED.astype("f8"), -3, 4) * BY_SLICE + BY_TWO,
    ),
    (Scaling(np.float32(0.1), np.float64(3)), "f8", STORED * np.float32(0.1) + np.float64(3)),
    (
        Scaling(np.int32(7), missing=(np.int16(-3), np.int16(0))),
        "f8",
        np.where(np.isin(STORED, [-3, 0]), np.nan, STORED * np.int32(7)),
    ),
    (
        Scaling(unsigned=True, valid=(np.uint16(2), np.uint16(65532))),
        "f4",
        np.where(
            (STORED.view("u2") < 2) | (STORED.view("u2") > 65532),
            np.nan,
            STORED.view("u2").astype("f4"),
        ),
    ),
]


@given(
    slab=slabs(SHAPE),
    case=st.sampled_from(CASES),
    size=st.integers(1, 200),
    axes=st.permutations([0, 1, 2]),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_region_in_any_pieces(slab: Hyperslab, case: Any, size: int, axes: list[int]) -> None:
    record, real, expected = case
    described = source(record, real, tuple(axes))
    out = np.empty(tuple(2 * n for n in slab.count), real)[::2, ::2, ::2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "PIECE_SIZE", size)
        scaling.apply(described, slab, STORED[slab.slices()], out)
    assert_same(out, expected[slab.slices()].astype(real))


def test_stored_values_may_be_scaled_where_they_are() -> None:
    record = Scaling(2.0, 1.0, missing=(np.float64(3),))
    block = STORED.astype("f8")
    expected = np.where(block == 3, np.nan, block * 2 + 1)
    scaling.apply(source(record, "f8", stored="f8"), Hyperslab.full(SHAPE), block, block)
    assert_same(block, expected)


def test_overflow_is_infinite_and_silent() -> None:
    block = np.full(SHAPE, 1e38, "f4")
    scaling.apply(
        source(Scaling(np.float32(1e10)), "f4", stored="f4"), Hyperslab.full(SHAPE), block, block
    )
    assert np.isinf(block).all()


def test_a_single_value() -> None:
    described = source(Scaling(2.0, 1.0), "f8")
    out = np.empty(())
    scaling.apply(
        ArraySource(
            **{name: getattr(described, name) for name in described.__slots__}
            | {"shape": (), "axes": ()}
        ),
        Hyperslab((), ()),
        np.array(4, "i2"),
        out,
    )
    assert out == 9


@pytest.mark.parametrize(("record", "real", "expected"), CASES)
def test_what_is_allocated_is_bounded(record: Scaling, real: str, expected: Any) -> None:
    described, slab = source(record, real), Hyperslab.full(SHAPE)
    stored, out = np.ascontiguousarray(STORED), np.empty(SHAPE, real)
    with traced_memory() as peak:
        scaling.apply(described, slab, stored, out)
    assert peak[0] <= scaling.working_nbytes(described, slab.size)
    assert scaling.working_nbytes(described, 10**12) < 2**23
