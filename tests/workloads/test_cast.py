"""cast against NumPy's own numbers: every pair of dtypes, at the edges where values stop to fit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import BlockError
from hyperslab.testing.formats import traced_memory
from hyperslab.workloads.cast import cast

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS, "complex64", "complex128")
EDGES = sorted(
    {
        sign * 2**bits + more
        for bits in (0, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for more in (-1, 0, 1)
    }
)


def single(value: Any, dtype: str) -> Array:
    """An array of one element; whole numbers become the nearest float."""
    with np.errstate(all="ignore"):
        return (
            np.array([value]).astype(dtype)
            if np.dtype(dtype).kind in "fc"
            else np.array([value], dtype)
        )


def at(block: Array) -> Hyperslab:
    return Hyperslab.full(block.shape)


def fits(value: Any, dtype: str) -> bool:
    """By exact arithmetic: whether a value has its equal in another dtype; a float, its nearest in
    a floating one.
    """
    kind = np.dtype(dtype)
    number: Any = value
    if kind.kind != "c" and isinstance(number, complex):
        if number.imag != 0:
            return False
        number = number.real
    if kind.kind in "fc":
        with np.errstate(all="ignore"):
            made = np.array([number]).astype(kind)[0]
        if isinstance(number, int):
            return bool(np.isfinite(made)) and Fraction(float(made.real)) == number
        return (
            bool(np.isfinite(made))
            or not np.isfinite(np.array([number], "c16" if kind.kind == "c" else "f8"))[0]
        )
    if isinstance(number, float) and not math.isfinite(number):
        return False
    exact = Fraction(number)
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    return exact.denominator == 1 and low <= exact <= high


def held(dtype: str) -> list[Any]:
    """What a dtype holds of the edges, and the odd values that only it has."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return [False, True]
    if kind.kind in "iu":
        return [n for n in EDGES if np.iinfo(kind).min <= n <= np.iinfo(kind).max]
    odd = [
        0.5,
        -0.5,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        float(np.finfo(kind).max),
        float(np.finfo(kind).tiny),
    ]
    values = [*(float(n) for n in EDGES), *odd]
    with np.errstate(all="ignore"):
        inside = [
            value
            for value in values
            if value in odd or np.isfinite(np.array([value]).astype(kind))[0]
        ]
    if kind.kind == "f":
        return [np.array([value]).astype(kind)[0].item() for value in inside]
    return [
        np.array([v]).astype(kind)[0].item()
        for v in [*inside, 1j, 2 + 0j, complex(1, math.nan), complex(3, -0.0)]
    ]


@pytest.mark.parametrize("made", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
def test_a_value_at_an_edge_is_itself_or_refused(given: str, made: str) -> None:
    for value in held(given):
        block = single(value, given)
        if fits(block[0].item(), made):
            found = cast(block, made, at(block))
            assert found.dtype == np.dtype(made)
            with np.errstate(all="ignore"):
                source = block if np.dtype(made).kind == "c" else block.real
                np.testing.assert_array_equal(found, source.astype(made))
            if np.dtype(made).kind in "iu":
                assert int(found[0]) == Fraction(block[0].real.item())
        else:
            with pytest.raises(
                BlockError, match=rf"--dtype {made}: the value .* at \(0,\) (is|has) "
            ):
                cast(block, made, at(block))


@given(data=st.data(), pair=st.sampled_from(list(itertools.product(DTYPES, DTYPES))))
def test_any_block(data: st.DataObject, pair: tuple[str, str]) -> None:
    given_dtype, made = pair
    block = data.draw(hnp.arrays(given_dtype, hnp.array_shapes(max_dims=3, max_side=4)))
    misfits = [place for place in np.ndindex(block.shape) if not fits(block[place].item(), made)]
    if not misfits:
        with np.errstate(all="ignore"):
            expected = (block if np.dtype(made).kind == "c" else block.real).astype(made)
        np.testing.assert_array_equal(cast(block, made, at(block)), expected)
        return
    slab = Hyperslab((7,) * block.ndim, block.shape)
    with pytest.raises(BlockError) as raised:
        cast(block, made, slab)
    assert f" at {tuple(7 + i for i in misfits[0])} " in str(raised.value)


def test_what_c_leaves_undefined_does_not_pass() -> None:
    """Processors that saturate make of these the number just below, which converts back to the same
    float.
    """
    for dtype, value in (
        ("int32", 2.0**31),
        ("int64", 2.0**63),
        ("uint64", 2.0**64),
        ("uint32", 2.0**32),
    ):
        for kind in ("float32", "float64"):
            block = np.array([value], kind)
            with pytest.raises(BlockError, match="is above "):
                cast(block, dtype, at(block))


def test_the_block_keeps_its_layout_and_is_not_changed() -> None:
    block = np.asfortranarray(np.arange(24, dtype="int16").reshape(2, 3, 4))
    before = block.copy()
    made = cast(block, "float32", at(block))
    assert made.flags.f_contiguous
    np.testing.assert_array_equal(block, before)


@pytest.mark.parametrize(
    ("given", "made"),
    [("uint8", "int8"), ("uint8", "float64"), ("float64", "uint8"), ("int32", "float32")],
)
def test_memory_is_what_a_step_is_planned_with(given: str, made: str) -> None:
    """pipeline.Step.temporaries: beside the block and the result, twice the larger of them."""
    block = np.ones(2**20, given)
    with traced_memory() as peak:
        result = cast(block, made, at(block))
    assert peak[0] <= result.nbytes + 2 * max(block.nbytes, result.nbytes) + 2**16


@pytest.mark.parametrize(
    ("value", "dtype", "why"),
    [
        (4008.3, "int16", "is no whole number"),
        (40000.0, "int16", "is above 32767"),
        (40000.5, "int16", "is above 32767"),
        (32767.5, "int16", "is no whole number"),
        (-1.0, "uint8", "is below 0"),
        (-0.5, "uint8", "is below 0"),
        (-70000, "int16", "is below -32768"),
        (2**64 - 1, "int64", "is above 9223372036854775807"),
        (np.nan, "int16", "is no whole number"),
        (np.inf, "int16", "is no whole number"),
        (1e300, "float32", "is larger than any float32"),
        (100000, "float16", "is larger than any float16"),
        (
            2**24 + 1,
            "float32",
            "is a whole number that no float32 equals, the nearest being",
        ),
        (2**63 - 1, "complex128", "no complex128 equals, the nearest being"),
        (2.0, "bool", "is neither 0 nor 1"),
        (1 + 2j, "float64", "has an imaginary part"),
    ],
)
def test_it_is_said_why_a_value_does_not_fit(value: Any, dtype: str, why: str) -> None:
    block = np.array([value])
    with pytest.raises(BlockError, match=rf"{why}( \d+)?: choose another dtype"):
        cast(block, dtype, at(block))
