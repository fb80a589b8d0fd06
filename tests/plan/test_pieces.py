"""What a function sees of an array, and what comes of it, does not depend on how the array is cut
and read.
"""

from __future__ import annotations

from typing import Any, Literal

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.sets import SourceSet, concatenated, mosaic
from hyperslab.arrays.slab import Hyperslab
from hyperslab.plan.compile import Budget, compile_plan
from hyperslab.plan.pipeline import Boundary, Pipeline
from hyperslab.plan.steps import steps_of
from hyperslab.plan.task import Outcome
from hyperslab.testing import functions
from tests.examples import examples

SHAPE = (11, 7, 9)
MODES: dict[Boundary, Literal["symmetric", "edge", "constant"]] = {
    "reflect": "symmetric",
    "nearest": "edge",
    "constant": "constant",
}
rules = st.one_of(
    st.just(Rule()),
    st.just(Rule("slabs")),
    st.builds(lambda n: Rule("bytes", (n,)), st.integers(1, 3000)),
    st.builds(lambda n: Rule("blocks", n), st.tuples(*(st.integers(1, 5) for _ in SHAPE))),
    st.builds(lambda n: Rule("block-shape", n), st.tuples(*(st.integers(1, n) for n in SHAPE))),
)


def run_here(
    pipeline: Pipeline, rule: Rule, stepwise: bool = False
) -> list[tuple[Hyperslab, Array]]:
    """Every block that a pipeline makes, in this process and without a file."""
    plan = compile_plan(pipeline.reduce(functions.BLOCKS), rule, Budget(2**30, 1))
    (stage,) = plan.stages
    blocks = []
    for task in stage.tasks:
        x: Any = task
        for step in steps_of(stage.job, stepwise):
            x = step(x)
        assert isinstance(x, Outcome)
        assert x.status == "done", x.failure
        assert sum(phase.nbytes for phase in x.phases if phase.kind == "read") <= task.bytes_read
        blocks += x.value
    return blocks


def joined(blocks: list[tuple[Hyperslab, Array]], shape: tuple[int, ...]) -> Array:
    """The blocks as one array, each voxel having come once."""
    whole = np.zeros(shape, blocks[0][1].dtype)
    times = np.zeros(shape, np.int8)
    for slab, block in blocks:
        whole[slab.slices()] = block
        times[slab.slices()] += 1
    assert (times == 1).all()
    return whole


@pytest.fixture(scope="module", params=["memory", "nii", "nii.gz", "chunks", "deflate"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Array]:
    """A source of each kind of storage, and its values."""
    values = np.random.default_rng(7).integers(0, 1000, SHAPE, dtype=np.int32)
    path = tmp_path_factory.mktemp("stored") / f"a.{request.param}"
    match request.param:
        case "memory":
            return values, values
        case "nii" | "nii.gz":
            nib.save(nib.Nifti1Image(values, np.eye(4)), path)  # type: ignore[no-untyped-call]
        case kind:
            path = path.with_suffix(".h5")
            with h5py.File(path, "w") as file:
                file.create_dataset(
                    "a",
                    data=values,
                    chunks=(4, 3, 5),
                    compression="gzip" if kind == "deflate" else None,
                )
    return str(path), values


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rule=rules,
    halo=st.tuples(*(st.integers(0, 4) for _ in SHAPE)),
    boundary=st.sampled_from(sorted(MODES)),
    stepwise=st.booleans(),
)
def test_a_block_with_its_halo_is_part_of_the_padded_whole(
    stored: tuple[Any, Array], rule: Rule, halo: tuple[int, ...], boundary: Boundary, stepwise: bool
) -> None:
    source, values = stored
    pipeline = Pipeline(source, boundary=boundary).map(
        functions.window_sums, {"halo": halo}, dtype="int64", halo=halo
    )
    found = joined(run_here(pipeline, rule, stepwise), SHAPE)
    padded = np.pad(values.astype(np.int64), [(h, h) for h in halo], mode=MODES[boundary])
    windows = np.lib.stride_tricks.sliding_window_view(padded, [2 * h + 1 for h in halo])
    weights = functions.window_weights(halo)
    assert np.array_equal(found, (windows * weights).sum(axis=(3, 4, 5)))


@settings(max_examples=examples(25))
@given(rule=rules, seed=st.integers(0, 99))
def test_two_steps_share_one_halo(rule: Rule, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1000, SHAPE, dtype=np.int64)
    twice = Pipeline(values, boundary="constant").map(functions.neighbourhood, halo=1)
    inner = tuple(slice(2, n - 2) for n in SHAPE)
    found = joined(run_here(twice.map(functions.neighbourhood, halo=1), rule), SHAPE)
    whole = functions.neighbourhood(functions.neighbourhood(np.pad(values, 4)))[4:-4, 4:-4, 4:-4]
    assert np.array_equal(found[inner], whole[inner])


@st.composite
def tilings(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[tuple[slice, ...]]]:
    """Origins and places of blocks that tile SHAPE, in any order."""
    cuts = [sorted({0, n, *draw(st.lists(st.integers(1, n - 1), max_size=2))}) for n in SHAPE]
    places: list[tuple[slice, ...]] = [
        (slice(a, b), slice(c, d), slice(e, f))
        for a, b in zip(cuts[0], cuts[0][1:], strict=False)
        for c, d in zip(cuts[1], cuts[1][1:], strict=False)
        for e, f in zip(cuts[2], cuts[2][1:], strict=False)
    ]
    places = list(draw(st.permutations(places)))
    return [tuple(p.start for p in place) for place in places], places


@settings(max_examples=examples(40))
@given(tilings(), rules, st.tuples(*(st.integers(-9, 9) for _ in SHAPE)))
def test_a_mosaic_is_read_as_one_array(
    tiling: tuple[list[tuple[int, ...]], list[tuple[slice, ...]]],
    rule: Rule,
    offset: tuple[int, ...],
) -> None:
    values = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    origins, places = tiling
    sources = Pipeline([np.ascontiguousarray(values[place]) for place in places]).source.sources
    moved = [tuple(a + o for a, o in zip(origin, offset, strict=True)) for origin in origins]
    whole = mosaic(sources, moved)
    check_pieces(whole, values)
    assert np.array_equal(joined(run_here(Pipeline(whole), rule), SHAPE), values)


@settings(max_examples=examples(40))
@given(
    axis=st.integers(-3, 2), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5), rule=rules
)
def test_concatenated_sources_are_read_as_one_array(
    axis: int, lengths: list[int], rule: Rule
) -> None:
    shape = list(SHAPE)
    shape[axis] = sum(lengths)
    values = np.arange(np.prod(shape)).reshape(shape)
    parts = np.split(values, np.cumsum(lengths)[:-1], axis=axis)
    whole = concatenated(Pipeline(parts).source.sources, axis)
    check_pieces(whole, values)
    assert np.array_equal(joined(run_here(Pipeline(whole), rule), tuple(shape)), values)


def check_pieces(sources: SourceSet, values: Array) -> None:
    """The pieces of a region fill its block exactly, each voxel once."""
    (whole,) = sources.wholes
    low = tuple(n // 3 for n in whole.shape)
    slab = Hyperslab(low, tuple(n - a for n, a in zip(whole.shape, low, strict=True)))
    block, times = np.zeros(slab.count, values.dtype), np.zeros(slab.count, np.int8)
    for piece in whole.pieces(slab):
        data = sources.sources[piece.source].data
        assert data is not None
        block[piece.place.slices()] = data[piece.slab.slices()]
        times[piece.place.slices()] += 1
    assert (times == 1).all()
    assert np.array_equal(block, values[slab.slices()])
