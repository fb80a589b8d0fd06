"""Positions: on which line of a TOML file a field stands.

tomllib says of its errors where they are, and of what it has read nothing. But a statement is whole
on the first line up to which the file can be read with it; so it begins on the line after the one
up to which the file could be read without it. No reader of TOML of our own is needed for that, nor
one that keeps the layout of a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

Path = Sequence[str | int]
"Names of tables and fields from the top of a file, and numbers of elements of its arrays."


def line_of(text: str, path: Path) -> int:
    """Line, from 1 on, on which the statement begins that a field is from; of one that is not
    there, the line of the innermost table that is. `text` is whole TOML.
    """
    there = _part_in(tomllib.loads(text), path)
    if not there:
        return 1
    before = 0
    for last, document in _readable(text):
        if len(_part_in(document, there)) == len(there):
            break
        before = last
    return before + 1


def _readable(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbers of lines up to which a file can be read, and what that holds."""
    lines = text.splitlines(keepends=True)
    for last in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:last]))
        except tomllib.TOMLDecodeError:
            continue
        yield last, document


def _part_in(document: Any, path: Path) -> Path:
    """The beginning of a path that is in a document."""
    for depth, key in enumerate(path):
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return path[:depth]
    return path
