"""What records know a built-in function by: its name, and the VERSION that its module says.

VERSION is raised when results change, so that a run is not resumed with others; a module may be
moved and rewritten, and an interrupted run can be resumed. Earlier versions of the package knew a
built-in by the checksum of its file, by which their runs are still known.

Held by tests/system/faults/test_earlier.py and, that results do not change with the same VERSION,
tests/workloads/test_table.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_EARLIER_VERSION = 1
"Version of the results that all built-ins had while runs knew them by their files."
_EARLIER_FILES: Mapping[str, str] = {
    "hyperslab.workloads.cast": (
        "126336c1bdc85808621f8fbecd8e3848f1572cb3219239f26113aac84deeb779"
    ),
    "hyperslab.workloads.downsample": (
        "86a742f312e3a077c8904bcdfb71d8b48ddc0781473d19885826cf54c48e3499"
    ),
    "hyperslab.workloads.histogram": (
        "c14ba1276614b5043891581371e7f0857ca3e8692e33d5be46af3455246bf461"
    ),
    "hyperslab.workloads.histogram_python": (
        "58ae7d6e2125133ddc699b258ce020a9560cca95619eeb5eb421bf7c07301b04"
    ),
    "hyperslab.workloads.increment": (
        "2521c358193b98bb6e2fcc53468b3522a73ae301bce8a4fc6bc67b2cd372c537"
    ),
    "hyperslab.workloads.smooth": (
        "80c02fa120bc7c8bf967c69976df7dfe20838325ed8993a2f1feb69c71f691e0"
    ),
    "hyperslab.workloads.stats": (
        "d03d155605ed13f70405f6c496ca2e1ce6cf039c055208981253fbd0b5cb0728"
    ),
}
"SHA-256 of these files, per module."


def version_of(module: ModuleType) -> int | None:
    """Version of the results of a built-in's module; None for modules of others."""
    if module.__name__.partition(".")[0] != _PACKAGE:
        return None
    version: int | None = getattr(module, "VERSION", None)
    return version


def earlier_digest(target: str, module: ModuleType) -> str:
    """What a run of an earlier version of the package knew a built-in by; '' where its results were
    others.
    """
    file_digest = _EARLIER_FILES.get(module.__name__)
    if file_digest is None or version_of(module) != _EARLIER_VERSION:
        return ""
    return digest_of_parts(target, [file_digest])


def digest_of_parts(target: str, parts: Any) -> str:
    """SHA-256 of what a function is called and what it rests on."""
    return hashlib.sha256(json.dumps([target, parts]).encode()).hexdigest()
