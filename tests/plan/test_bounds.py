"""Planning is bounded: whatever is asked for, it answers soon, with few blocks or with a sentence;
its blocks cover the array once, and tasks read what it promised.
"""

from __future__ import annotations

import contextlib
import cProfile
import math
from dataclasses import replace
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array, resampling
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.partition import Layout, Rule, cut, number_cut
from hyperslab.arrays.sets import SourceSet, independent
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable, Codec
from hyperslab.blocks import reading
from hyperslab.blocks.gathering import gather
from hyperslab.blocks.reading.ways import way_of
from hyperslab.errors import UsageError
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.costs import Operations
from hyperslab.plan.cutting import MOST_BLOCKS
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.steps import steps_of
from hyperslab.plan.task import Outcome
from hyperslab.testing import functions
from tests.examples import examples
from tests.repetitions import few

MOST_CALLS = 1_000_000
"""Calls of functions of Python in which it is decided how to cut, or said that it cannot be: about
a second. They are as many on every machine, however busy it is.
"""
CALLS_OF_BLOCK = 350
"Most calls in which the task of a block is described, and what it reads is added up."
Shape = tuple[int, ...]
RULES = st.one_of(
    st.just(Rule()),
    st.just(Rule("chunks")),
    st.just(Rule("slabs")),
    st.builds(lambda n: Rule("blocks", (n,)), st.integers(1, 10**10)),
    st.builds(lambda n: Rule("bytes", (n,)), st.integers(1, 10**9)),
    st.builds(lambda n: Rule("block-shape", n), st.tuples(*[st.integers(1, 10**5)] * 3)),
    st.builds(lambda n: Rule(axes_whole=n), st.lists(st.integers(0, 2)).map(tuple)),
)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> ArraySource:
    """A small float32 image, as a description to be made larger."""
    path = tmp_path_factory.mktemp("bounds") / "image.nii"
    image = nib.Nifti1Image(np.zeros((4, 4, 4), np.float32), np.eye(4))  # type: ignore[no-untyped-call]
    nib.save(image, path)
    return formats.open_source(str(path))


def in_one_piece(source: ArraySource, shape: Shape) -> ArraySource:
    return stored(source, shape, tuple(reversed(shape)))


def stored(source: ArraySource, shape: Shape, chunk: Shape) -> ArraySource:
    """The description of an array of this shape, in chunks of a shape in stored order."""
    extents = tuple(shape[axis] for axis in source.axes)
    places = [np.arange(0, n, c, dtype=np.int64) for n, c in zip(extents, chunk, strict=True)]
    start = np.stack(np.meshgrid(*places, indexing="ij"), -1).reshape(-1, 3)
    nbytes = np.full(len(start), math.prod(chunk) * source.stored.itemsize, np.int64)
    table = ChunkTable(chunk, start, np.cumsum(nbytes), nbytes, np.zeros_like(nbytes))
    return replace(source, shape=shape, chunks=table, chunk_shape=chunk)


def planned(
    source: ArraySource, rule: Rule, halo: int | Shape = 0, memory: int = 2**30, slots: int = 2
) -> Plan | None:
    """The plan, or None where a sentence refuses it; either with little work."""
    pipeline = Pipeline(independent([source])).map(np.negative, halo=halo).write("out")
    plan = None
    with cProfile.Profile(builtins=False) as work, contextlib.suppress(UsageError):
        plan = compile_plan(pipeline, rule, Budget(memory, slots))
        Operations(plan.stages[0].job).of(plan.stages[0].tasks)
    calls = sum(entry.callcount for entry in work.getstats())
    blocks = 0
    if plan is not None:
        blocks = len(plan.stages[0].tasks)
    assert calls < MOST_CALLS + blocks * CALLS_OF_BLOCK, f"{rule}: {calls:,} calls"
    return plan


def assert_covers(plan: Plan, shape: Shape) -> None:
    """Its blocks are the cells between its cuts, each once."""
    (partition,) = plan.partitions
    tasks = plan.stages[0].tasks
    for cuts, extent in zip(partition.cuts, shape, strict=True):
        assert (cuts[0], cuts[-1]) == (0, extent)
        assert (np.diff(cuts) > 0).all()
    assert len(tasks) == len(partition) == len({task.core.start for task in tasks})
    assert len(tasks) <= MOST_BLOCKS
    assert sum(task.core.size for task in tasks) == math.prod(shape)


