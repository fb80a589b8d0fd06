"""Blocks of a random partition, read as tasks read them, make the whole array."""

from __future__ import annotations

import pickle
from random import Random
from typing import get_args

import numpy as np

from hyperslab.arrays.partition import Layout, Partition, Rule, cut
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.formats.matrix import opened

_MOST_BLOCKS = 60


def assembled(case: Case) -> None:
    values: Values = case.rng.choice(get_args(Values))
    expected = case.expected.get(values)
    if expected is None:
        return
    with case.ledger.attempt(f"blocks, {values}", case.folder, values in case.refused):
        source = pickle.loads(pickle.dumps(opened(case.dataset.url)))
        partition = partition_of(case.rng, source)
        whole = np.empty(source.shape, source.dtype(values))
        for slab in partition:
            whole[slab.slices()] = reading.read(
                source, slab, values=values, threads=case.rng.choice((1, 2, None))
            )
        any_nan = values == "real"
        where = f"cut at {partition.cuts}"
        case.ledger.check(f"blocks, {values}", where, unlike(whole, expected, any_nan), expected)


def partition_of(rng: Random, source: ArraySource) -> Partition:
    chunks = source.own_chunk_shape or None
    layout = Layout(source.shape, source.axes, source.stored.itemsize, chunks)
    return cut(layout, rule(rng, source), 2000)


def rule(rng: Random, source: ArraySource) -> Rule:
    """A way to cut an array into a few blocks."""
    style = rng.choice(("block-shape", "block-shape", "blocks", "bytes", "slabs"))
    shape: tuple[int, ...] = source.shape
    if style == "slabs" and (not shape or max(shape) <= _MOST_BLOCKS):
        return Rule("slabs")
    if style == "bytes":
        return Rule(
            "bytes",
            (max(source.nbytes // rng.randint(1, _MOST_BLOCKS), source.stored.itemsize, 1),),
        )
    if style == "blocks" and shape and 0 not in shape:
        return Rule("blocks", tuple(rng.randint(1, min(extent, 3)) for extent in shape))
    return Rule("block-shape", tuple(max(1, -(-extent // rng.randint(1, 3))) for extent in shape))
