"""No module outside `engines/` asks for the name of an engine: whoever needs to know how one
differs asks its facts. Nor does one list engines, but what papers state of some.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.engines.facts import ENGINES
from tests.compared import sides

PACKAGE = Path(__file__).parents[2] / "src" / "hyperslab"
NAMES = {*ENGINES, "dask", "dask-"}
AMBIGUOUS = {"threads"}
"Names that are words of their own, such as keys of a record."
CLAIMS = PACKAGE / "apps" / "experiment" / "claims"
"Modules that say what papers state of engines by their names."
QUOTED = re.compile(f"([\"'])({'|'.join(map(re.escape, NAMES))})\\1")
"What a text has to hold before it is worth the while to parse it."


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that something is compared with, or looked up by."""
    for node in ast.walk(tree):
        for found in _asked(node):
            for inner in ast.walk(found):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value


def _asked(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None and _is_certain(key)]
    return sides(node)


def _is_certain(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value not in AMBIGUOUS


def listed(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string in a collection of nothing else."""
    for node in ast.walk(tree):
        entries = _entries(node)
        if all(map(_is_text, entries)):
            yield from ((one.lineno, ast.literal_eval(one)) for one in entries if _is_certain(one))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _entries(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return node.elts
    if isinstance(node, ast.Dict):
        return node.values
    return []


def names_in(text: str, lists_some: bool = False) -> list[str]:
    """Names of engines that a source compares with something, or lists where it is not expected to,
    with their lines.
    """
    tree = ast.parse(text)
    found = [*compared(tree)]
    if not lists_some:
        found += listed(tree)
    return [f"{line}: {name}" for line, name in found if name in NAMES]


@pytest.mark.parametrize(
    "text",
    [
        'engine == "spark"',
        'name in ("serial", "threads")',
        'name.startswith("dask")',
        '{"processes": 1}[name]',
        'match name:\n    case "dask-bag":\n        pass',
        'ABLE = {"mpi", "world"}',
        'ABLE = frozenset({"serial"} | {"processes"})',
        'ABLE = ("spark", "slurm")',
        'ABLE = ["dask", "distributed"]',
        'ABLE = {"light": "processes"}',
    ],
)
def test_a_comparison_is_found(text: str) -> None:
    assert names_in(text)


@pytest.mark.parametrize(
    "text",
    [
        'run(engine="serial")',
        '{"threads": 1}',
        'x = "spark"',
        'slots = ("workers", "threads")',
        'limits.append((1, "slurm"))',
    ],
)
def test_other_words_are_left_alone(text: str) -> None:
    assert not names_in(text)


def test_no_module_outside_engines_knows_the_name_of_an_engine() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "engines" not in path.parents]
    assert len(outside) > 200
    texts = {path: path.read_text() for path in outside}
    named = {path: text for path, text in texts.items() if QUOTED.search(text)}
    found = {path: names_in(text, CLAIMS in path.parents) for path, text in named.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}
