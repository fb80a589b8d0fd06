"""The system calls that reading and writing make."""

from __future__ import annotations

import os
from typing import Any

import pytest


class Calls:
    """Counts system calls, and makes reads and writes as short as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.most = 0
        for name in ("open", "fstat", "preadv", "pwritev", "pread", "pwrite", "read", "write"):
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, plain: Any) -> Any:
        def call(*args: Any) -> Any:
            self.made.append(name)
            if name not in ("preadv", "pwritev"):
                return plain(*args)
            fd, buffers, offset = args
            return plain(fd, [buffers[0][: self.most]] if self.most else buffers, offset)

        return call
