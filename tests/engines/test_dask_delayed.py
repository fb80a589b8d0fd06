"""The dask-delayed engine keeps the contract of engines, on a cluster known by its scheduler
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.testing import EngineTests
from tests.engines.chosen import DIFFERING, STEPS
from tests.engines.recorded import recorded, require_whole
from tests.repetitions import only
from tests.system.clusters import dask
from tests.system.clusters.required import required


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Scheduler file of a cluster whose workers have no hyperslab."""
    required(dask.missing())
    with dask.dask_cluster(
        tmp_path_factory.mktemp("cluster"), threads=2, nanny=False, bare=True
    ) as running:
        yield str(running.scheduler_file)


@only([*DIFFERING, *STEPS])
class TestDaskDelayed(EngineTests):
    engine, slots = "dask-delayed", (2, 2)

    @pytest.fixture(autouse=True)
    def _on_the_cluster(self, cluster: str) -> None:
        self.connect = cluster


def test_messages_are_recorded_where_hyperslab_is_not_installed(
    cluster: str, tmp_path: Path
) -> None:
    require_whole(recorded(cluster, "dask-delayed", tmp_path), 2)
