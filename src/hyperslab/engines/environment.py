"""What a worker process inherits: our environment and import path, its share of the processors, how it keeps memory."""

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
    """Our environment, our import path, and a slot's share of the processors for BLAS and OpenMP."""
    variables = {**os.environ, **KEEP_MEMORY, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    for name in THREAD_VARIABLES:
        asked = os.environ.get(name, "")
        variables[name] = str(min(int(asked), options.slot_cpus) if asked.isdigit() else options.slot_cpus)
    return variables
