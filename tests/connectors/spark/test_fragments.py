"""What the tasks of a write stage is one array, each element once, or nothing is written; without
Spark.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal

import h5py
import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark import assembly, fragment_files
from hyperslab.connectors.spark.destination import destination
from hyperslab.connectors.spark.exactness import exactly, promoted
from hyperslab.connectors.spark.fragments import Fragments, Staged, first_of_each, require_tiled
from hyperslab.connectors.spark.rows import Piece, sort
from hyperslab.errors import FormatError, UsageError
from tests.connectors.spark.staged import staged_file

DTYPES = [np.dtype(c) for c in "?bhilBHILefdFD"]
ODD = [
    0,
    1,
    2,
    -1,
    127,
    128,
    255,
    256,
    2**24,
    2**24 + 1,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]
FLOATS = [
    0.5,
    1e-300,
    65504.0,
    65520.0,
    3.4e38,
    1e39,
    float("inf"),
    -float("inf"),
    float("nan"),
    2.0**63,
    2.0**64,
]


def boxes(found: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Fragments:
    ndim = len(found[0][0])
    start = np.array([a for a, _ in found], np.int64).reshape(-1, ndim)
    count = np.array([n for _, n in found], np.int64).reshape(-1, ndim)
    return Fragments(start, count, np.zeros(len(found), np.int64), np.zeros(len(found), np.int64))


def cut_up(draw: Any, low: tuple[int, ...], high: tuple[int, ...], depth: int) -> list[Any]:
    """A box cut in two again and again, at any place."""
    axes = [axis for axis, (a, z) in enumerate(zip(low, high, strict=True)) if z - a > 1]
    if not depth or not axes or not draw(st.booleans()):
        return [(low, tuple(z - a for a, z in zip(low, high, strict=True)))]
    axis = draw(st.sampled_from(axes))
    at = draw(st.integers(low[axis] + 1, high[axis] - 1))
    top, bottom = list(high), list(low)
    top[axis] = bottom[axis] = at
    return [
        *cut_up(draw, low, tuple(top), depth - 1),
        *cut_up(draw, tuple(bottom), high, depth - 1),
    ]


@given(st.data())
def test_what_covers_an_array_once_is_told_from_what_does_not(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    found = data.draw(st.permutations(cut_up(data.draw, (0,) * len(shape), shape, 5)))
    require_tiled("x.h5", boxes(found), shape, "blocks")
    corner = st.tuples(*(st.integers(0, n - 1) for n in shape))
    for _ in range(data.draw(st.integers(0, 2))):
        first = data.draw(corner)
        found.append(
            (
                first,
                tuple(data.draw(st.integers(0, n - a)) for a, n in zip(first, shape, strict=True)),
            )
        )
    found = found[data.draw(st.integers(0, 1)) :]
    times = np.zeros(shape, int)
    for first, count in found:
        times[Hyperslab(first, count).slices()] += 1
    if (times == 1).all() and found:
        require_tiled("x.h5", boxes(found), shape, "blocks")
    elif found:
        with pytest.raises(UsageError, match=r"element \(") as caught:
            require_tiled("x.h5", boxes(found), shape, "blocks")
        place = eval(str(caught.value).partition("element ")[2].partition(")")[0] + ")")
        assert times[place] != 1
        assert ("more than once" in str(caught.value)) == (times[place] > 1)


def test_many_rows_are_looked_at_in_no_time_and_named() -> None:
    rows = np.random.default_rng(1).permutation(100_000)
    whole = boxes([((0, 0), (1, 1))])
    for more, said in (
        ([], ""),
        ([17], "row 17 is given more than once"),
        ([-1], "row 99999 is given by no task"),
    ):
        start = np.array(
            [r for r in [*rows, *more] if not (more == [-1] and r in (-1, 99_999))], np.int64
        )
        start = np.stack([start, np.zeros_like(start)], axis=1)
        many = Fragments(
            start, np.broadcast_to(np.array([1, 4]), start.shape), whole.offset, whole.file
        )
        if not said:
            require_tiled("x.h5", many, (100_000, 4), "rows")
            continue
        with pytest.raises(UsageError, match=said):
            require_tiled("x.h5", many, (100_000, 4), "rows with an index")
    with pytest.raises(UsageError, match=r"x.h5: row 9 lies beyond shape=\(9, 4\)"):
        require_tiled("x.h5", boxes([((0, 0), (10, 4))]), (9, 4), "rows")
    with pytest.raises(UsageError, match=r"shape=\(9,\) has 1 axes, the data have 2"):
        require_tiled("x.h5", boxes([((0, 0), (9, 4))]), (9,), "rows")


@pytest.mark.parametrize("old", DTYPES, ids=str)
def test_a_cast_keeps_every_value_or_says_which_it_does_not(old: np.dtype[Any]) -> None:
    """Against Python's own numbers, which are exact."""
    for new, value in itertools.product(
        DTYPES, [*ODD, *FLOATS, *([1 + 2j, 2j] if old.kind == "c" else [])]
    ):
        with np.errstate(all="ignore"):
            try:
                held = (
                    np.array([0, value]).astype(old)
                    if isinstance(value, float)
                    else np.array([0, value], old)
                )
            except (OverflowError, TypeError):
                continue
            made, odd = exactly(held, new)
        was, now = held[1].item(), made[1].item()
        same = was == now or (was != was and now != now and new.kind in "fc")
        if old.kind == "f" and was in (float("inf"), -float("inf")) and new.kind == "c":
            same = made[1].real == was
        assert (odd is None) == same, (value, old, new, was, now)
        assert odd in (None, (1,))
        assert made.dtype == new


