"""Counter: the number of the next portion, which every rank draws by itself.

It lies in the memory of rank 0 and is drawn from by a one-sided fetch-and-add, so that no rank has
to answer another one's request in the middle of a task (docs/design/0019-mpi.md).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

_WORD = np.dtype(np.int64)


class Counter:
    """A number that all ranks of a communicator share. Making and closing it is collective."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        own_nbytes = 0
        if comm.rank == 0:
            own_nbytes = _WORD.itemsize
        self._window = MPI.Win.Allocate(own_nbytes, _WORD.itemsize, comm=comm)
        self._window.Lock_all()
        self._add = MPI.SUM
        self._replace = MPI.REPLACE
        self._given = np.zeros(1, _WORD)
        self._found = np.zeros(1, _WORD)
        self._drawing = threading.Lock()

    def draw(self) -> int:
        """The number as it is, which is one more from then on."""
        return self._exchange(1, self._add)

    def set(self, number: int) -> None:
        """Let others draw this number next."""
        self._exchange(number, self._replace)

    def close(self) -> None:
        self._window.Unlock_all()
        self._window.Free()

    def _exchange(self, number: int, operation: Any) -> int:
        with self._drawing:
            self._given[0] = number
            self._window.Fetch_and_op(self._given, self._found, 0, 0, operation)
            self._window.Flush(0)
            return int(self._found[0])
