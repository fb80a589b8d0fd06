"""What the built-ins are called, do and take: for people who look for one, and for programs."""

from __future__ import annotations

import importlib
import inspect
import typing
from dataclasses import dataclass
from typing import Any

from hyperslab.workloads import BUILTINS, words_of


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a built-in, as `--param NAME=VALUE` gives it."""

    name: str
    kind: str
    "What values it takes, in words."
    default: Any
    "What holds where it is left out; None where that depends on the array."
    about: str
    "What it means."


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function, as `hyperslab functions` lists it."""

    name: str
    summary: str
    "What it does, in a sentence."
    parameters: tuple[Parameter, ...]


def described() -> list[Builtin]:
    """All built-ins, in the order in which they are listed everywhere."""
    return [_described(name) for name in BUILTINS]


def _described(name: str) -> Builtin:
    module = importlib.import_module(BUILTINS[name])
    hints = typing.get_type_hints(module.build)
    taken = list(inspect.signature(module.build).parameters.values())[1:]
    parameters = [
        Parameter(one.name, words_of(hints[one.name]), one.default, module.PARAMS[one.name])
        for one in taken
    ]
    return Builtin(name, module.SUMMARY, tuple(parameters))
