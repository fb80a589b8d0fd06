"""What fio measures at the same points of a disk, in turns with us: nobody else runs meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.storage.probing.bench import Bench, Setting
from hyperslab.storage.probing.clients import Clients
from hyperslab.storage.probing.folder import own_folder
from hyperslab.storage.probing.records import Compared
from tests.repetitions import few
from tests.storage.probing.compared import ATTEMPTS, in_turns, needs_fio

OF_WRITES = 0.1
"""Share of a rate of writing by which a disk that is nearly as fast as memory may seem faster to
fio: it writes one buffer again and again, which is then in the processor's cache. To fill it anew
(--refill_buffers) is counted, and halved the rate.
"""
ON_DISK = [("read-cold", 2), ("write", 2), ("write-direct", 1)]


@needs_fio
@pytest.mark.parametrize(("what", "clients"), few(ON_DISK[:2], ON_DISK, "fio measures the same"))
def test_fio_measures_the_same(tmp_path: Path, what: str, clients: int) -> None:
    with own_folder(tmp_path) as folder, Clients(folder, 1) as processes:
        bench = Bench(folder, processes, 0.2, drops_caches=False)
        bench.write_files(128 * 2**20, 2**20, 2)
        told = []
        for _ in range(ATTEMPTS):
            found = in_turns(bench, Setting(what, clients, 2**20), 5)
            told.append(found)
            if agrees(found):
                break
        assert agrees(told[-1]), told


def agrees(found: Compared) -> bool:
    """Whether ours lies within what fio itself gave."""
    if found.what == "read-cold":
        return found.agrees
    low, high = min(found.fio.values), max(found.fio.values)
    margin = OF_WRITES * found.fio.median
    return low - margin <= found.ours.median <= high + margin
