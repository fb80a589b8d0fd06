"""Definitions: what a source file defines that could be FUNCTION, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

from hyperslab.machine.forklock import ForkLock

MOST_LISTED = 8
"Names that a message lists."
MOST_NBYTES = 1_000_000
"Larger files are not parsed for a message."

_PARSING = ForkLock()
_MAKES_NAMES = frozenset({"*", "__getattr__", "exec", "globals", "locals", "setattr", "vars"})
"Names in a file that may have others than it says."


def parsed(path: Path) -> ast.Module:
    """The syntax of a source file. Raises OSError, SyntaxError and ValueError.

    One thread at a time: CPython 3.11 counts the depth of what it makes for all threads together,
    and raises SystemError where they differ.
    """
    source = path.read_bytes()
    with _PARSING:
        return ast.parse(source)


def defined_in(path: Path) -> list[str]:
    """Names of the public functions and folds at the top of a source file, in its order; none of
    a file that cannot be read or parsed.
    """
    try:
        if path.stat().st_size > MOST_NBYTES:
            return []
        body = parsed(path).body
    except (OSError, SyntaxError, ValueError):
        return []
    names = [name for node in body for name in _names(node)]
    return [name for name in names if not name.startswith("_")]


def bound_in(path: Path) -> set[str] | None:
    """Names to which a source file gives a meaning, anywhere in it; None of one that may make names
    as it runs. Raises OSError, SyntaxError and ValueError.
    """
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        found.update(_bound_by(node))
    if found & _MAKES_NAMES:
        return None
    return found


def unnamed(text: str, path: Path) -> str:
    """What to say where a source file is given without the name of a function in it."""
    names = defined_in(path)
    if not names:
        return f"FUNCTION '{text}': name a function in the file, as in {path}:function"
    return f"FUNCTION '{text}': name its function, for example {path}:{names[0]}{_rest(names)}"


def listed(names: Collection[str]) -> str:
    """The names for a message, of many the first ones."""
    shown = ", ".join(list(names)[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        shown += ", ..."
    return shown


def _rest(names: list[str]) -> str:
    if len(names) == 1:
        return ""
    return f"; the file defines {listed(names)}"


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines: a function, or what is called to make a fold."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        is_fold = ast.unparse(node.value.func).endswith("Fold")
        return [target.id for target in node.targets if isinstance(target, ast.Name) and is_fold]
    return []


def _bound_by(node: ast.AST) -> Collection[str]:
    """Names that a part of a file gives a meaning, or that may make others."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.alias():
            return [(node.asname or node.name).partition(".")[0]]
        case ast.Name() if isinstance(node.ctx, ast.Store) or node.id in _MAKES_NAMES:
            return [node.id]
    return []
