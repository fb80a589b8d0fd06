"""No module outside `engines/` asks for the name of an engine: whoever needs to know how one
differs asks its facts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.engines.facts import ENGINES

PACKAGE = Path(__file__).parents[2] / "src" / "hyperslab"
NAMES = {*ENGINES, "dask", "dask-"}
AMBIGUOUS = {"threads"}
"Names that are words of their own, such as keys of a record."
QUOTED = re.compile(f"([\"'])({'|'.join(map(re.escape, NAMES))})\\1")
"What a text has to hold before it is worth the while to parse it."
BEGIN_OR_END = {"startswith", "endswith", "removeprefix", "removesuffix"}


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that something is compared with, or looked up by."""
    for node in ast.walk(tree):
        for found in _asked(node):
            for inner in ast.walk(found):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value


def _asked(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.MatchValue):
        return [node.value]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None and _is_certain(key)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return list(node.args) if node.func.attr in BEGIN_OR_END else []
    return []


def _is_certain(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value not in AMBIGUOUS


def names_in(text: str) -> list[str]:
    """Names of engines that a source compares with something, with their lines."""
    return [f"{line}: {found}" for line, found in compared(ast.parse(text)) if found in NAMES]


@pytest.mark.parametrize(
    "text",
    [
        'engine == "spark"',
        'name in ("serial", "threads")',
        'name.startswith("dask")',
        '{"processes": 1}[name]',
        'match name:\n    case "dask-bag":\n        pass',
    ],
)
def test_a_comparison_is_found(text: str) -> None:
    assert names_in(text)


@pytest.mark.parametrize("text", ['run(engine="serial")', '{"threads": 1}', 'x = "spark"'])
def test_other_words_are_left_alone(text: str) -> None:
    assert not names_in(text)


def test_no_module_outside_engines_compares_the_name_of_an_engine() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "engines" not in path.parents]
    assert len(outside) > 200
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in outside}
    found = {path: names_in(text) for path, text in texts.items() if QUOTED.search(text)}
    assert {path: lines for path, lines in found.items() if lines} == {}
