"""Source files are parsed by several threads at a time, whatever the collector of garbage does."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hyperslab.plan import definitions
from hyperslab.plan.definitions import parsed


class Yielding:
    """An object in a ring, whose end lets another thread go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def restless() -> Iterator[None]:
    """Garbage is collected, and threads take turns, as often as can be."""
    before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(before[0])
    gc.set_threshold(*before[1])


@pytest.mark.usefixtures("restless")
def test_threads_parse_at_a_time() -> None:
    path = Path(definitions.__file__)

    def parse(_: int) -> int:
        Yielding()
        return len(parsed(path).body)

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(parse, range(60)))
    assert len(found) == 1
