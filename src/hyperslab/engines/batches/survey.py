"""Survey: what a worker of somebody's cluster has. Sent to workers by value: it may import nothing
of hyperslab.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import socket
from typing import Any

NEEDED = ("numpy", "h5py", "nibabel", "xxhash", "cloudpickle")


def survey(folder: str) -> dict[str, Any]:
    """Host, its address where it was reached by ssh, processors and Python of this worker, whether
    it sees the run directory ('' asks for none), and what is not installed.
    """
    version = ""
    if importlib.util.find_spec("hyperslab") is not None:
        version = importlib.import_module("hyperslab").__version__
    return {
        "host": socket.gethostname(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "sees": not folder or (os.path.isdir(folder) and os.access(folder, os.W_OK)),
        "cpus": len(os.sched_getaffinity(0)),
        "address": os.environ.get("SSH_CONNECTION", "").split(" ")[2:3],
        "missing": [name for name in NEEDED if importlib.util.find_spec(name) is None],
        "hyperslab": version,
    }
