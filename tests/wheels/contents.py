"""What a wheel has to hold: the tree's packages, whole, and an extension for any Python from 3.11.

The extension may ask Python for nothing but its stable ABI of 3.11 (PEP 384, PEP 652), which the
headers of this Python declare when they are asked for it, and the system for nothing but the
libraries of every Linux (PEP 599, manylinux2014).
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
EXTENSION = "hyperslab/_native.abi3.so"
TAG = "cp311-abi3"
PACKAGES = ("hyperslab", "pyspark_hyperslab")
STABLE_ABI = "0x030B0000"
"Py_LIMITED_API of Python 3.11."
SYSTEM_LIBRARIES = re.compile(
    r"(ld-linux[\w.-]*|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|nsl|resolv))\.so\.\d+"
)
"Libraries that PEP 599 lists, those of a display left out."
_NOT_SHIPPED = {"__pycache__"}


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def files_of_the_tree() -> dict[str, Path]:
    """What the packages are made of, by the name that it has in a wheel; without the extension."""
    return {
        path.relative_to(ROOT / "src").as_posix(): path
        for package in PACKAGES
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and path.suffix != ".so" and not _NOT_SHIPPED & set(path.parts)
    }


def faults_of_wheel(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel, a sentence each."""
    if TAG not in wheel.name:
        yield f"{wheel.name} is not tagged {TAG}"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        own = {name for name in names if ".dist-info/" not in name}
        tree = files_of_the_tree()
        yield from (f"it lacks {name}" for name in sorted({*tree, EXTENSION} - own))
        yield from (f"it holds {name}, too" for name in sorted(own - {*tree, EXTENSION}))
        for name in sorted(tree.keys() & own):
            if archive.read(name) != tree[name].read_bytes():
                yield f"its {name} is not that of the tree"
        yield from _faults_of_metadata(archive, names - own)
        if EXTENSION in own:
            with TemporaryDirectory() as folder:
                yield from faults_of_extension(Path(archive.extract(EXTENSION, folder)))


def _faults_of_metadata(archive: zipfile.ZipFile, names: set[str]) -> Iterator[str]:
    """What the metadata say else than pyproject.toml."""
    found = {name.partition("/")[2]: archive.read(name).decode() for name in names}
    wanted = project()
    said = Parser().parsestr(found.get("METADATA", ""))
    for field, value in (
        ("Name", wanted["name"]),
        ("Version", wanted["version"]),
        ("Requires-Python", wanted["requires-python"]),
    ):
        if said[field] != value:
            yield f"its {field} is {said[field]}, not {value}"
    required = {text.replace(" ", "") for text in said.get_all("Requires-Dist", [])}
    yield from (
        f"it does not require {one}"
        for one in wanted["dependencies"]
        if one.replace(" ", "") not in required
    )
    points = re.sub(r" ?= ?", "=", found.get("entry_points.txt", ""))
    tables = {"console_scripts": wanted["scripts"], **wanted["entry-points"]}
    for group, entries in tables.items():
        yield from (
            f"it has no entry point {name} of {group}"
            for name, place in entries.items()
            if f"[{group}]" not in points or f"{name}={place}" not in points
        )
    if not any(name.endswith("LICENSE") for name in found):
        yield "it has no licence"


def faults_of_extension(path: Path) -> Iterator[str]:
    """What keeps a compiled extension from any Python from 3.11, or from a bare system."""
    asked = {name.partition("@")[0] for name in _listed("nm", "-D", "--undefined-only", path)}
    beyond = {name for name in asked if re.match(r"_?Py", name)} - stable_names()
    yield from (f"{path.name} asks for {name}, which 3.11 may not have" for name in sorted(beyond))
    if "PyInit__native" not in _listed("nm", "-D", "--defined-only", path):
        yield f"{path.name} is no module of the name _native"
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", _said("readelf", "-dW", path))
    yield from (
        f"{path.name} needs {name}" for name in needed if not SYSTEM_LIBRARIES.fullmatch(name)
    )


def stable_names() -> set[str]:
    """The names that Python's headers declare of the stable ABI of 3.11."""
    declared = subprocess.run(
        ["gcc", "-E", f"-DPy_LIMITED_API={STABLE_ABI}", f"-I{sysconfig.get_path('include')}", "-"],
        input="#include <Python.h>",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(re.findall(r"\b_?Py\w+", declared))


def _listed(*command: str | Path) -> set[str]:
    """The last word of each line that a program prints."""
    return {line.split()[-1] for line in _said(*command).splitlines() if line.strip()}


def _said(*command: str | Path) -> str:
    return subprocess.run(list(command), capture_output=True, text=True, check=True).stdout
