"""What a function was called with, while it does what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def noting(calls: list[tuple[Any, ...]], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which notes its positional arguments before it does anything."""

    def noted(*given: Any) -> Any:
        calls.append(given)
        return function(*given)

    return noted
