"""Signature: what a function takes, and whether that is what it will be given."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any

from hyperslab.errors import UsageError, refused_input, suggest
from hyperslab.plan.function import FunctionRef
from hyperslab.units import show_list

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def require_accepts(
    ref: FunctionRef, function: Any, inputs: Sequence[str], automatic: Collection[str]
) -> None:
    """Raise UsageError unless the function takes a block and what was given by name; `automatic` it
    gets unasked.
    """
    if not callable(function):
        raise UsageError(
            f"FUNCTION '{ref.target}' is of type {type(function).__name__}, neither a function nor"
            " a Fold"
        )
    try:
        taken = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return  # compiled functions may not say what they take: the first block will tell
    if not taken:
        raise UsageError(
            f"FUNCTION '{ref.name}' takes no block; its first parameter must take the block, a"
            " NumPy"
            " array"
        )
    named = {p.name: p.default for p in taken[1:] if p.kind in _NAMED and p.name not in automatic}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in taken)
    known = list(named)
    for name in ref.params:
        if name in automatic or not (name in named or takes_any):
            raise unknown_parameter(name, ref.name, known)
    for name in inputs:
        if name in automatic or not (name in named or takes_any):
            add = "; add it to the function, which gets the input's block by that name"
            raise refused_input(name, _unknown(name, ref.name, known) + add)
        if name in ref.params:
            raise refused_input(name, f" is also given as --param {name}; leave one out")
    missing = named.keys() - {*ref.params, *inputs}
    for name in (
        name for name in named if name in missing and named[name] is inspect.Parameter.empty
    ):
        raise UsageError(
            f"FUNCTION '{ref.name}' needs '{name}': give --param {name}=VALUE, or --with"
            f" {name}=SOURCE for an array"
        )


def named_parameters(function: Any) -> list[str]:
    """Names of what a function takes by name; [] where it does not say."""
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter.name for parameter in taken if parameter.kind in _NAMED]


def unknown_parameter(name: str, function: str, known: Sequence[str]) -> UsageError:
    """The error for a parameter that a function does not have; names those that it has."""
    return UsageError(f"--param {name}{_unknown(name, function, known)}")


def _unknown(name: str, function: str, known: Sequence[str]) -> str:
    return (
        f": '{function}' has no parameter '{name}'{suggest(name, known)}; it has"
        f" {show_list(known) or 'none'}"
    )