@settings(max_examples=examples(40))
@given(st.data())
def test_every_plan_is_small_and_whole(described: ArraySource, data: st.DataObject) -> None:
    extent = st.one_of(st.integers(1, 30), st.integers(1, 3000))
    shape = tuple(data.draw(st.tuples(extent, extent, extent)))
    source = in_one_piece(described, shape)
    if data.draw(st.booleans()):
        least = math.ceil(math.prod(shape) ** (1 / 3) / 20)
        chunk = tuple(data.draw(st.integers(min(least, n), n)) for n in reversed(shape))
        source = stored(described, shape, chunk)
    rule = data.draw(RULES)
    halo = data.draw(st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 10**6)))
    memory = data.draw(st.one_of(st.integers(1, 10**4), st.integers(10**6, 10**12)))
    plan = planned(source, rule, halo, memory, data.draw(st.integers(1, 64)))
    if plan is not None:
        assert_covers(plan, shape)
        assert plan.bytes_read >= math.prod(shape) * 4
    else:
        assert rule.kind != "auto", "the planner refuses its own choice"


@pytest.mark.parametrize("halo", [10, 30, 60, 100])
def test_a_halo_does_not_make_many_blocks(described: ArraySource, halo: int) -> None:
    plan = planned(in_one_piece(described, (128, 128, 140)), Rule(), halo, 2**32)
    assert plan is not None
    assert len(plan.stages[0].tasks) <= 2
    assert plan.bytes_read <= 2 * 128 * 128 * 140 * 4


def test_a_small_halo_leaves_every_slot_some_work(described: ArraySource) -> None:
    for slots in (2, 6, 16):
        plan = planned(in_one_piece(described, (256, 256, 256)), Rule(), 1, 2**34, slots)
        assert plan is not None
        assert slots <= len(plan.stages[0].tasks) <= 8 * slots
        assert plan.bytes_read < 1.2 * 256**3 * 4


LARGE: dict[str, Shape] = {
    "volume": (128, 128, 140),
    "line": (10**12, 1, 1),
    "plane": (1, 10**6, 10**6),
}


@pytest.mark.parametrize(
    "kind", few(["volume"], LARGE, "a choice of its own is bounded: in any shape, above")
)
def test_its_own_choice_in_next_to_no_memory_takes_not_long(
    described: ArraySource, kind: str
) -> None:
    assert planned(in_one_piece(described, LARGE[kind]), Rule(), 0, 10) is not None


@pytest.mark.parametrize(
    "rule",
    [
        Rule("blocks", (9_999_999_999,)),
        Rule("blocks", (10**9, 10**9, 10**9)),
        Rule("block-shape", (1, 1, 1)),
        Rule("bytes", (1,)),
    ],
    ids=str,
)
def test_nothing_that_is_asked_for_takes_long(described: ArraySource, rule: Rule) -> None:
    for shape in LARGE.values():
        assert planned(in_one_piece(described, shape), rule) is None


@pytest.mark.parametrize(
    "grid", [Rule("blocks", (9_999_999_999,)), Rule("block-shape", (1, 1, 1))], ids=str
)
def test_arrays_are_not_split_into_many_files(described: ArraySource, grid: Rule) -> None:
    source = in_one_piece(described, (28, 28, 28))
    pipeline = Pipeline(independent([source])).write("out", "nii", "volume", grid=grid)
    with cProfile.Profile(builtins=False) as work, pytest.raises(UsageError) as refused:
        compile_plan(pipeline, Rule(), Budget(2**30, 2))
    assert "splits 1 array into 21,952 files; there may be at most 20,000" in str(refused.value)
    assert sum(entry.callcount for entry in work.getstats()) < MOST_CALLS / 100


