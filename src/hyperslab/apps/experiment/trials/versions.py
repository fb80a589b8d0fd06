"""Versions: which engines a session of trials finds, and which Java."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hyperslab.engines.facts import libraries


def engine_versions() -> dict[str, str]:
    """Versions of the libraries of engines that are installed, and of the Java that is found."""
    found: dict[str, str] = {}
    for name in libraries():
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    if java := _java_version():
        found["java"] = java
    return found


def _java_version() -> str:
    """Version of Java as its own directory says; '' without one."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java")
    if home is None and program is not None:
        home = str(Path(program).resolve().parents[1])
    release = Path(home or "/nowhere") / "release"
    if not release.is_file():
        return ""
    told = re.search(r'^JAVA_VERSION="(.+)"$', release.read_text(), re.MULTILINE)
    return told[1] if told else ""
