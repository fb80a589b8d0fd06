"""Values on the command line that are what their parameter takes as they stand.

typer hands every value to pydantic, defaults too, and importing that takes longer than most verbs
do. Most values need no conversion; those that do, and those that are wrong, are left to typer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from typer.core import TyperCommand, TyperGroup

from hyperslab.cli import help_page

_MOST_DIGITS = 9
_Conversion = Callable[[Any, Any], Any]


class _Plain:
    """A command whose parameters take such values without typer's conversion, also those that click
    adds, as --help; and whose help is drawn with few imports.
    """

    def get_params(self: Any, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        left = [one for one in parameters if not isinstance(one.process_value, functools.partial)]
        if left:
            kinds = get_type_hints(self.callback)
            for one in left:
                kind = kinds.get(one.name, bool)
                one.process_value = functools.partial(_value, one, kind, one.process_value)
        return parameters

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        help_page.prepare()
        help_page.give_examples(self.params)
        super().format_help(ctx, formatter)  # type: ignore[misc]


class PlainCommand(_Plain, TyperCommand):
    """One verb."""


class PlainGroup(_Plain, TyperGroup):
    """The command with its verbs."""


def _value(parameter: Any, kind: Any, convert: _Conversion, context: Any, value: Any) -> Any:
    """The value of a parameter, as click's method `process_value` returns it."""
    try:
        plain = _plain(parameter, kind, value)
    except ValueError:
        return convert(context, value)
    if parameter.callback is None:
        return plain
    return parameter.callback(context, parameter, plain)


def _plain(parameter: Any, kind: Any, value: Any) -> Any:
    """A value as it stands. Raises ValueError where it needs typer."""
    several = parameter.multiple or parameter.nargs == -1
    if value is None and not parameter.required:
        return () if several else None
    if several and _is_list_of_text(kind, value) and (value or not parameter.required):
        return list(value)
    if type(value) in _kinds(kind):
        return value
    if int in _kinds(kind) and _is_number(value):
        return int(value)
    raise ValueError(value)


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The types of one value that an annotation names, as `str | None` names two."""
    if get_origin(kind) is list:
        return ()
    return get_args(kind) or (kind,)


def _is_list_of_text(kind: Any, value: Any) -> bool:
    """Whether a value is what an annotation `list[str]` asks for."""
    if get_origin(kind) is not list or get_args(kind) != (str,):
        return False
    return isinstance(value, list | tuple) and all(type(one) is str for one in value)


def _is_number(value: Any) -> bool:
    """Whether a value is a text of few digits."""
    is_text = isinstance(value, str) and len(value) <= _MOST_DIGITS
    return is_text and value.isascii() and value.isdecimal()
