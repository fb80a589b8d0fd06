"""The table of mutants is about lines and tests that are there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from hyperslab.testing import EngineTests, FormatTests
from tests.mutants.__main__ import broken
from tests.mutants.mutant import CARGO, Mutant
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]
LEAST = 32
ROOMS = (
    "apps",
    "arrays",
    "blocks",
    "cli",
    "connectors",
    "driver",
    "engines",
    "formats",
    "machine",
    "network",
    "plan",
    "report",
    "storage",
    "workloads",
)
MUTANT = Mutant("a is not 1", "a.py", "a = 1", "a = 2", "tests/test_a.py::test_a")


def test_mutants_are_of_every_room() -> None:
    assert len(MUTANTS) >= LEAST
    folders = {tuple(Path(mutant.file).parts[:3]) for mutant in MUTANTS}
    assert {("src", "hyperslab", room) for room in ROOMS} - folders == set()
    assert ("rust", "core", "src") in folders
    assert [what for what, n in Counter(mutant.what for mutant in MUTANTS).items() if n > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mutant_breaks_a_line_that_is_there(mutant: Mutant) -> None:
    sound = (ROOT / mutant.file).read_text()
    text = broken(sound, mutant)
    assert text != sound
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_the_test_of_a_mutant_is_there(mutant: Mutant) -> None:
    if mutant.test.startswith(CARGO):
        assert mutant.test.removeprefix(CARGO) in names_in_the_core()
        return
    file, *names = mutant.test.split("::")
    assert "::".join(names) in names_in(file)


@pytest.mark.parametrize("sound", ["a = 3", "a = 1; b = 1; a = 1"])
def test_a_line_that_is_not_there_once_cannot_be_broken(sound: str) -> None:
    assert broken("a = 1", MUTANT) == "a = 2"
    with pytest.raises(ValueError, match=r"a\.py holds [02] times, not once: a = 1"):
        broken(sound, MUTANT)


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the tests of a file that `make test` plays, those of a class after its own; a class
    with a base has those of our suites.
    """
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and not is_left_out(node):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            if node.bases:
                own |= {*vars(EngineTests), *vars(FormatTests)}
            found |= {f"{node.name}::{name}" for name in own}
    return frozenset(name for name in found if "test_" in name)


def is_left_out(function: ast.FunctionDef) -> bool:
    """Whether a test is a repetition, in all of its cases."""
    return any(ast.unparse(one).startswith("repeats(") for one in function.decorator_list)


@cache
def names_in_the_core() -> frozenset[str]:
    texts = [path.read_text() for path in (ROOT / "rust" / "core").rglob("*.rs")]
    return frozenset(re.findall(r"#\[test\]\s+fn (\w+)\(", "\n".join(texts)))
