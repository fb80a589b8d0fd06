"""The dask-bag engine keeps the contract of engines, on a cluster that somebody else started, over
TLS.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.testing import EngineTests
from tests.engines.chosen import BLOCKS, OWN
from tests.engines.images import IMAGES
from tests.engines.recorded import recorded, require_whole
from tests.repetitions import only
from tests.system.clusters import dask
from tests.system.clusters.required import required


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a cluster whose scheduler and workers ask for certificates."""
    required(dask.missing(tls=True))
    with (
        dask.dask_cluster(tmp_path_factory.mktemp("cluster"), tls=True) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        import dask as library

        for name, value in running.environment.items():
            patch.setenv(name, value)
        library.config.refresh()
        yield running.address
    library.config.refresh()


@only(set(OWN) - {BLOCKS[1]})  # how many workers there are concerns Dask alone
class TestDaskBag(EngineTests):
    engine, images = "dask-bag", IMAGES

    @pytest.fixture(autouse=True)
    def _on_the_cluster(self, cluster: str) -> None:
        self.connect = cluster


def test_messages_are_recorded_before_they_are_encrypted(cluster: str, tmp_path: Path) -> None:
    require_whole(recorded(cluster, "dask-bag", tmp_path), 2)
