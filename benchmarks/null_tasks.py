"""Tasks that do nothing: as a reduction of single voxels in memory, and handed out by hand."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import Fold, Pipeline, Rule

VOXELS = 8
RULE = Rule("block-shape", (1, VOXELS))
"A row is a block is a task."


def pipeline(tasks: int) -> Pipeline:
    """A reduction of so many tasks to nothing."""
    return Pipeline(np.zeros((tasks, VOXELS), np.uint8)).reduce(f"{__name__}:FOLD")


def by_hand(tasks: int, processes: int) -> None:
    """The same number of calls through a pool of processes, one by one."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for _ in pool.imap_unordered(_nothing, range(tasks)):
            pass


def _nothing(block: npt.NDArray[Any] | int) -> int:
    return 0


def _keep(first: int, second: int) -> int:
    return first


FOLD = Fold(lift=_nothing, merge=_keep)
