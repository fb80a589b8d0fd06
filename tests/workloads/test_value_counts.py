"""Counts of integers: those of counting by hand, whatever the layout, with the native core and
without.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.arrays import Array
from hyperslab.native import core
from hyperslab.workloads import kernels
from tests.workloads.made_blocks import INTEGERS, both, both_ways, layouts  # noqa: F401


def brute_counts(block: Array, low: int, bins: int) -> list[int]:
    """Counts by hand."""
    counts = [0] * bins
    for value in block.ravel().tolist():
        counts[int(value) - low] += 1
    return counts


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_value_counts_at_the_ends_of_the_dtype(dtype: str) -> None:
    info = np.iinfo(dtype)
    bins = min(int(info.max) - int(info.min) + 1, 1000)
    for low in (int(info.min), int(info.max) - bins + 1):
        picks = np.random.default_rng(1).integers(0, bins, 5000)
        block = np.array([low + int(i) for i in picks], dtype).reshape(50, 100)
        expected = np.bincount(picks, minlength=bins)
        for stored in (block, block.astype(block.dtype.newbyteorder())):
            found = kernels.value_counts(stored, low, bins)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == np.int64


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("bins", [65536, 70_000])
def test_value_counts_of_every_layout(name: str, bins: int) -> None:
    block = layouts()[name]
    expected = np.bincount(block.ravel().astype(np.int64), minlength=bins)
    np.testing.assert_array_equal(kernels.value_counts(block, 0, bins), expected)
    narrow = (block.astype(np.uint64) % 300).astype(block.dtype)
    np.testing.assert_array_equal(
        kernels.value_counts(narrow, 0, 300), np.bincount(narrow.ravel(), minlength=300)
    )


@pytest.mark.usefixtures("both")
def test_value_counts_of_unaligned_and_read_only_memory() -> None:
    values = np.random.default_rng(3).integers(0, 65536, 9000).astype("<u2")
    shifted = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view("<u2")
    assert not shifted.flags.aligned
    assert not shifted.flags.writeable
    np.testing.assert_array_equal(
        kernels.value_counts(shifted, 0, 65536), np.bincount(values, minlength=65536)
    )


@given(data=st.data())
def test_value_counts_of_any_block(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from([*INTEGERS, "bool"]))).newbyteorder(
        data.draw(st.sampled_from("<>"))
    )
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
    values = data.draw(
        hnp.arrays(np.int64, shapes, elements=st.integers(0, 40 if dtype.kind != "b" else 1))
    )
    least, most = (
        (0, 1)
        if dtype.kind == "b"
        else (int(np.iinfo(dtype.str).min), int(np.iinfo(dtype.str).max))
    )
    first = data.draw(st.sampled_from([least, most - 40])) if dtype.kind != "b" else 0
    block = np.array([first + int(v) for v in values.ravel()], dtype).reshape(values.shape)
    block = block.transpose(data.draw(st.permutations(range(block.ndim))))
    steps = data.draw(
        st.lists(st.sampled_from([1, -1, 2, -2]), min_size=block.ndim, max_size=block.ndim)
    )
    block = np.asarray(block[tuple(slice(None, None, step) for step in steps)])
    low = first - data.draw(st.integers(0, 3))
    bins = data.draw(st.sampled_from([44, 100, 5000]))
    found = both_ways(lambda: kernels.value_counts(block, low, bins))
    assert found.tolist() == brute_counts(block, low, bins)


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("kind", ["constant", "few", "narrow", "uniform", "changing", "rising"])
def test_value_counts_of_data_that_are_counted_differently(kind: str) -> None:
    rng = np.random.default_rng(7)
    values = {
        "constant": np.full(400_001, 65535),
        "few": rng.choice([3, 60_000], 400_001),
        "narrow": rng.normal(62_000, 12, 400_001).astype(int),
        "uniform": rng.integers(0, 65536, 400_001),
        "changing": np.concatenate(
            [np.full(150_000, 9), rng.integers(0, 65536, 150_000), np.full(100_000, 9)]
        ),
        "rising": np.repeat(np.arange(65536), 7),
    }[kind]
    expected = np.bincount(values, minlength=65536)
    for dtype, low in (("u2", 0), ("i2", -(2**15)), ("i4", -(2**31)), ("u8", 2**64 - 65536)):
        block = np.array(values, np.uint64) + np.uint64(low % 2**64)
        np.testing.assert_array_equal(
            kernels.value_counts(block.astype(dtype), low, 65536), expected
        )


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("cuts", [2, 7, 40])
def test_value_counts_do_not_depend_on_the_cut(cuts: int) -> None:
    whole = layouts()["strided and flipped"]
    parts = sum(
        kernels.value_counts(part, 0, 65536) for part in np.array_split(whole, cuts, axis=2)
    )
    np.testing.assert_array_equal(parts, kernels.value_counts(whole, 0, 65536))


@pytest.mark.usefixtures("both")
def test_value_counts_of_nothing_and_of_one_value() -> None:
    assert kernels.value_counts(np.empty((3, 0, 2), np.int16), -5, 3).tolist() == [0, 0, 0]
    assert kernels.value_counts(np.array(7, np.uint8), 6, 3).tolist() == [0, 1, 0]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("value", "dtype", "low", "bins"),
    [
        (0, "uint8", 1, 5),
        (6, "uint8", 1, 5),
        (255, "uint8", -1, 256),
        (-1, "int16", 0, 65536),
        (300, "uint16", 0, 300),
        (-(2**63), "int64", 2**63 - 1, 10),
        (2**63 - 1, "int64", -(2**63), 10),
        (-(2**63), "int64", -(2**63) + 1, 65536),
        (2**64 - 3, "uint64", -5, 10),
        (0, "uint64", 2**64 - 3, 100),
        (2**40, "int64", 0, 65536),
        (2**31, "uint32", 0, 2**16 + 5),
        (True, "bool", 0, 1),
        (False, "bool", 1, 1),
    ],
)
@pytest.mark.parametrize("size", [1, 400_000])
def test_values_without_a_bin_are_refused(
    value: int, dtype: str, low: int, bins: int, size: int
) -> None:
    least = 0 if dtype == "bool" else int(np.iinfo(dtype).min)
    block = np.full(size, max(low, least), dtype)
    assert kernels.value_counts(block, low, bins).sum() == size
    block[size // 2] = value
    with pytest.raises(ValueError, match=f"other than {low} to {low + bins - 1}"):
        kernels.value_counts(block, low, bins)


@pytest.mark.usefixtures("both")
def test_value_counts_of_bool() -> None:
    block = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(kernels.value_counts(block, 0, 2), [1, 3])
    np.testing.assert_array_equal(kernels.value_counts(block.T[::-1], -1, 4), [0, 1, 3, 0])


def test_the_core_refuses_what_it_cannot_count() -> None:
    assert core is not None
    counts = np.zeros(4, np.int64)
    for block in (np.zeros(3), np.zeros(3, complex), np.zeros(3, "S2"), np.zeros(3, [("a", "i4")])):
        with pytest.raises(ValueError, match="dtype"):
            core.value_counts(block, 0, counts)
    for out in (counts[::2], counts.reshape(2, 2), np.frombuffer(bytes(32), np.int64)):
        with pytest.raises(ValueError, match="writable, contiguous"):
            core.value_counts(np.zeros(3, np.uint8), 0, out)
    for edges in ([0.0, 1.0], [0.0, 1.0, 1.0, 2.0, 3.0], [0.0, 1.0, np.nan, 2.0, 3.0]):
        with pytest.raises(ValueError, match="edges"):
            core.binned_counts(np.zeros(3), np.array(edges), counts)
    with pytest.raises(ValueError, match="dtype"):
        core.binned_counts(np.zeros(3, np.int64), np.arange(5.0), counts)
    assert not counts.any()


def test_threads_count_at_the_same_time() -> None:
    """Each has tables of its own, whatever the others count."""
    rng = np.random.default_rng(11)
    blocks = [rng.integers(0, top, 500_000).astype(np.uint16) for top in (65536, 2, 300, 65536)]
    expected = [np.bincount(block, minlength=65536) for block in blocks]
    barrier = threading.Barrier(4)

    def count(number: int) -> Array:
        barrier.wait(timeout=60)
        return sum(
            (kernels.value_counts(blocks[number], 0, 65536) for _ in range(5)),
            np.zeros(65536, np.int64),
        )

    with ThreadPoolExecutor(4) as pool:
        for found, once in zip(pool.map(count, range(4)), expected, strict=True):
            np.testing.assert_array_equal(found, 5 * once)


def test_counting_lets_other_threads_run() -> None:
    """Python switches threads only where one lets go, and still this one is heard while the other
    counts.
    """
    block = np.zeros((2**10, 2**12), np.uint16)
    counting, heard, interval = threading.Event(), threading.Event(), sys.getswitchinterval()

    def count() -> bool:
        counting.set()
        until = time.monotonic() + 60
        while not heard.is_set() and time.monotonic() < until:
            kernels.value_counts(block, 0, 65536)
        return heard.is_set()

    sys.setswitchinterval(600)
    try:
        with ThreadPoolExecutor(1) as pool:
            was_heard = pool.submit(count)
            counting.wait(timeout=60)
            heard.set()
            assert was_heard.result(timeout=100)
    finally:
        sys.setswitchinterval(interval)
