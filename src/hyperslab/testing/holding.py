"""Holding: executions of `counted` that wait, so that a run is under way for as long as a test
takes to meet it, whatever else its machine does.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BEGUN = "begun"
"File with a byte for each execution that has begun."
HOLD = "hold"
"File that says how many executions go on: others wait while it is there."
FREE = 8
ALLOWED_S = 0.4
"Time between two executions that go on although they are held."


def await_leave(runs: Path) -> None:
    """Begin an execution, which waits while fewer may go on than have begun."""
    with (runs / BEGUN).open("ab", buffering=0) as file:
        file.write(b".")
        own = file.tell()
    while own > _allowed(runs):
        time.sleep(0.01)


def _allowed(runs: Path) -> float:
    """How many executions go on."""
    try:
        said = (runs / HOLD).read_text()
    except FileNotFoundError:
        return math.inf
    return int(said or 0)  # it may be written at this moment


def begun(runs: Path) -> int:
    """How many executions have begun."""
    path = runs / BEGUN
    return path.stat().st_size if path.exists() else 0


def hold(runs: Path, free: int = FREE) -> int:
    """Have executions wait, but for so many more; how many will have gone on."""
    allowed = begun(runs) + free
    (runs / HOLD).write_text(str(allowed))
    return allowed


def let_go(runs: Path) -> None:
    """Hold no execution any more."""
    (runs / HOLD).unlink(missing_ok=True)


class Allowing:
    """Lets executions go on that are held, one at a time: a slot may record what it has done with
    its next task, and not at once.
    """

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._due_s = time.monotonic() + ALLOWED_S

    def one_more(self) -> None:
        """Let one go on, where one waits and the last one has had its time."""
        now_s = time.monotonic()
        allowed = _allowed(self._runs)
        if now_s >= self._due_s and begun(self._runs) > allowed:
            self._due_s = now_s + ALLOWED_S
            (self._runs / HOLD).write_text(f"{allowed + 1:.0f}")


@contextmanager
def held(runs: Path, free: int = FREE) -> Iterator[None]:
    """So many executions go on at once within the block, and others slowly."""
    is_over = threading.Event()

    def allow() -> None:
        allowing = Allowing(runs)
        while not is_over.wait(ALLOWED_S / 4):
            allowing.one_more()

    hold(runs, free)
    thread = threading.Thread(target=allow)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        let_go(runs)
