"""The extension that is compiled here fits any Python from 3.11, and a wheel that lacks something
is told so. `make wheel` builds a whole one, and tries it in bare environments.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hyperslab import native
from tests.system.clusters.required import required
from tests.wheels import contents

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Requires-Python: {requires-python}
"""
FOREIGN = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
PyObject *PyInit__native(void) { return PyUnicode_New(3, 127); }
"""
"PyUnicode_New is not of the stable ABI."


@pytest.fixture(scope="module")
def extension() -> Path:
    """The native core that these tests run with."""
    core: Any = native.core
    if core is None:
        required("the native core is not compiled here: pip install --editable .")
    return Path(core.__file__)


@pytest.fixture(scope="module")
def wheel(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a wheel, with that extension."""
    path = tmp_path_factory.mktemp("wheel") / "hyperslab-0-cp311-abi3-linux_x86_64.whl"
    table = contents.project()
    required_by = [f"Requires-Dist: {one}\n" for one in table["dependencies"]]
    groups = {"console_scripts": table["scripts"], **table["entry-points"]}
    points = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name}={place}" for name, place in entries.items()))
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in contents.files_of_the_tree().items():
            archive.write(file, name)
        archive.write(extension, contents.EXTENSION)
        archive.writestr("a.dist-info/METADATA", METADATA.format(**table) + "".join(required_by))
        archive.writestr("a.dist-info/entry_points.txt", "\n".join(points))
        archive.writestr("a.dist-info/licenses/LICENSE", "")
    return path


def without(wheel: Path, name: str, folder: Path) -> Path:
    """A wheel that lacks a file."""
    path = folder / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(path, "w") as less:
        for one in whole.namelist():
            if one != name:
                less.writestr(one, whole.read(one))
    return path


def test_the_extension_fits_any_python_from_3_11(extension: Path) -> None:
    assert extension.name == "_native.abi3.so"
    assert list(contents.faults_of_extension(extension)) == []


def test_an_extension_for_one_python_alone_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "foreign.c").write_text(FOREIGN)
    library = tmp_path / "foreign.so"
    include = f"-I{sysconfig.get_path('include')}"
    line = ["gcc", "-shared", "-fPIC", include, str(tmp_path / "foreign.c"), "-o", str(library)]
    subprocess.run(line, check=True, capture_output=True)
    said = list(contents.faults_of_extension(library))
    assert "foreign.so asks for PyUnicode_New, which 3.11 may not have" in said


def test_a_wheel_of_the_tree_is_whole(wheel: Path) -> None:
    assert list(contents.faults_of_wheel(wheel)) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("hyperslab/report/charts.js", "it lacks hyperslab/report/charts.js"),
        ("hyperslab/py.typed", "it lacks hyperslab/py.typed"),
        (contents.EXTENSION, f"it lacks {contents.EXTENSION}"),
        ("a.dist-info/entry_points.txt", "it has no entry point hyperslab of console_scripts"),
        ("a.dist-info/licenses/LICENSE", "it has no licence"),
    ],
)
def test_what_a_wheel_lacks_is_told(wheel: Path, name: str, fault: str, tmp_path: Path) -> None:
    assert fault in list(contents.faults_of_wheel(without(wheel, name, tmp_path)))


def test_every_entry_point_leads_somewhere() -> None:
    table = contents.project()
    places = [*table["scripts"].values()]
    places += [place for group in table["entry-points"].values() for place in group.values()]
    for place in places:
        module, _, name = place.partition(":")
        assert hasattr(importlib.import_module(module), name), place
    assert importlib.metadata.version("hyperslab") == table["version"]
