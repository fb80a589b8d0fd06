"""What code compares with something, for tests that say who may know names."""

from __future__ import annotations

import ast

BEGIN_OR_END = {"startswith", "endswith", "removeprefix", "removesuffix"}


def sides(node: ast.AST) -> list[ast.expr]:
    """The expressions that a node compares with one another; none of one that compares nothing."""
    match node:
        case ast.Compare(left, _, comparators):
            return [left, *comparators]
        case ast.Match(subject):
            return [subject]
        case ast.MatchValue(value):
            return [value]
        case ast.Call(ast.Attribute(text, method), arguments) if method in BEGIN_OR_END:
            return [text, *arguments]
    return []
