"""A folder of a user without rights, for tests that root plays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.nobody import NOBODY
from tests.system.clusters.required import required


@contextmanager
def nobodys(name: str) -> Iterator[Path]:
    """A folder of nobody's, outside of pytest's own, which are root's alone."""
    required("" if os.geteuid() == 0 else "it takes root to play a user without rights")
    folder = Path("/tmp") / f"hyperslab-{name}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)
