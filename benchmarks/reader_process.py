"""A reader in a process of its own, which is asked to read, again and again, and says what that
took.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any, TypeVar


class ReaderProcess:
    """Runs `python -m MODULE ARGUMENTS`, which prints a line of JSON when it is ready and one for
    every order.
    """

    def __init__(self, label: str, module: str, *arguments: object) -> None:
        self.label = label
        command = [sys.executable, "-m", module, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._answer()
        self.wall_s: list[float] = []
        self.cpu_s: list[float] = []

    def ask(self, order: str, *, counts: bool = True) -> dict[str, Any]:
        """Have it read once more and keep the times, if they count; its whole answer."""
        self._pipe(self._process.stdin).write(f"{order}\n")
        self._pipe(self._process.stdin).flush()
        answer = self._answer()
        if counts:
            self.wall_s.append(float(answer["wall_s"]))
            self.cpu_s.append(float(answer["cpu_s"]))
        return answer

    def close(self) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(timeout=60)

    @property
    def cpu(self) -> float:
        """Median of CPU seconds."""
        return statistics.median(self.cpu_s)

    @property
    def wall(self) -> float:
        """Median of wall seconds."""
        return statistics.median(self.wall_s)

    def line(self, nbytes: int) -> str:
        """What it took, for a table; `nbytes` were read each time."""
        best = min(self.wall_s)
        rate = f"best {best:6.3f} s, {nbytes / 1e6 / best:6.0f} MB/s"
        return f"     {self.label:<14} CPU {self.cpu:6.3f} s  wall {self.wall:6.3f} s ({rate})"

    def _answer(self) -> dict[str, Any]:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise SystemExit(f"{self.label}: the reader died with exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


Process = TypeVar("Process", bound=ReaderProcess)


@contextmanager
def closing(readers: Sequence[Process]) -> Iterator[Sequence[Process]]:
    """The readers for the time of a block."""
    with ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.close)
        yield readers
