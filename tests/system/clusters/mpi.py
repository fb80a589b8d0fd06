"""MPI as the tests find it: the mpiexec beside this Python."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

MPIEXEC = Path(sys.executable).parent / "mpiexec"


def missing() -> str:
    """Why no ranks can be started here, with what to do about it; empty if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install 'hyperslab[mpi]'"
    if not MPIEXEC.exists() and shutil.which("mpiexec") is None:
        return "there is no mpiexec here: pip install mpich"
    return ""


def started(ranks: int) -> tuple[str, ...]:
    """What starts so many ranks of a command, to be written before it."""
    found = MPIEXEC if MPIEXEC.exists() else "mpiexec"
    return (str(found), "-n", str(ranks))
