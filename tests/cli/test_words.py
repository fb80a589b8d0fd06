"""Words that readers have stumbled over do not come back into messages and helps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.engines.facts import ENGINES

PACKAGE = Path(__file__).parents[2] / "src" / "hyperslab"
NAMED = re.compile(r"--(?:engine|connect) ([\w-]+)")
"Words right behind a flag, which Python is told as its value."
CONDEMNED = re.compile(
    r"\b(c[ao]me to nothing|comes to nothing|mend (it|them|the|that|what)\b|beside it\b"
    r"|certain for that|may grow|so that one around|knows by itself|of the values that)"
)


def spoken(text: str) -> Iterator[str]:
    """Texts of a module that somebody may be shown: all but docstrings and those below fields."""
    tree = ast.parse(text)
    unspoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    for node in texts:
        if isinstance(node.value, str) and id(node) not in unspoken:
            yield node.value


def condemned(folder: Path) -> list[str]:
    """Where such words are said, of files that have them anywhere."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if CONDEMNED.search(text):
            found += [f"{path.name}: {said}" for said in spoken(text) if CONDEMNED.search(said)]
    return found


def test_no_message_has_words_that_readers_stumbled_over() -> None:
    assert condemned(PACKAGE) == []


@pytest.mark.parametrize("said", ["'mend it'", "f'{1}: the page lies beside it'"])
def test_such_words_are_found(tmp_path: Path, said: str) -> None:
    (tmp_path / "a.py").write_text(f'"""Docstrings may: beside it."""\nraise OSError({said})\n')
    assert len(condemned(tmp_path)) == 1


def test_what_follows_a_flag_in_a_message_is_an_engine_or_an_address() -> None:
    """The command line's own texts are told to nobody who calls from Python."""
    paths = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "cli" not in path.parents]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    said = {path: " | ".join(spoken(text)) for path, text in texts.items() if NAMED.search(text)}
    found = {
        path.name: set(NAMED.findall(text)) - {*ENGINES, "world"} for path, text in said.items()
    }
    assert len(said) > 10
    assert {name: words for name, words in found.items() if words} == {}