def test_columns_are_promoted_only_to_what_holds_their_values() -> None:
    def of(*names: str) -> Any:
        return promoted(map(np.dtype, names))

    assert of("i2", "i4") == "i4"
    assert of("i4", "f4") == of("i4", "f8") == "f8"
    assert of("i2", "f4") == "f4"
    assert of("?", "i1") == "i1"
    assert of("i8", "f8") is of("i8", "f4") is None


def test_regions_are_gathered_from_fragments_of_any_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regions far smaller than usual, so that they cut through fragments, in C and in Fortran
    order.
    """
    monkeypatch.setattr(assembly, "REGION_NBYTES", 500)
    values = np.random.default_rng(2).normal(size=(12, 10, 9))
    slabs = [
        Hyperslab((0, 0, 0), (5, 10, 9)),
        Hyperslab((5, 0, 0), (7, 4, 9)),
        Hyperslab((5, 4, 0), (7, 6, 9)),
    ]
    orders: tuple[Literal["C", "F"], ...] = ("C", "F")
    for order in orders:
        blocks = [(slab, np.asarray(values[slab.slices()], order=order)) for slab in slabs]
        for chunks in ((), (5, 4, 3)):
            path = staged_file(tmp_path, blocks[2:], [], blocks[:2], chunks=chunks, overwrite=True)
            with h5py.File(path) as file:
                np.testing.assert_array_equal(file["data"][...], values)
                assert file["data"].chunks == (chunks or None)


def test_rows_in_any_order_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "REGION_NBYTES", 3000)
    monkeypatch.setattr("hyperslab.connectors.spark.rows.BATCH_NBYTES", 1000)
    monkeypatch.setattr(assembly, "BUFFER_NBYTES", 2000)
    monkeypatch.setattr(assembly, "PREAD_COST_NBYTES", 50)
    values = np.arange(600 * 3, dtype=np.int32).reshape(600, 3)
    for together in (1, 7):
        runs = [range(first, min(first + together, 600)) for first in range(0, 600, together)]
        order = [
            i for run in np.random.default_rng(3).permutation(len(runs)).tolist() for i in runs[run]
        ]
        pairs = [(i, values[i]) for i in order]
        parts = pairs[:100], pairs[100:350], pairs[350:]
        for chunks in ((), (50, 2)):
            path = staged_file(tmp_path, *parts, chunks=chunks, overwrite=True)
            with h5py.File(path) as file:
                np.testing.assert_array_equal(file["data"][...], values)
            path.unlink()
        path = staged_file(tmp_path, *parts, path="columns.nii", overwrite=True)
        loaded: Any = nibabel.load(path)
        np.testing.assert_array_equal(np.asanyarray(loaded.dataobj), values)
        path.unlink()


def test_a_partition_counts_once_and_what_other_attempts_left_goes(tmp_path: Path) -> None:
    place = destination(tmp_path / "x.h5")

    def torn() -> Any:
        yield Piece("rows", np.full((2, 3), 7.0))
        raise OSError("the machine went away")

    good = [Piece("rows", np.arange(6.0).reshape(2, 3))]
    with fragment_files.begun(place.path) as folder:
        with pytest.raises(OSError, match="went away"):
            fragment_files.stage(torn(), folder, 1)
        assert len(list(Path(folder).iterdir())) == 1, "only the lock"
        first, second = fragment_files.stage(good, folder, 1), fragment_files.stage(good, folder, 0)
        again = fragment_files.stage([Piece("rows", np.zeros((5, 3)))], folder, 1)
        made = assembly.prepare(place, folder, [first, second, again])
        assert made.files == (second.name, first.name)
        assembly.finish(made, [assembly.copy(made, slab) for slab in made.regions()], False)
    with h5py.File(tmp_path / "x.h5") as file:
        np.testing.assert_array_equal(file["data"], np.tile(np.arange(6.0).reshape(2, 3), (2, 1)))
    assert [p.name for p in tmp_path.iterdir()] == ["x.h5"]
    assert first_of_each([Staged(3, "a"), Staged(1), Staged(3, refused="no")]) == [Staged(3, "a")]


def test_a_file_that_was_cut_and_a_folder_that_went_are_named(tmp_path: Path) -> None:
    place = destination(tmp_path / "x.h5")
    with fragment_files.begun(place.path) as folder:
        one = fragment_files.stage([sort(np.array([0, 1]), np.zeros((2, 1)))], folder, 0)
        cut = Path(folder, one.name)
        cut.write_bytes(cut.read_bytes()[:-8])
        with pytest.raises(FormatError, match=r"is shorter than what its task wrote: write again"):
            assembly.prepare(place, folder, [one])
    with pytest.raises(FileNotFoundError, match="driver and executors do not share its folder"):
        fragment_files.stage([Piece("rows", np.zeros(2))], folder, 0)
    assert not list(tmp_path.iterdir())
