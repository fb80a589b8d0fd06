"""Where two blocks differ in value: against Python's own numbers, NumPy's tolerance, and planted
differences.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.apps.difference.values import Tolerance, are_comparable, compare
from hyperslab.arrays import Array
from tests.workloads.made_blocks import FLOATS, INTEGERS

NUMBERS = (*INTEGERS, *FLOATS, "longdouble", "bool", "complex64", "complex128")
EDGES = [
    0,
    -0.0,
    1,
    -1,
    0.5,
    127,
    128,
    255,
    256,
    2048,
    2049,
    65504,
    2**24,
    2**24 + 1,
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**62,
    2**63 - 1,
    2**63,
    2**63 + 1,
    2**64 - 1,
    2**64,
    -(2**53),
    -(2**53) - 1,
    -(2**63),
    -(2**63) - 1,
    1e300,
    -1e300,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    1e-40,
]
"Around every place where one dtype ends and another goes on."


def number(value: Any) -> Any:
    """An element as exactly what it is: NaN as one thing, 0 without a sign, complex numbers as
    their parts.
    """
    if isinstance(value, complex | np.complexfloating):
        return number(value.real), number(value.imag)
    if isinstance(value, np.longdouble):
        value = float(value) if not np.isfinite(value) else Fraction(*value.as_integer_ratio())
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return Fraction(value) if math.isfinite(value) else value
    return Fraction(int(value)) if isinstance(value, int | bool) else value


def numbers(array: Array) -> list[Any]:
    return [number(value.item()) for value in array.ravel()]


def is_equal(a: Any, b: Any) -> bool:
    """Whether two such numbers are equal, a real one being complex without an imaginary part."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        (x, i), (y, j) = (
            value if isinstance(value, tuple) else (value, Fraction(0)) for value in (a, b)
        )
        return bool(x == y and i == j)
    return bool(a == b)


def edges_of(dtype: str) -> Array:
    """The edges that a dtype holds, or what they become in it."""
    kind = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            whole = [
                int(e)
                for e in EDGES
                if math.isfinite(e) and e == int(e) and limits.min <= e <= limits.max
            ]
            return np.array(whole, kind)
        if kind.kind == "c":
            return np.array(
                [complex(x, y) for x, y in product((0.0, 1.0, math.nan, 2.0**24), repeat=2)], kind
            )
        if kind.char == "g":
            return np.array([np.longdouble(str(e)) for e in EDGES], kind)
        return np.array(EDGES, np.float64).astype(kind)


@pytest.mark.parametrize("left", NUMBERS)
@pytest.mark.parametrize("right", NUMBERS)
def test_every_two_dtypes_are_compared_exactly(left: str, right: str) -> None:
    a, b = edges_of(left), edges_of(right)
    a, b = (np.ascontiguousarray(side) for side in np.broadcast_arrays(a[:, None], b))
    expected = np.array(
        [not is_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True)]
    ).reshape(a.shape)
    assert are_comparable(a.dtype, b.dtype)
    found = compare(a, b)
    np.testing.assert_array_equal(found.mask, expected)
    assert expected.any()
    if left != "bool" or right != "bool":
        nan = [
            ("NaN" in str(x)) != ("NaN" in str(y))
            for x, y in zip(numbers(a), numbers(b), strict=True)
        ]
        assert found.one_nan >= sum(nan)


