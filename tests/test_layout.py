"""The shape of the code: sizes, names, what an import loads."""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib import metadata
from pathlib import Path

import pytest

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
    "network",
    "report",
    "plan",
    "blocks",
    "formats",
    "arrays",
    "storage",
    "machine",
}
LEAVES = {
    "__init__",
    "accesses",
    "accessor",
    "columns",
    "errors",
    "markup",
    "native",
    "parquet",
    "pickling",
    "redaction",
    "trace",
    "traffic",
    "units",
}
"The modules at the root: they import nothing of the package but leaves below them."

HEADLESS = re.compile(
    "(Are|As|At|Before|Below|Beside|Between|By|For|From|Has|In|Instead|Into|Is|Its|Of|On|Over|Per"
    r"|That|Those|Through|Until|Was|Were|What of|Which|With|Within|Without)\b"
)
"""First words of texts without a head of their own: 'Size of one request, bytes', not 'Of one
request', 'What one request takes', not 'What of ...', 'Function that is told', not 'Is told'.
"""

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = [
    *SOURCES,
    *(f for folder in ("tests", "benchmarks", "examples") for f in (ROOT / folder).rglob("*.py")),
]


@pytest.fixture(autouse=True, scope="module")
def _trees() -> Iterator[None]:
    """While the trees of all files are kept, no garbage is sought among their nodes."""
    gc.disable()
    yield
    _code.cache_clear()
    _tree.cache_clear()
    gc.enable()


def test_the_package_is_found() -> None:
    assert PACKAGE / "__init__.py" in SOURCES
    assert (PACKAGE / "py.typed").is_file()


def test_files_keep_to_their_size() -> None:
    files = [path for path in PYTHON_FILES if not path.match(TABLES)]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    too_long = {path: n for path, n in lengths.items() if n > LINES_OF_A_FILE}
    assert too_long == {}


def test_functions_keep_to_their_size() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in SOURCES
        for name, lines in _code(path).functions.items()
        if lines > LINES_OF_A_FUNCTION
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
    sizes = [lines for path in SOURCES for lines in _code(path).functions.values()]
    assert sum(n < 25 for n in sizes) >= 0.9 * len(sizes)


def test_files_are_named_for_things() -> None:
    assert [p for p in PYTHON_FILES if FORBIDDEN_NAMES & {p.stem, p.parent.name}] == []


def test_docstrings_begin_with_a_verb_or_a_noun_of_their_own() -> None:
    headless = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in SOURCES
        for line, text in _code(path).texts
        if HEADLESS.match(text)
    ]
    assert headless == []


@pytest.mark.parametrize(
    ("text", "is_headless"),
    [
        ("Of one request.", True),
        ("What of an axis lies before the part.", True),
        ("Is told of a finished file.", True),
        ("What an axis has before the part.", False),
        ("Function that is told of a finished file.", False),
        ("Issues a request.", False),
    ],
)
def test_a_text_without_a_head_is_seen(text: str, is_headless: bool) -> None:
    assert bool(HEADLESS.match(text)) is is_headless


def test_a_text_of_the_code_is_a_docstring_or_stands_under_its_field() -> None:
    code = ast.parse(
        '"""Sizes."""\nSIZE = 1\n"Of one."\nclass A:\n    b: int\n    "In bytes."\n'
        'def f():\n    """At once."""\n'
    )
    assert sorted(_texts(ast.walk(code))) == [
        (1, "Sizes."),
        (3, "Of one."),
        (6, "In bytes."),
        (8, "At once."),
    ]


def test_a_statement_has_one_conditional_expression_at_most() -> None:
    crowded = [f"{path}:{line}" for path in SOURCES for line in _code(path).crowded]
    assert crowded == []


def test_a_statement_gives_one_thing_its_name() -> None:
    packed = [f"{path}:{line}" for path in SOURCES for line in _code(path).packed]
    assert packed == []


