"""Threads of a command as strace follows them, and what each has done to files.

The first calls of a new process may come before the call that has started it returns. They wait for
that: whoever has started a process has given it its working directory.
"""

from __future__ import annotations

from hyperslab.accesses import Collected
from hyperslab.storage.accounting.calls import STARTS, Calls
from hyperslab.storage.accounting.lines import Call, Ended, Lines


class Threads:
    """All threads of a command."""

    def __init__(self, directory: str) -> None:
        self.lines = Lines()
        self.calls = Calls(directory)
        self.collected = Collected()
        self._waiting: dict[int, list[Call | Ended]] = {}

    def take(self, line: str) -> None:
        """Count what a line tells of."""
        said = self.lines.take(line)
        if said is None:
            return
        thread = said.thread
        if thread in self._waiting:
            self._waiting[thread].append(said)
            if not self._somebody_starts():
                self._let_go(thread)
        elif not self.calls.knows(thread) and self._somebody_starts():
            self._waiting[thread] = [said]
        else:
            self._count(said)

    def finish(self) -> None:
        """Count what still waits: nobody has said who started it."""
        for thread in list(self._waiting):
            self._let_go(thread)

    def _somebody_starts(self) -> bool:
        """Whether some thread is in a call that starts another one."""
        return any(text.startswith(STARTS) for text in self.lines.begun())

    def _let_go(self, thread: int) -> None:
        for said in self._waiting.pop(thread):
            self._count(said)

    def _count(self, said: Call | Ended) -> None:
        thread = said.thread
        if isinstance(said, Ended):
            self.calls.end(thread)
            return
        if not self.calls.knows(thread):
            self.calls.begin(thread)
        for access in self.calls.accesses(said):
            self.collected.add(access)
        if said.name in STARTS and said.result in self._waiting:
            self._let_go(said.result)
