"""The shape of the code: sizes, names, the page that describes the tree, what an import loads."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hyperslab"
FORBIDDEN_NAMES = {"utils", "common", "base", "core", "helpers", "manager"}
LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 500, 60
TABLES = "*_rows.py"
"Files that are tables, which are as long as what they list."
ROOMS = {
    "cli",
    "testing",
    "apps",
    "driver",
    "workloads",
    "engines",
    "connectors",
    "report",
    "plan",
    "blocks",
    "formats",
    "arrays",
    "storage",
    "machine",
}
LEAVES = {"__init__", "errors", "markup", "native", "redaction", "trace", "units"}
"The modules at the root: they import nothing of the package."

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = [
    *SOURCES,
    *(f for folder in ("tests", "benchmarks", "examples") for f in (ROOT / folder).rglob("*.py")),
]


def test_the_package_is_found() -> None:
    assert PACKAGE / "__init__.py" in SOURCES
    assert (PACKAGE / "py.typed").is_file()


def test_files_keep_to_their_size() -> None:
    files = [path for path in PYTHON_FILES if not path.match(TABLES)]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    too_long = {path: n for path, n in lengths.items() if n > LINES_OF_A_FILE}
    assert too_long == {}


def test_functions_keep_to_their_size() -> None:
    functions = [(path, function) for path in SOURCES for function in _functions(path)]
    too_long = [
        f"{path.relative_to(ROOT)}:{function.lineno}: {function.name}"
        for path, function in functions
        if _lines(function) > LINES_OF_A_FUNCTION
    ]
    assert too_long == []


def test_the_root_of_the_package_holds_leaves_alone() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {path.stem for path in PACKAGE.glob("*.py")} == LEAVES
    assert rooms == ROOMS


def test_no_module_has_the_name_of_something_in_its_room() -> None:
    """`import room.name` would take the place of what the room itself calls `name`."""
    taken = [
        f"{room.parent.name}.{name}"
        for room in PACKAGE.rglob("__init__.py")
        for name in _defined(room) & _modules(room.parent)
    ]
    assert taken == []


def test_nine_functions_in_ten_are_short() -> None:
    sizes = [_lines(f) for path in SOURCES for f in _functions(path)]
    assert sum(n < 25 for n in sizes) >= 0.9 * len(sizes)


def test_files_are_named_for_things() -> None:
    assert [p for p in PYTHON_FILES if FORBIDDEN_NAMES & {p.stem, p.parent.name}] == []


def test_the_layout_page_describes_the_tree() -> None:
    described = set(_described((ROOT / "docs" / "layout.md").read_text()))
    modules = {str(p.relative_to(ROOT)) for p in SOURCES if p.name != "__init__.py"} | {
        "src/hyperslab/__init__.py"
    }
    packages = {str(p.parent.relative_to(ROOT)) for p in SOURCES if p.name == "__init__.py"}
    assert {path for path in described if not (ROOT / path).exists()} == set()
    assert (modules | packages) - described == set()


def test_the_layout_page_describes_the_core() -> None:
    described = set(_described((ROOT / "docs" / "layout.md").read_text(), "rust/core/src/"))
    folders = [ROOT / "rust" / "core" / "src", ROOT / "rust" / "python" / "src"]
    files = [path for folder in folders for path in folder.rglob("*.rs")]
    modules = {str(p.relative_to(ROOT)) for p in files if p.stem not in ("lib", "mod")}
    rooms = {str(p.parent.relative_to(ROOT)) for p in files if p.stem in ("lib", "mod")}
    assert modules
    assert described == modules | rooms


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import json, sys, hyperslab; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    loaded = {name.partition(".")[0] for name in json.loads(out)}
    heavy = {
        "nibabel",
        "h5py",
        "zarr",
        "bokeh",
        "pyarrow",
        "scipy",
        "typer",
        "rich",
        "fsspec",
        "aiohttp",
        "xarray",
    }
    assert "hyperslab" in loaded
    assert loaded & (heavy | {"dask", "distributed", "pyspark", "mpi4py"}) == set()


def test_importing_the_package_starts_no_engine() -> None:
    code = (
        "import sys, threading, hyperslab; from multiprocessing import"
        " active_children;print(threading.active_count(), len(active_children()), [m for m in"
        " sys.modules if 'hyperslab.engines.' in m])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "1 0 []"


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _defined(path: Path) -> set[str]:
    """Names of the functions and classes that a file defines for others."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}


def _modules(folder: Path) -> set[str]:
    names = {path.stem for path in folder.glob("*.py")}
    return names | {path.parent.name for path in folder.glob("*/__init__.py")}


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body: a command's signature is its table of flags, not code."""
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1


def _described(page: str, root: str = "src/hyperslab/") -> Iterator[str]:
    """Paths in the page's fenced tree from `root` on: deeper is further right, a folder ends in
    "/".
    """
    tree = re.search(rf"^```\w*\n({root}.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tree, f"docs/layout.md has no fenced block that begins with {root}"
    above: list[tuple[int, str]] = []
    for line in tree[1].splitlines():
        if not (entry := re.match(r"[\s│├└─]*", line)) or not line[entry.end() :]:
            continue
        indent, name = entry.end(), line[entry.end() :].split()[0]
        above = [(depth, folder) for depth, folder in above if depth < indent]
        yield "/".join([folder for _, folder in above] + [name.rstrip("/")])
        if name.endswith("/"):
            above.append((indent, name.rstrip("/")))
