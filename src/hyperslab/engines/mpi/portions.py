"""Portions: the tasks of a round in one file, some at a time.

Ranks draw their numbers one after the other. They begin with MOST_TASKS and shrink towards the end
of the round, as guided self-scheduling has it (Polychronopoulos and Kuck, IEEE Transactions on
Computers C-36, 1987): a share of what is left, so that all slots end at about the same time.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from hyperslab.engines.batches.launcher import count_in, packed_together, unpacked
from hyperslab.engines.batches.orders import write_secret
from hyperslab.plan.task import Task

MOST_TASKS = 32
SHARES = 4
"Portions that every slot would have of what is left, if they stayed as large."


def sizes(tasks: int, slots: int) -> Iterator[int]:
    """How many tasks each portion holds."""
    left = tasks
    while left:
        size = min(MOST_TASKS, max(1, left // (SHARES * slots)))
        yield size
        left -= size


def cut(tasks: Sequence[Task], slots: int) -> list[bytes]:
    """The tasks in their order, as pickled portions."""
    ends = list(accumulate(sizes(len(tasks), slots)))
    starts = [0, *ends[:-1]]
    return [pickle.dumps(tuple(tasks[i:j])) for i, j in zip(starts, ends, strict=True)]


def place_of(orders: str) -> Path:
    """The file that lies beside orders, and goes with them."""
    return Path(f"{orders}.portions")


def write(path: Path, portions: Sequence[bytes]) -> None:
    """Put all portions into a file."""
    write_secret(path, packed_together(portions))


class Portions:
    """The portions of a file, to be read by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = count_in(path)

    def __len__(self) -> int:
        return self._count

    def tasks(self, number: int) -> tuple[Task, ...]:
        tasks: tuple[Task, ...] = pickle.loads(unpacked(self._path, number))
        return tasks
