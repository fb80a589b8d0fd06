"""The shape of the code: sizes, names, the page that describes the tree, and what importing the package loads.

Where a limit is raised, the reason stands beside it.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hyperslab"
FORBIDDEN_NAMES = {"utils", "common", "base", "core", "helpers", "manager"}
LINES = {"formats": 300, "engines": 170}  # supervising processes takes a few lines more than an engine has at first
LINES_ELSEWHERE = 400
LINES_OF_A_FUNCTION = 60

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = [*SOURCES, *(f for folder in ("tests", "benchmarks", "examples") for f in (ROOT / folder).rglob("*.py"))]


def test_the_package_is_found() -> None:
    assert PACKAGE / "__init__.py" in SOURCES
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_keeps_to_its_size(path: Path) -> None:
    in_package = path.is_relative_to(PACKAGE)
    limit = LINES.get(path.relative_to(PACKAGE).parts[0], LINES_ELSEWHERE) if in_package else LINES_ELSEWHERE
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_function_keeps_to_its_size(path: Path) -> None:
    sizes = {f"{f.name}, line {f.lineno}": _lines(f) for f in _functions(path)}
    assert {name: n for name, n in sizes.items() if n > LINES_OF_A_FUNCTION} == {}


def test_nine_functions_in_ten_are_short() -> None:
    sizes = [_lines(f) for path in SOURCES for f in _functions(path)]
    assert sum(n < 25 for n in sizes) >= 0.9 * len(sizes)


def test_files_are_named_for_things() -> None:
    assert [p for p in PYTHON_FILES if FORBIDDEN_NAMES & {p.stem, p.parent.name}] == []


def test_the_layout_page_describes_the_tree() -> None:
    described = set(_described((ROOT / "docs" / "layout.md").read_text()))
    modules = {str(p.relative_to(ROOT)) for p in SOURCES if p.name != "__init__.py"} | {"src/hyperslab/__init__.py"}
    packages = {str(p.parent.relative_to(ROOT)) for p in SOURCES if p.name == "__init__.py"}
    assert {path for path in described if not (ROOT / path).exists()} == set()
    assert (modules | packages) - described == set()


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import json, sys, hyperslab; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = {name.partition(".")[0] for name in json.loads(out)}
    heavy = {"nibabel", "h5py", "zarr", "bokeh", "pyarrow", "scipy", "typer", "rich", "fsspec", "aiohttp", "xarray"}
    assert "hyperslab" in loaded
    assert loaded & (heavy | {"dask", "distributed", "pyspark", "mpi4py"}) == set()


def test_importing_the_package_starts_no_engine() -> None:
    code = (
        "import sys, threading, hyperslab; from multiprocessing import active_children;"
        "print(threading.active_count(), len(active_children()), [m for m in sys.modules if 'hyperslab.engines.' in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "1 0 []"


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body: a command's signature is its table of flags, not code."""
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1


def _described(page: str) -> Iterator[str]:
    """Paths in the page's fenced tree from `src/hyperslab/` on: deeper is further right, a folder ends in "/"."""
    tree = re.search(r"^```\w*\n(src/hyperslab/.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tree, "docs/layout.md has no fenced block that begins with src/hyperslab/"
    above: list[tuple[int, str]] = []
    for line in tree[1].splitlines():
        if not (entry := re.match(r"[\s│├└─]*", line)) or not line[entry.end() :]:
            continue
        indent, name = entry.end(), line[entry.end() :].split()[0]
        above = [(depth, folder) for depth, folder in above if depth < indent]
        yield "/".join([folder for _, folder in above] + [name.rstrip("/")])
        if name.endswith("/"):
            above.append((indent, name.rstrip("/")))
