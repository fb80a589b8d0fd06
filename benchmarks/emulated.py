"""Emulated tiers for benchmarks: made and measured for a block, and always removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.storage.emulation import making
from hyperslab.storage.emulation.removing import remove
from hyperslab.storage.emulation.settings import Settings

MEMORY = Path("/dev/shm")
"Where the files of a tier lie: on what is faster than any tier."


@contextmanager
def emulated(kind: str, settings: Settings) -> Iterator[Path]:
    """An empty directory on a tier of this kind. Raises EmulationFailed where it is not what was
    asked for.
    """
    with tempfile.TemporaryDirectory(prefix="hyperslab-tier-", dir=MEMORY) as folder:
        made = making.emulate(kind, Path(folder) / kind, settings)
        try:
            yield Path(made.directory)
        finally:
            remove(made, by_force=True)
