"""The dask-futures engine keeps the contract of engines, on a cluster known by its address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hyperslab.testing import EngineTests
from tests.engines.chosen import DIFFERING, STEPS
from tests.repetitions import only
from tests.system.clusters import dask
from tests.system.clusters.required import required


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a cluster, whose workers have no nannies; those of test_dask_bag.py do."""
    required(dask.missing())
    with dask.dask_cluster(tmp_path_factory.mktemp("cluster"), nanny=False) as running:
        yield running.address


@only([*DIFFERING, *STEPS])
class TestDaskFutures(EngineTests):
    engine, slots = "dask-futures", (2, 1)

    @pytest.fixture(autouse=True)
    def _on_the_cluster(self, cluster: str) -> None:
        self.connect = cluster
