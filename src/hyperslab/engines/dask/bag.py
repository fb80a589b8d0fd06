"""Tasks as a Dask Bag: a partition per batch, a map per step, and Bag.fold for a reduction.

Bag fuses the maps of a partition into one task of the scheduler, whatever the granularity.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from hyperslab.engines.batches import batch, tally
from hyperslab.engines.dask.cluster import DaskEngine
from hyperslab.engines.dask.graph import FAN_IN


class DaskBag(DaskEngine):
    """Runs tasks by `dask.bag`."""

    single_steps = False

    def futures(
        self, place: str, batches: Sequence[bytes], steps: int, reducing: bool
    ) -> list[Any]:
        from dask import bag
        from distributed import futures_of

        blocks = (
            bag.from_sequence(batches, npartitions=len(batches))
            .map(functools.partial(batch.begin, place))
            .flatten()
        )
        for number in range(steps):
            blocks = blocks.map(batch.StepOf(place, number))
        tallies = blocks.map_partitions(functools.partial(_record, place))
        if reducing:
            merge = functools.partial(tally.merge_two, place)
            return [self.client.compute(tallies.fold(merge, split_every=FAN_IN))]
        return list(futures_of(self.client.persist(tallies)))


def _record(place: str, outcomes: Iterable[Any]) -> list[tally.Tally]:
    return [batch.record(place, outcomes)]
