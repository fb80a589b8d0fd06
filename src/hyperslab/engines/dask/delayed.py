"""Tasks as Dask Delayed objects: one graph of all batches, a reduction is a tree in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperslab.engines.dask.cluster import DaskEngine
from hyperslab.engines.dask.graph import graph


class DaskDelayed(DaskEngine):
    """Runs tasks by `dask.delayed` and `Client.compute`."""

    def futures(
        self, place: str, batches: Sequence[bytes], steps: int, reducing: bool
    ) -> list[Any]:
        futures: list[Any] = self.client.compute(graph(_delayed, place, batches, steps, reducing))
        return futures


def _delayed(function: Any, *arguments: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False)(*arguments)