@pytest.mark.parametrize(
    ("text", "is_crowded"),
    [
        ("a = b if c else d", False),
        ("a = b if c else (d if e else f)", True),
        ("g(b if c else d, e if f else h)", True),
        ("if a:\n    b = c if d else e\n    f = g if h else i", False),
    ],
)
def test_conditional_expressions_are_counted_by_statement(text: str, is_crowded: bool) -> None:
    assert _is_crowded(ast.parse(text).body[0]) is is_crowded


@pytest.mark.parametrize(
    ("text", "is_packed"),
    [
        ("a, b = 1, 2", False),
        ("a, b = c.d, e[0]", False),
        ("a, b = [], []", False),
        ("a, b = f(c)", False),
        ("a, b = b, a + b", False),
        ("a, b = 0, c", True),
        ("a, b = f(c), d", True),
        ("a, b = c + d, e", True),
        ("a, b = a + c, b[c:]", True),
        ("a, b = (\n    c,\n    d,\n)", True),
    ],
)
def test_values_are_packed_when_they_could_be_named_one_by_one(text: str, is_packed: bool) -> None:
    assert _is_packed(ast.parse(text).body[0]) is is_packed


def test_every_module_can_be_imported_first() -> None:
    """Imports that run with their module make no circle; one that does fails in some order."""
    modules = {module_name(path): path for path in SOURCES}
    graph = {name: _run_first(name, path, modules) for name, path in modules.items()}
    circle: Sequence[str] = ()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        circle = found.args[1]
    assert circle == (), "each is imported by the next"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def _run_first(name: str, path: Path, modules: Collection[str]) -> set[str]:
    """The modules that have to have run before one can: those that it imports at its top level,
    and the packages that these are in and it is not.
    """
    needed = set()
    for imported in _imported_at_once(_tree(path).body, modules):
        needed.add(imported)
        packages = itertools.accumulate(imported.split("."), "{}.{}".format)
        needed |= {one for one in packages if not f"{name}.".startswith(f"{one}.")}
    return needed & set(modules) - {name}


