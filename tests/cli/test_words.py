"""Words that readers have stumbled over do not come back into messages and helps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "hyperslab"
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
