"""Companions: processes that run the same command because the user has started them together.

One of them is the driver; the others work for it, before they look at any source, and end with its
exit status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SPEAKING_S = 1.0
"Time for which rank 0 may speak: an MPI may end all ranks with the first one that fails."
_dismissals: list[Callable[[int], None]] = []


def join(engine: str, connect: str) -> None:
    """Work for the driver, if this process is not the driver itself; it does not return then."""
    if not connect:
        return
    from hyperslab import engines

    dismissal = engines.join(engine, connect)
    if dismissal is not None:
        _dismissals.append(dismissal)


def leave_to_the_first(arguments: Sequence[str]) -> bool:
    """Whether another process tells what is wrong with this command line: rank 0, of ranks that
    were all given it. Gives that the time to do so.
    """
    from hyperslab import engines

    words = {word for argument in arguments for word in argument.split("=")}
    if not engines.is_told_by_another(words):
        return False
    time.sleep(SPEAKING_S)
    return True


def dismiss(status: int) -> None:
    """Let the others end with this exit status."""
    while _dismissals:
        _dismissals.pop()(status)
