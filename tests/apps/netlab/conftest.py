"""Laboratories of these tests are their own: they see no others, and leave none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.network.lab import registry, remove


@pytest.fixture(scope="module", autouse=True)
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of records, whose laboratories are gone afterwards."""
    folder = tmp_path_factory.mktemp("netlab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(registry.VARIABLE, str(folder))
        yield folder
        for lab in registry.recorded():
            remove(lab)
