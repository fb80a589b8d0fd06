"""Companions: processes that run the same command because the user has started them together.

One of them is the driver; the others work for it, before they look at any source, and end with its
exit status.
"""

from __future__ import annotations

from collections.abc import Callable

_dismissals: list[Callable[[int], None]] = []


def join(engine: str, connect: str) -> None:
    """Work for the driver, if this process is not the driver itself; it does not return then."""
    if not connect:
        return
    from hyperslab import engines

    dismissal = engines.join(engine, connect)
    if dismissal is not None:
        _dismissals.append(dismissal)


def dismiss(status: int) -> None:
    """Let the others end with this exit status."""
    while _dismissals:
        _dismissals.pop()(status)
