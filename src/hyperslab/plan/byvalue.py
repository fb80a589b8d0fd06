"""Pickles of functions, as those of a notebook travel, with the names of the files, or cells, that
their lines are in.

cloudpickle leaves these names out from version 3.1.2 on, so that a function is the same bytes
wherever it was defined; its failures would name no line that anybody knows.
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle


def pickled_with_places(what: Any) -> bytes:
    """A pickle of an object that needs this package to be loaded. Raises what pickling raises."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(what)
    return buffer.getvalue()


def _reduced(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _made, (make, parts, code.co_filename)


def _made(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    return make(*parts).replace(co_filename=file)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[ChainMap[Any, Any]] = ChainMap(
        {CodeType: _reduced}, cloudpickle.Pickler.dispatch_table
    )
