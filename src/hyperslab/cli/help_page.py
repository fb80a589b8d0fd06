"""Help as typer draws it, without what it imports for texts in Markdown and for tracebacks, neither
of which are in a help: a third of the time that a help takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

DRAWS = "typer.rich_utils"
"Module that draws a help."
LEFT_OUT = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
"Modules that it imports for a class each."


def prepare() -> None:
    """Import what draws a help, if nobody has."""
    if DRAWS in sys.modules:
        return
    with _left_out():
        import_module(DRAWS)


@contextmanager
def _left_out() -> Iterator[None]:
    """A block in which modules have others in their place, unless they are there already."""
    others = {name: _other(name, LEFT_OUT[name]) for name in LEFT_OUT.keys() - sys.modules.keys()}
    sys.modules.update(others)
    try:
        yield
    finally:
        for name in others:
            del sys.modules[name]


def _other(name: str, kind: str) -> ModuleType:
    """A module with a class of this name, which makes objects of the real one."""

    class Later:
        def __new__(cls, *given: Any, **more: Any) -> Any:
            return getattr(import_module(name), kind)(*given, **more)

        @classmethod
        def from_exception(cls, *given: Any, **more: Any) -> Any:
            return getattr(import_module(name), kind).from_exception(*given, **more)

    module = ModuleType(name)
    setattr(module, kind, Later)
    return module
