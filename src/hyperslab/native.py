"""The native core, where it is there, and how many processors one read may use.

An installed hyperslab has the core, and one that was sent to workers brings it along. On a machine
of another kind than the one it was sent from `core` is None: what it would have read goes through
the library of its format, which is exact and slower.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

THREADS_VARIABLE = "HYPERSLAB_THREADS"
"Environment variable: threads that decode at a time in one read; 1 if it is not set."
CORE = "_native.abi3.so"
"Name of the compiled module beside this one."
MOST_THREADS = 4096
"More could only be a mistake."
DEPTH = 4
"""Reads in flight for one block; storage that is not in memory answers several faster than one
after the other.
"""


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("hyperslab._native")
    except ModuleNotFoundError:
        return _from_archive()


def _from_archive() -> ModuleType | None:
    """The core that was sent along in a zip archive, from which Python itself imports no compiled
    module.
    """
    data = getattr(__spec__.loader, "get_data", None)
    if data is None or ".zip" not in __file__:
        return None
    with tempfile.TemporaryDirectory(prefix="hyperslab-core-") as folder:
        path = Path(folder) / CORE
        try:
            path.write_bytes(data(str(Path(__file__).with_name(CORE))))
            spec = importlib.util.spec_from_file_location("hyperslab._native", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except (ImportError, OSError):  # not in the archive, or for another kind of machine
            return None
        sys.modules[spec.name] = module
        return module


core = _load()


def threads() -> int:
    """How many threads one read decodes with, at least 1."""
    asked = os.environ.get(THREADS_VARIABLE, "")
    if asked.isdecimal():
        return min(max(1, int(asked)), MOST_THREADS)
    return 1


def all_threads() -> int:
    """Threads, as `threads` counts them, for a program that reads one block at a time: all
    processors, unless the environment says else.
    """
    if THREADS_VARIABLE in os.environ:
        return threads()
    return len(os.sched_getaffinity(0))


def helped_ns() -> int:
    """Processor time that the core's threads have spent for this one since it last asked, in
    nanoseconds.
    """
    if core is not None:
        spent: int = core.helped_ns()
        return spent
    return 0
