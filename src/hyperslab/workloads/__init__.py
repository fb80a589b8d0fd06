"""The built-in functions: what `hyperslab run NAME` adds to a pipeline.

Each is a module with `build(pipeline, **params)`, which adds maps or a reduction and never a write,
a line SUMMARY, PARAMS, which describes its parameters, INPUTS, the names of further inputs that it
takes, if any, and VERSION, which is raised when its
results change. They are imported at first use.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.errors import UsageError, suggest
from hyperslab.plan.definitions import unnamed
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.signature import unknown_parameter

BUILTINS: Mapping[str, str] = {
    "increment": "hyperslab.workloads.increment",
    "histogram": "hyperslab.workloads.histogram",
    "histogram-python": "hyperslab.workloads.histogram_python",
    "stats": "hyperslab.workloads.stats",
    "smooth": "hyperslab.workloads.smooth",
    "downsample": "hyperslab.workloads.downsample",
}
"Name of every built-in and the module that holds it."

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a word"}
_PLURALS = {int: "integers", float: "numbers"}


def build(name: str, pipeline: Pipeline, params: Mapping[str, Any]) -> Pipeline:
    """The pipeline with a built-in at its end. Raises UsageError for a wrong name, parameter, type
    or input.
    """
    if name not in BUILTINS:
        raise unknown_builtin(name)
    module = importlib.import_module(BUILTINS[name])
    _require_known_inputs(name, pipeline, getattr(module, "INPUTS", ()))
    hints = typing.get_type_hints(module.build)
    known = list(inspect.signature(module.build).parameters)[1:]
    for param, value in params.items():
        if param not in known:
            raise unknown_parameter(param, name, known)
        if not _fits(value, hints[param]):
            unit = getattr(module, "UNITS", {}).get(param, "")
            advice = _with_unit(value, unit) or f"give {words_of(hints[param])}"
            raise UsageError(f"--param {param}={_shown(value)}: {advice}: {module.PARAMS[param]}")
    built: Pipeline = module.build(pipeline, **params)
    return built


def _with_unit(value: Any, unit: str) -> str:
    """Advice to give bare numbers with their unit; '' for what are none, or have no unit."""
    numbers = value if isinstance(value, tuple) else (value,)
    are_bare = all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
    if not unit or not are_bare:
        return ""
    return f"the unit is missing; give {','.join(f'{one:g}{unit}' for one in numbers)}"


def _require_known_inputs(name: str, pipeline: Pipeline, known: Sequence[str]) -> None:
    unknown = [given for given in list(pipeline.inputs)[1:] if given not in known]
    if not unknown:
        return
    beside = ""
    if known:
        beside = " beside " + " and ".join(known)
    raise UsageError(
        f"the built-in '{name}' takes one input{beside}; leave out {', '.join(unknown)}"
    )


def parse_params(texts: Sequence[str]) -> dict[str, Any]:
    """['sigma=1.5', 'factor=2,2,1'] as {'sigma': 1.5, 'factor': (2, 2, 1)}. Raises UsageError.

    Values are integers, numbers, true or false, or several of them joined by commas; anything else
    is text.
    """
    params: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--param {text}: write it as name=value")
        if name in params:
            raise UsageError(f"--param {name} is given twice")
        params[name] = _parse(value)
    return params


def _parse(text: str) -> Any:
    if "," in text:
        parts = [_parse_one(part) for part in text.split(",") if part]
        if any(isinstance(part, str) for part in parts):
            return text
        return tuple(parts)
    return _parse_one(text)


def _parse_one(text: str) -> int | float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; an integer is a number, true and false are
    neither.
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, choice) for choice in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = args
        if args[-1] is Ellipsis:
            each = args[:1] * len(value)
        return len(each) == len(value) and all(map(_fits, value, each))
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, hint)


def words_of(hint: Any) -> str:
    """An annotated type in words."""
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(words_of(choice) for choice in args if choice is not types.NoneType)
    if origin is tuple:
        many = ""
        if args[-1] is not Ellipsis:
            many = f"{len(args)} "
        return f"{many}{_PLURALS[args[0]]} joined by commas"
    return _WORDS[hint]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def unknown_builtin(name: str) -> UsageError:
    """The error for a function that is not there; names those that are."""
    path = Path(name if name.endswith(".py") else f"{name}.py")
    if path.is_file():
        return UsageError(unnamed(name, path))
    return UsageError(
        f"FUNCTION '{name}': there is no such built-in{suggest(name, BUILTINS)}; choose one of"
        f" {', '.join(BUILTINS)}, or name your own as module:function or file.py:function"
    )