@st.composite
def two_blocks(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two blocks of one shape and any dtypes, the second often the first with something changed."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    left, right = (draw(st.sampled_from([*INTEGERS, "float32", "float64"])) for _ in "ab")
    a = draw(hnp.arrays(left, shape))
    if draw(st.booleans()):
        return a, draw(hnp.arrays(right, shape))
    b = a.copy()
    places = draw(st.lists(st.integers(0, a.size - 1), max_size=3))
    b.flat[places] = draw(hnp.arrays(left, len(places)))
    return a, b


@given(two_blocks())
def test_against_python(blocks: tuple[Array, Array]) -> None:
    a, b = blocks
    pairs = list(zip(numbers(a), numbers(b), strict=True))
    found = compare(a, b)
    np.testing.assert_array_equal(found.mask.ravel(), [x != y for x, y in pairs])
    apart = [distance for x, y in pairs if x != y and (distance := _distance(x, y)) is not None]
    assert _near(found.absolute, max(apart, default=None))
    ratios = [
        _ratio(_distance(x, y), y) for x, y in pairs if x != y and _distance(x, y) is not None
    ]
    # Where |a - b| is beyond float64, so is its share of b.
    assert found.absolute == math.inf or _near(
        found.relative, max((r for r in ratios if r is not None), default=None)
    )
    assert found.one_nan == sum((x == "NaN") != (y == "NaN") for x, y in pairs)


def _distance(x: Any, y: Any) -> Any:
    if "NaN" in (x, y):
        return None
    return abs(x - y) if isinstance(x, Fraction) and isinstance(y, Fraction) else math.inf


def _ratio(distance: Any, y: Any) -> Any:
    if isinstance(y, float):  # infinite: what is far from it has no share of it
        return None
    return math.inf if y == 0 or distance == math.inf else distance / abs(y)


def _near(found: float, expected: Any) -> bool:
    """Whether a number is another, but for rounding, and infinite where float64 ends."""
    if expected is None:
        return math.isnan(found)
    if found == math.inf or expected == math.inf:
        return found == math.inf and bool(expected > Fraction(10) ** 307)
    return bool(
        abs(Fraction(found) - expected) <= expected * Fraction(1, 10**12) + Fraction(1, 10**320)
    )


@given(
    data=st.data(),
    dtypes=st.tuples(
        *[st.sampled_from(["float32", "float64", "int16", "uint8", "complex128"])] * 2
    ),
    atol=st.sampled_from([0.0, 1e-8, 0.5, 3.0]),
    rtol=st.sampled_from([0.0, 1e-5, 0.1, 1.0]),
)
def test_the_tolerance_is_numpys(
    data: st.DataObject, dtypes: tuple[str, str], atol: float, rtol: float
) -> None:
    near = st.sampled_from(
        [0.0, 1.0, 1.5, -1.0, 1.00001, 0.1, 100.0, 3.0, math.nan, math.inf, -math.inf]
    )
    made = [data.draw(st.lists(near, min_size=1, max_size=30)) for _ in "ab"]
    n = min(map(len, made))
    with np.errstate(all="ignore"):
        a, b = (
            np.nan_to_num(m[:n]) if kind[0] in "iu" else np.array(m[:n])
            for m, kind in zip(made, dtypes, strict=True)
        )
        a, b = (
            side.clip(0, 100) if kind[0] in "iu" else side
            for side, kind in zip((a, b), dtypes, strict=True)
        )
        a, b = (side.astype(kind) for side, kind in zip((a, b), dtypes, strict=True))
        wide = np.result_type(a, b, np.float64)
        expected = ~np.isclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True)
    np.testing.assert_array_equal(compare(a, b, Tolerance(atol, rtol)).mask, expected)


def test_a_tolerance_of_long_integers_is_exact() -> None:
    a = np.array([2**62 + 1, 2**62 + 2, 2**62 + 3])
    found = compare(a, np.full(3, 2**62), Tolerance(atol=2))
    assert found.mask.tolist() == [False, False, True]
    assert found.absolute == 3
    assert compare(a, np.full(3, 2.0**62)).mask.all()
    assert compare(np.array([2**64 - 1], "u8"), np.array([-1])).absolute == 2.0**64


def test_records_are_compared_field_by_field() -> None:
    kind = np.dtype([("name", "S3"), ("place", [("x", "f4"), ("y", "i8")]), ("rgb", "u1", (3,))])
    a = np.zeros((2, 4), kind)
    b = np.zeros((2, 4), kind[["rgb", "name", "place"]])
    assert are_comparable(a.dtype, b.dtype)
    b["rgb"][0, 1, 2] = 7
    b["place"]["y"][1, 0] = -300
    b["name"][1, 3] = b"abc"
    b["place"]["x"][0, 0] = np.nan
    found = compare(a, b)
    assert np.argwhere(found.mask).tolist() == [[0, 0], [0, 1], [1, 0], [1, 3]]
    assert (found.absolute, found.relative, found.one_nan) == (300, 1, 1)
    assert np.argwhere(compare(a, b, Tolerance(atol=10)).mask).tolist() == [[0, 0], [1, 0], [1, 3]]


def test_text_and_bytes() -> None:
    found = compare(np.array([b"ab", b"c", b""]), np.array([b"ab", b"d", b"long"]))
    assert found.mask.tolist() == [False, True, True]
    assert math.isnan(found.absolute)
    opaque = np.array([b"a\0", b"b\0"], "S2").view("V2")
    assert compare(opaque, opaque[::-1]).mask.tolist() == [True, True]
    assert not compare(opaque, opaque.copy()).mask.any()


def test_times() -> None:
    a = np.array(["2026-01-01", "NaT", "1970-01-01"], "M8[s]")
    b = np.array(["2026-01-02", "NaT", "NaT"], "M8[s]")
    assert compare(a, b).mask.tolist() == [True, False, True]
    assert are_comparable(a.dtype, b.dtype)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("M8[s]", "M8[ms]"),
        ("M8[s]", "i8"),
        ("i4", "S4"),
        ("V3", "V4"),
        ([("a", "i4")], [("b", "i4")]),
        ([("a", "i4")], "i4"),
        ([("a", "i4", (2,))], [("a", "i4", (3,))]),
        ([("a", "i4")], [("a", "S4")]),
    ],
)
def test_what_cannot_be_equal(left: Any, right: Any) -> None:
    assert not are_comparable(np.dtype(left), np.dtype(right))
    assert not are_comparable(np.dtype(right), np.dtype(left))


def test_equal_blocks_of_any_layout() -> None:
    a = np.random.default_rng(0).integers(0, 9, (5, 6, 7)).astype(np.float32)
    a[2] = np.nan
    for b in (
        a.copy(),
        np.asfortranarray(a),
        a.astype(np.float64),
        np.ascontiguousarray(a[::-1])[::-1],
    ):
        assert not compare(a, b).mask.any()
