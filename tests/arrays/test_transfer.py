"""Cuts for long runs on both sides: laws that hold for any array, and how much some real transfers
have to do.
"""

from __future__ import annotations

import cProfile
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.arrays import transfer
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Partition, Rule
from hyperslab.arrays.transfer import Side, Transfer, best_limit, cut_transfer
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.costs import Operations
from hyperslab.testing.formats import traced_memory
from tests.examples import examples
from tests.repetitions import few

MIB = 2**20
SHAPE = (1024, 1000, 1050)
"Of uint8: 1.075 GB, in files without a block on disk."


@st.composite
def sides(draw: st.DrawFn, shape: tuple[int, ...]) -> Side:
    axes = tuple(draw(st.permutations(range(len(shape)))))
    chunk = tuple(draw(st.integers(1, max(1, n))) for n in shape) if draw(st.booleans()) else ()
    edges = tuple(np.unique([0, n, *draw(st.lists(st.integers(0, n), max_size=3))]) for n in shape)
    return Side(axes, draw(st.sampled_from([1, 2, 8])), edges, chunk)


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    shape = tuple(draw(st.lists(st.integers(0, 20), min_size=1, max_size=4)))
    places = tuple(
        (
            np.unique([0, n, *draw(st.lists(st.integers(0, n), max_size=6))])
            if draw(st.booleans())
            else np.unique([*range(0, n, draw(st.integers(1, 5))), 0, n])
        )
        for n in shape
    )
    whole = frozenset(draw(st.lists(st.integers(0, len(shape) - 1), max_size=2)))
    return Transfer(shape, places, draw(sides(shape)), draw(sides(shape)), whole)


def finest_nbytes(transfer: Transfer) -> int:
    """Of the largest block where every place that may be cut at is one."""
    steps = [
        extent if axis in transfer.whole else int(np.diff(places).max(initial=0))
        for axis, (extent, places) in enumerate(zip(transfer.shape, transfer.places, strict=True))
    ]
    return math.prod(steps) * transfer.itemsize


@given(transfers(), st.integers(1, 3000))
@settings(max_examples=examples(300))
def test_blocks_cover_the_array_once_at_the_places_within_the_limit(
    transfer: Transfer, limit: int
) -> None:
    partition = cut_transfer(transfer, limit)
    times = np.zeros(transfer.shape, np.int8)
    for block in partition:
        times[block.slices()] += 1
    assert (times == 1).all()
    for axis, cuts in enumerate(partition.cuts):
        assert set(cuts) <= set(transfer.places[axis].tolist())
        assert axis not in transfer.whole or len(cuts) <= 2
    largest = math.prod(partition.largest) * transfer.itemsize
    assert largest <= limit or largest == finest_nbytes(transfer) > limit


@given(transfers(), st.integers(1, 500), st.integers(1, 5000))
def test_the_limit_chosen_is_between_the_bounds(transfer: Transfer, least: int, most: int) -> None:
    assert min(least, most) <= best_limit(transfer, least, most) <= most


def side(axes: str, chunk: tuple[int, ...] = ()) -> Side:
    edges = tuple(np.array([0, n]) for n in SHAPE)
    return Side((0, 1, 2) if axes == "c" else (2, 1, 0), 1, edges, chunk)


def cut_for(read: Side, write: Side, limit: int = 16 * MIB) -> Partition:
    places = tuple(
        np.unique([*range(0, n, c), n])
        for n, c in zip(SHAPE, write.chunk or (1, 1, 1), strict=True)
    )
    return cut_transfer(Transfer(SHAPE, places, read, write), limit)


def test_equal_orders_are_cut_along_the_slowest_axis() -> None:
    assert cut_for(side("f"), side("f")).grid[:2] == (1, 1)
    assert cut_for(side("c"), side("c")).grid[1:] == (1, 1)


def test_opposite_orders_keep_the_fast_axis_of_both_whole() -> None:
    assert cut_for(side("c"), side("f")).largest[::2] == (1024, 1050)


def test_chunks_of_the_source_are_read_once() -> None:
    for chunk in ((128, 100, 105), (100, 64, 64), (8, 8, 8)):
        for axis, cuts in enumerate(cut_for(side("c", chunk=chunk), side("f")).cuts):
            assert set(cuts) <= {*range(0, SHAPE[axis], chunk[axis]), SHAPE[axis]}


def sparse(path: Path, shape: tuple[int, ...] = SHAPE, **options: Any) -> Path:
    """A file of zeros that takes no room."""
    sink = formats.module(formats.format_of_name(str(path))).sink(
        str(path), shape, np.dtype("u1"), Header(), None, **options
    )
    assert sink.head is not None
    with path.open("wb") as file:
        file.write(sink.head)
        file.truncate(sink.nbytes)
    return path


def planned(
    path: Path, dest: Path, memory: int = 64 * MIB, **options: Any
) -> tuple[Plan, int, int]:
    """The plan of a conversion within so much memory, and its reads and writes."""
    pipeline = conversion(str(path), str(dest), Wanted(**options))
    plan = compile_plan(pipeline, Rule(), Budget(memory, 1))
    counts = [Operations(stage.job).of(stage.tasks) for stage in plan.stages]
    assert plan.bytes_peak <= memory
    return plan, sum(reads for reads, _ in counts), sum(writes for _, writes in counts)


