"""Killed: the kernel has killed something for want of memory while a command ran.

That may be a process of the command, which waits for it without end, as pools of Python's do: the
command is not ended for that, as it may be somebody else's, but it is told.

Held by tests/apps/commands/test_killed.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hyperslab.machine import shortage
from hyperslab.plan.command import PRIVATE

PATIENCE_S = 10.0
"How long a command may go on before it is told."
_WORD = "killed."
"What begins the names of the files by which slots leave word, beside the private folders."
_LOOK_S = 2.0
"How often the driver looks whether there is such a word."


class Watch:
    """What is looked at while a command runs."""

    def __init__(self, submission: str, label: str, number: int, log: Path) -> None:
        """`number` is that of the task, and `log` where the command prints."""
        self._word = Path(submission, PRIVATE, f"{_WORD}{number}")
        self._label = label
        self._log = log
        self._before = shortage.killed()
        self._seen_s: float | None = None
        self._is_told = False

    @property
    def is_short(self) -> bool:
        """Whether something was killed on this machine since the command began."""
        return shortage.killed() > self._before

    def look(self) -> None:
        """Leave word of a command that goes on."""
        now_s = time.monotonic()
        if self._is_told:
            return
        if self._seen_s is None and self.is_short:
            self._seen_s = now_s
        if self._seen_s is not None and now_s - self._seen_s >= PATIENCE_S:
            self._is_told = True
            self._tell()

    def _tell(self) -> None:
        text = (
            f"{self._label} goes on, though the kernel has killed a process of its machine for want"
            " of memory, which it may wait for without end"
        )
        with suppress(OSError):  # of a run that has ended
            with self._log.open("a", encoding="utf-8", errors="replace") as log:
                log.write(f"\nhyperslab: {text}\n")
            self._word.write_text(text, encoding="utf-8", errors="replace")


class Told:
    """What the driver has said of such commands, once of each."""

    def __init__(self, submission: Path, tell: Callable[[str], None]) -> None:
        self._folder = submission / PRIVATE
        self._tell = tell
        self._known: set[str] = set()
        self._looked_s = 0.0

    def look(self) -> None:
        """Say what slots have left word of since."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        for name, text in self._words():
            if text and name not in self._known:
                self._known.add(name)
                self._tell(
                    f"memory     {text}: if so, stop the run, and go on with --resume and fewer"
                    " --workers, or with --task-timeout"
                )

    def _words(self) -> Iterator[tuple[str, str]]:
        """What there is to be read now: what cannot be read is looked at again later, as a run does
        not end for want of it.
        """
        found: list[Path] = []
        with suppress(OSError):
            found = sorted(self._folder.glob(f"{_WORD}*"))
        for word in found:
            with suppress(OSError):
                yield word.name, word.read_text(encoding="utf-8", errors="replace")