def _imported_at_once(body: Sequence[ast.stmt], modules: Collection[str]) -> Iterator[str]:
    """What statements import as they stand, not in functions; a name of a module, or the module
    that a name is taken from.
    """
    for node in body:
        match node:
            case ast.Import(names):
                yield from (one.name for one in names)
            case ast.ImportFrom(str(module), names):
                places = (f"{module}.{one.name}" for one in names)
                yield from (place if place in modules else module for place in places)
            case ast.If(ast.Name("TYPE_CHECKING"), _, orelse):
                yield from _imported_at_once(orelse, modules)
            case ast.If(_, first, orelse) | ast.Try(first, _, orelse):
                yield from _imported_at_once([*first, *orelse], modules)


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import json, sys, hyperslab; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    loaded = {name.partition(".")[0] for name in json.loads(out)}
    heavy = {
        *("nibabel", "h5py", "zarr", "bokeh", "pyarrow", "scipy"),
        *("typer", "rich", "fsspec", "aiohttp", "xarray"),
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


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Code:
    """What tests ask of a file's code, which is parsed once for all of them."""

    functions: dict[str, int]
    "Lines of each function, by its name and line."
    texts: list[tuple[int, str]]
    crowded: list[int]
    "Lines of statements with several conditional expressions."
    packed: list[int]
    "Lines of statements that give several things their names."


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def _code(path: Path) -> Code:
    nodes = list(ast.walk(_tree(path)))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    has_several = sum(isinstance(node, ast.IfExp) for node in nodes) > 1
    return Code(
        {f"{one.lineno}: {one.name}": _lines(one) for one in nodes if isinstance(one, Function)},
        list(_texts(nodes)),
        [one.lineno for one in statements if has_several and _is_crowded(one)],
        [one.lineno for one in statements if _is_packed(one)],
    )


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, and of every string that stands under a field."""
    for node in nodes:
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield node.lineno, text


def _is_crowded(statement: ast.stmt) -> bool:
    """Whether it holds more than one conditional expression, aside from statements inside it."""
    inside = list(ast.iter_child_nodes(statement))
    conditionals = 0
    while inside:
        node = inside.pop()
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        conditionals += isinstance(node, ast.IfExp)
        inside += ast.iter_child_nodes(node)
    return conditionals > 1


def _is_packed(statement: ast.stmt) -> bool:
    """Whether it gives several names values of their own that could be given one after the other.

    On one line it may list constants, or places that hold values, or give all the same; and two
    names may change places.
    """
    match statement:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            if _is_exchange(targets, values):
                return False
            is_one_line = statement.lineno == statement.end_lineno
            return not is_one_line or not _is_listing(values)
    return False


def _is_exchange(targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> bool:
    """Whether a value reads what would be overwritten before it."""
    for number, target in enumerate(targets):
        read = {ast.unparse(node) for value in values[number + 1 :] for node in ast.walk(value)}
        if ast.unparse(target) in read:
            return True
    return False


def _is_listing(values: Sequence[ast.expr]) -> bool:
    are_equal = len({ast.unparse(value) for value in values}) == 1
    return are_equal or all(map(_is_constant, values)) or all(map(_is_place, values))


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant | ast.UnaryOp)


def _is_place(value: ast.expr) -> bool:
    """Whether it reads something by its name, and computes nothing."""
    computing = (ast.Call, ast.BinOp, ast.IfExp)
    is_named = isinstance(value, ast.Name | ast.Attribute | ast.Subscript)
    return is_named and not any(isinstance(node, computing) for node in ast.walk(value))


def _defined(path: Path) -> set[str]:
    """Names of the functions and classes that a file defines for others."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in _tree(path).body if isinstance(node, kinds)}


def _modules(folder: Path) -> set[str]:
    names = {path.stem for path in folder.glob("*.py")}
    return names | {path.parent.name for path in folder.glob("*/__init__.py")}


def _lines(function: Function) -> int:
    """Lines of the body: a command's signature is its table of flags, not code."""
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1


BROUGHT_BY = {"distributed": "dask", "numcodecs": "zarr", "py4j": "pyspark"}
"Distributions that belong to another one, which says which version of theirs fits."
IMPORTING = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
"A line that may be an import, or be part of a text: far sooner found than what is imported."


def _imported(path: Path) -> set[str]:
    """The packages that a file imports, wherever in it it does."""
    found: list[str] = []
    for node in ast.walk(_tree(path)):
        match node:
            case ast.Import(names):
                found += [one.name for one in names]
            case ast.ImportFrom(str(module), level=0):
                found.append(module)
    return {name.split(".")[0] for name in found}


def _provided(distribution: str) -> set[str]:
    """The packages that a distribution brings; none where it is not installed."""
    try:
        files = metadata.distribution(distribution).files or ()
    except metadata.PackageNotFoundError:
        return set()
    return {path.parts[0].partition(".")[0] for path in files if path.suffix in (".py", ".so")}


def test_what_is_imported_is_declared() -> None:
    """An environment that somebody has used may hold more than a new one will."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = itertools.chain(project["dependencies"], *extras)
    declared = {re.split(r"[^\w.-]", want)[0].lower() for want in wanted}
    declared |= {name for name, brought_by in BROUGHT_BY.items() if brought_by in declared}
    ours = {"hyperslab", "pyspark_hyperslab", "tests", "benchmarks", "examples"}
    named = {name.replace("-", "_") for name in declared}  # and may not be installed
    known = ours.union(named, sys.stdlib_module_names, *map(_provided, declared))
    suspicious = [path for path in PYTHON_FILES if set(IMPORTING.findall(path.read_text())) - known]
    found = {path: _imported(path) - known for path in suspicious}
    used = {path: packages for path, packages in found.items() if packages}
    assert used == {}, "these packages are in no requirement of pyproject.toml"
