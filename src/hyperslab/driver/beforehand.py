"""Beforehand: what may be done for the end of a run while its tasks run.

Held by tests/driver/test_beforehand.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any


def begun(parts: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    """What comes of each part, one after the other, in a thread for which no process stays."""
    made: list[Future[Any]] = [Future() for _ in parts]
    Thread(target=_do, args=(parts, made), name="beforehand", daemon=True).start()
    return made


def _do(parts: Sequence[Callable[[], Any]], made: Sequence[Future[Any]]) -> None:
    for part, future in zip(parts, made, strict=True):
        try:
            result = part()
        except BaseException as error:  # noqa: BLE001  # handed to whoever asks for the result
            future.set_exception(error)
        else:
            future.set_result(result)


def found(future: Future[Any] | None) -> Any:
    """What has come of a part by now; None where there is nothing, or it has failed."""
    if future is None or not future.done() or future.exception() is not None:
        return None
    return future.result()