@pytest.mark.parametrize("format", ["nii", "nii.gz", "h5"])
def test_a_split_into_125_reads_long_runs(tmp_path: Path, format: str) -> None:
    """Not a million reads of rows: the file once from its start to its end, scattered in memory."""
    source = sparse(tmp_path / "in.nii")
    plan, reads, writes = planned(
        source, tmp_path / "out", grid=Rule("blocks", (5, 5, 5)), format=format
    )
    output = plan.stages[0].job.output
    assert output is not None
    assert len(output.volumes) == 125
    assert plan.bytes_read == plan.bytes_written == math.prod(SHAPE)
    other_order = format == "h5"
    assert reads <= (50_000 if other_order else 100)
    assert writes <= (200_000 if other_order else 2000)
    if other_order:
        _, reads, writes = planned(
            source, tmp_path / "out", 1024 * MIB, grid=Rule("blocks", (5, 5, 5)), format=format
        )
        assert reads <= 10_000
        assert writes <= 1000, "with more memory, whole files are written at once"


@pytest.mark.parametrize(
    ("name", "dest"), [("in.h5", "out.nii"), ("in.nii", "out.h5"), ("in.h5", "out.nii.gz")], ids=str
)
def test_another_order_is_read_and_written_once_in_runs(
    tmp_path: Path, name: str, dest: str
) -> None:
    plan, reads, writes = planned(sparse(tmp_path / name), tmp_path / dest)
    assert plan.bytes_read == plan.bytes_written == math.prod(SHAPE)
    for operations_made in (reads, writes):
        assert operations_made <= math.prod(SHAPE) / 12_000, "an operation moves 12 kB at least"
    more, fewer_reads, _ = planned(sparse(tmp_path / name), tmp_path / dest, 1024 * MIB)
    assert fewer_reads < reads / 10, "more memory makes longer runs"
    assert more.bytes_read == plan.bytes_read


def test_chunks_are_written_whole_by_one_task_each(tmp_path: Path) -> None:
    encoding = Encoding(chunks=(100, 128, 64), compression="gzip")
    plan, reads, writes = planned(
        sparse(tmp_path / "in.nii"), tmp_path / "out.h5", encoding=encoding
    )
    for cuts, chunk, extent in zip(plan.partitions[0].cuts, encoding.chunks, SHAPE, strict=True):
        assert all(place % chunk == 0 or place == extent for place in cuts)
    assert plan.bytes_read == math.prod(SHAPE)
    assert reads <= 12_000
    assert writes == len(plan.stages[0].tasks) <= 200


def test_merging_blocks_reads_each_once(tmp_path: Path) -> None:
    """125 blocks into one file: every one is entered by few tasks, and no byte is read twice."""
    shape, files = (100, 80, 60), []
    for corner in itertools.product(range(0, 500, 100), range(0, 400, 80), range(0, 300, 60)):
        header = Header(base_affine=np.diag([2.0, 2, 2, 1])).moved(corner, (1, 1, 1))
        path = tmp_path / f"b_{'_'.join(map(str, corner))}.nii"
        sink = formats.module("nifti").sink(str(path), shape, np.dtype("u1"), header)
        with path.open("wb") as file:
            file.write(sink.head or b"")
            file.truncate(sink.nbytes)
        files.append(str(path))
    pipeline = conversion(files, str(tmp_path / "out" / "whole.nii"))
    plan = compile_plan(pipeline, Rule(), Budget(32 * MIB, 1))
    counts = [Operations(stage.job).of(stage.tasks) for stage in plan.stages]
    assert plan.bytes_read == plan.bytes_written == 500 * 400 * 300
    assert sum(reads for reads, _ in counts) <= 125 * 4
    assert sum(writes for _, writes in counts) <= 125


LONG = {"one axis": (2 * 10**9,), "the last": (5, 4 * 10**8), "the first": (4 * 10**8, 5)}
"Shapes by the axis that is long."


@pytest.mark.parametrize("axis", few(["the last"], LONG, "a long axis is planned in little memory"))
def test_very_long_axes_are_planned_in_little_memory(tmp_path: Path, axis: str) -> None:
    """Not with a list of every place at which an axis could be cut."""
    shape = LONG[axis]
    source = sparse(tmp_path / "in.h5", shape)
    for encoding in (Encoding(), Encoding(chunks=(1000,) if len(shape) == 1 else (5, 1000))):
        with traced_memory() as peak:
            plan, *_ = planned(source, tmp_path / "out.h5", encoding=encoding)
        assert plan.bytes_written == math.prod(shape)
        assert plan.bytes_read <= 2 * math.prod(shape)
        assert peak[0] < 32 * MIB


POSITIONS = st.lists(st.integers(0, 30), min_size=1).map(np.unique)


@given(POSITIONS, POSITIONS)
def test_positions_are_merged_as_sets_are(one: Any, other: Any) -> None:
    assert transfer._merged(one, other).tolist() == np.union1d(one, other).tolist()
    assert transfer._missing(one, other).tolist() == np.setdiff1d(other, one).tolist()


def test_what_is_known_to_ascend_is_not_sorted_for_every_cut_that_is_tried() -> None:
    shape = (20_000, 30, 30)
    places = tuple(np.arange(n + 1) for n in shape)
    ends = tuple(np.array([0, n]) for n in shape)
    sides = (Side((0, 1, 2), 4, ends, (10, 10, 10)), Side((2, 1, 0), 4, ends))
    with cProfile.Profile() as work:
        best_limit(Transfer(shape, places, *sides), 2**12, 2**20)
    by_name = {getattr(one.code, "co_name", ""): one.callcount for one in work.getstats()}
    assert by_name["_cost"] > 100
    assert by_name["_unique1d"] < by_name["_cost"]
