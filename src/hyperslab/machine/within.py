"""Time limits for what may wait for storage that does not answer.

A thread that waits for storage cannot be interrupted. It is left behind, and ends with its process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import TypeVar

Found = TypeVar("Found")


def within(limit_s: float, do: Callable[[], Found]) -> Found:
    """What a function returns, or raises, in so many seconds. Raises TimeoutError, which is an
    OSError.
    """
    ended: Queue[Found | _Raised] = Queue()
    threading.Thread(target=_do, args=(do, ended), daemon=True).start()
    try:
        found = ended.get(timeout=limit_s)
    except Empty:
        raise TimeoutError(f"nothing has answered for {limit_s:g} s") from None
    if isinstance(found, _Raised):
        raise found.error
    return found


class _Raised:
    """What a function has raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _do(do: Callable[[], Found], ended: Queue[Found | _Raised]) -> None:
    try:
        ended.put(do())
    except Exception as error:  # noqa: BLE001  # told to whoever waits
        ended.put(_Raised(error))
