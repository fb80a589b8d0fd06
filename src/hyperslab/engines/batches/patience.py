"""Patience: how long to wait for a library's answer, and for somebody who could run anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

ALONE_LIMIT_S = 30.0
"""How long a cluster may be without workers before the run is stopped: one that has died takes
some seconds to be started again.
"""


class Call:
    """An action of an engine's library in a thread of its own, which can be given up."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        threading.Thread(target=self._run, args=(action,), daemon=True).start()

    def _run(self, action: Callable[[], Any]) -> None:
        try:
            self.result = action()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits
            self.error = error
        finally:
            self.ended.set()


def within(limit_s: float, action: Callable[[], Any]) -> Any:
    """The action's result. Raises TimeoutError when it takes longer, and what the action raises."""
    call = Call(action)
    if not call.ended.wait(limit_s):
        raise TimeoutError(f"no answer within {limit_s:.0f} s")
    if call.error is not None:
        raise call.error
    return call.result


class Solitude:
    """How long nobody has been there who could run anything."""

    def __init__(self) -> None:
        self._met_at = time.monotonic()

    def is_too_long(self, is_anybody_there: bool) -> bool:
        """Note whether somebody is there; True when nobody has been for too long."""
        now = time.monotonic()
        if is_anybody_there:
            self._met_at = now
        return now - self._met_at > ALONE_LIMIT_S
