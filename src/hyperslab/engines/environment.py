"""What a worker process inherits: our environment and import path, its share of the processors, how it keeps memory.

What is meant for the worker alone (import path, memory) is not passed on to the programs that functions start.
"""

from __future__ import annotations

import os
import sys

from hyperslab.engines import EngineOptions

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**62),
    "MALLOC_TOP_PAD_": str(2**24),
}
"glibc returns large arrays to the system and pays for fresh pages at the next one; a worker's blocks recur: keep them."


def environment(options: EngineOptions) -> dict[str, str]:
    """Our environment, and a slot's share of the processors for BLAS and OpenMP."""
    variables = {**os.environ, **KEEP_MEMORY}
    for name in THREAD_VARIABLES:
        asked = os.environ.get(name, "")
        variables[name] = str(min(int(asked), options.slot_cpus) if asked.isdigit() else options.slot_cpus)
    return variables


def command(fd: int) -> list[str]:
    """The command that starts a worker on an inherited socket, with our import path."""
    path = [folder or os.getcwd() for folder in sys.path]
    program = f"import sys; sys.path[:] = {path!r}; from hyperslab.engines.worker import main; main({fd})"
    return [sys.executable, "-c", program]


def forget_memory_variables() -> None:
    """Once a worker runs, glibc has read them; programs that it starts should not."""
    for name in KEEP_MEMORY:
        os.environ.pop(name, None)
