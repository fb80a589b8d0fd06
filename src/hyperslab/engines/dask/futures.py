"""Tasks as Dask futures: every batch is submitted by itself, a reduction is a tree of futures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hyperslab.engines.dask.cluster import DaskEngine
from hyperslab.engines.dask.graph import graph


class DaskFutures(DaskEngine):
    """Runs tasks by `Client.submit`."""

    def futures(
        self, place: str, batches: Sequence[bytes], steps: int, reducing: bool
    ) -> list[Any]:
        return graph(
            functools.partial(self.client.submit, pure=False), place, batches, steps, reducing
        )
