"""Progress that does something in the midst of a run."""

from __future__ import annotations

from collections.abc import Callable

from hyperslab.report.progress import Quiet


class At(Quiet):
    """Progress that does something when so many tasks are done."""

    def __init__(self, tasks: int, deed: Callable[[], object]) -> None:
        self._left = tasks
        self._deed = deed

    def advance(self, nbytes: int) -> None:
        self._left -= 1
        if self._left == 0:
            self._deed()