def test_as_many_files_as_blocks_are_made_by_splitting(described: ArraySource) -> None:
    source = in_one_piece(described, (9, 8, 7))
    for grid in (Rule("blocks", (12,)), Rule("blocks", (2, 3, 4)), Rule("block-shape", (4, 3, 2))):
        pipeline = Pipeline(independent([source])).write("out", "nii", "volume", grid=grid)
        output = compile_plan(pipeline, Rule(), Budget(2**30, 2)).stages[0].job.output
        assert output is not None
        made = made_like(source)
        assert len(output.volumes) == number_cut(made, grid) == len(cut(made, grid, 0))


def made_like(source: ArraySource) -> Layout:
    return Layout(source.shape, source.axes, 4, None)


def test_a_region_that_all_blocks_read_is_looked_at_once(described: ArraySource) -> None:
    """By a halo beyond the array each of 462 blocks reads all of its 135 chunks."""
    source = stored(described, (612, 2587, 767), (94, 1208, 126))
    plan = planned(source, Rule("block-shape", (281, 34, 557)), 374_193, 2**36)
    assert plan is not None
    assert len(plan.stages[0].tasks) == 462


def test_regions_of_a_resampled_input_are_looked_at_together(
    described: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = in_one_piece(described, (60, 60, 60))
    mask = in_one_piece(described, (40, 40, 40))
    turned = replace(mask.header, base_affine=np.diag([1.5, 1.4, 1.3, 1.0]))
    pipeline = Pipeline(
        independent([image]), mask=independent([replace(mask, header=turned)]), resample="nearest"
    ).map(lambda block, mask: block * mask, dtype="float32")
    calls = []
    needed = resampling.needed

    def counted(between: Array, wanted: Boxes, shape: Shape) -> Boxes:
        calls.append(len(wanted))
        return needed(between, wanted, shape)

    monkeypatch.setattr(resampling, "needed", counted)
    budget = Budget(2**30, 2)
    plan = compile_plan(pipeline.write("out"), Rule("blocks", (10, 10, 10)), budget)
    assert len(plan.stages[0].tasks) == 1000
    assert sum(calls) >= 1000
    assert len(calls) < 10


@pytest.mark.parametrize("halo", few([3], [0, 3], "a million chunks are planned in time"))
def test_a_million_chunks_are_planned_in_time(described: ArraySource, halo: int) -> None:
    source = stored(described, (1600, 1600, 1600), (16, 16, 16))
    assert source.chunks is not None
    assert len(source.chunks) == 10**6
    plan = planned(source, Rule(), halo)
    assert plan is not None
    assert_covers(plan, source.shape)
    assert planned(source, Rule("chunks"), halo) is None


def calls_of(source: ArraySource, grid: Shape) -> int:
    """Calls of functions in which a plan is made of so many blocks, and added up."""
    pipeline = Pipeline(independent([source])).map(np.negative).write("out")
    with cProfile.Profile() as work:
        plan = compile_plan(pipeline, Rule("blocks", grid), Budget(2**40, 2))
        Operations(plan.stages[0].job).of(plan.stages[0].tasks)
    assert len(plan.stages[0].tasks) == math.prod(grid)
    return sum(entry.callcount for entry in work.getstats())


FILTERED = (Codec("deflate", (1,), ("deflate", ())),)


@pytest.mark.parametrize(
    ("chunk", "codecs", "way"),
    [
        ((20, 20, 20), FILTERED, "chunks"),
        ((20, 20, 20), (), "chunks"),
        ((200, 200, 100), (), "spans"),
        ((20, 20, 20), (), "library"),
    ],
    ids=["filtered", "small", "large", "library"],
)
def test_chunks_cost_a_plan_hardly_more_work(
    described: ArraySource, chunk: Shape, codecs: tuple[Codec, ...], way: str
) -> None:
    """What every block reads is found out together: an array in one piece takes most of it."""
    shape = (400, 400, 400)
    grid = (12, 12, 12)
    source = replace(stored(described, shape, chunk), codecs=codecs)
    if way == "library":
        source = replace(source, chunks=None)
    assert way_of(source).name == way
    assert calls_of(source, grid) < 1.5 * calls_of(in_one_piece(described, shape), grid)


@pytest.mark.parametrize(
    ("shape", "chunk", "codecs", "way"),
    [
        ((40, 50, 30), (7, 6, 11), FILTERED, "chunks"),
        ((40, 50, 30), (7, 6, 11), (), "chunks"),
        ((400, 500, 300), (130, 140, 150), (), "spans"),
        ((40, 50, 30), (7, 6, 11), (), "library"),
    ],
    ids=["filtered", "small", "large", "library"],
)
def test_blocks_together_take_what_each_takes(
    described: ArraySource, shape: Shape, chunk: Shape, codecs: tuple[Codec, ...], way: str
) -> None:
    """Also where chunks are missing, and where a region is asked for twice."""
    random = np.random.default_rng(1)
    first = random.integers(0, shape, (16, 3))
    end = first + 1 + random.integers(0, np.array(shape) - first)
    slabs = [
        Hyperslab(tuple(a), tuple(n))
        for a, n in zip(first.tolist(), (end - first).tolist(), strict=True)
    ]
    for share in (0.0, 0.4, 1.0):
        source = replace(stored(described, shape, chunk), codecs=codecs)
        assert source.chunks is not None
        there = np.flatnonzero(random.random(len(source.chunks)) < share)
        source = replace(source, chunks=source.chunks.take(there))
        if way == "library":
            source = replace(source, chunks=None)
        assert way_of(source).name == way
        found = [tuple(cost) for cost in reading.costs_of(source, slabs * 2)]
        assert found == [each_of(source, slab) for slab in slabs * 2]


def test_regions_with_gaps_are_no_boxes(files: list[SourceSet]) -> None:
    """Of one count, side by side and every second element."""
    slabs = [
        Hyperslab((0, 0, 0), (6, 7, 5)),
        Hyperslab((0, 0, 0), (6, 7, 5), (2, 2, 2)),
        Hyperslab((3, 2, 1), (6, 7, 5), (1, 3, 1)),
    ]
    for source in (one.sources[0] for one in files):
        found = [tuple(cost) for cost in reading.costs_of(source, slabs)]
        assert found == [each_of(source, slab) for slab in slabs]


def each_of(source: ArraySource, slab: Hyperslab) -> tuple[int, int, int]:
    """What one region takes to read, asked for by itself."""
    nbytes = reading.read_nbytes(source, slab)
    return nbytes, reading.read_operations(source, slab), reading.read_peak(source, slab)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[SourceSet]:
    """Two real files: an image in one piece, and a dataset in filtered chunks of many sizes."""
    folder = tmp_path_factory.mktemp("files")
    values = np.random.default_rng(5).integers(0, 9, (19, 23, 17)).astype(np.int16)
    values[:, 12:] = 0
    image = nib.Nifti1Image(values, np.eye(4))  # type: ignore[no-untyped-call]
    nib.save(image, folder / "image.nii")
    with h5py.File(folder / "chunks.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(5, 6, 7), compression="gzip")
        file.create_dataset("b", data=values, chunks=(5, 6, 7))
    named = (f"{folder}/image.nii", f"{folder}/chunks.h5::a", f"{folder}/chunks.h5::b")
    return [gather(name) for name in named]


@settings(max_examples=examples(25))
@given(st.data())
def test_what_is_promised_to_be_read_is_read(files: list[SourceSet], data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(files))
    halo = data.draw(st.tuples(*[st.integers(0, 5)] * 3))
    blocks = st.tuples(*[st.integers(1, 4)] * 3)
    rule = data.draw(st.one_of(st.just(Rule()), st.builds(lambda n: Rule("blocks", n), blocks)))
    pipeline = Pipeline(source).map(np.negative, halo=halo).reduce(functions.BLOCKS)
    (stage,) = compile_plan(pipeline, rule, Budget(2**30, 2)).stages
    for task in stage.tasks:
        x: Any = task
        for step in steps_of(stage.job, stepwise=False):
            x = step(x)
        assert isinstance(x, Outcome)
        assert x.status == "done", x.failure
        read = sum(phase.nbytes for phase in x.phases if phase.kind == "read")
        assert read == task.bytes_read
