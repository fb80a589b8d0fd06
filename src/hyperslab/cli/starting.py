"""What waits while a command is imported, so that it starts sooner.

The collector of garbage waits: of what imports make, nothing is garbage. The threads of OpenBLAS,
which NumPy starts, go to sleep at once: by default each of them keeps a processor busy for 2^26
cycles before it does, as long as NumPy's import takes.
"""

from __future__ import annotations

import gc
import os

BLAS_TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
"Read by OpenBLAS as it is loaded: its threads look for work for 2 to this power of cycles."
_SHORT = "20"
"Longer than between the calls of a computation, shorter than anybody notices."
_set_here: list[str] = []


def begin() -> None:
    """Let both wait until `end`."""
    gc.disable()
    if BLAS_TIMEOUT not in os.environ:
        os.environ[BLAS_TIMEOUT] = _SHORT
        _set_here.append(BLAS_TIMEOUT)


def end() -> None:
    """Let the collector of garbage begin, where it waited, and pass over what was imported; what
    was said to OpenBLAS is not for programs that the command starts.
    """
    while _set_here:
        os.environ.pop(_set_here.pop(), None)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
