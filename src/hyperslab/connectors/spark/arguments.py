"""Arguments that have to be whole numbers."""

from __future__ import annotations

import operator
from typing import Any

from hyperslab.errors import UsageError


def whole(name: str, given: Any, least: int | None = None) -> int:
    """The number, of Python's or NumPy's. Raises UsageError for what is none, or below `least`."""
    try:
        number = None
        if not isinstance(given, bool):
            number = operator.index(given)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        bound = ""
        if least is not None:
            bound = f" of at least {least}"
        raise UsageError(f"{name} is {given!r}; it has to be a whole number{bound}")
    return number
