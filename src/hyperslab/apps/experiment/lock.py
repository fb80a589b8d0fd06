"""Functions that let go of the interpreter's lock, to vary beside one that holds it
(`histogram-python`): compiled code, a sleep, a program on the command line.

That threads of one process serve these three, and do not serve a loop of pure Python, is what M.
Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask and Apache Spark for
data-intensive neuroimaging pipelines (2019) states.
"""

from __future__ import annotations

import subprocess
import time

import numpy as np

from hyperslab.arrays import Array
from hyperslab.plan.pipeline import Fold

BINS = 65_536
SLEEP_S = 0.25
"Time for which each block is put off."
PROGRAM = ("gzip", "-9", "--stdout")
"Takes a processor's time for what it is handed, and is everywhere."


def counted(block: Array) -> int:
    """Count a block by NumPy; the number of its most frequent value."""
    counts, _ = np.histogram(block, bins=BINS, range=(0, BINS))
    return int(counts.max())


def put_off(block: Array) -> int:
    """Sleep, and return the size of a block."""
    time.sleep(SLEEP_S)
    return block.size


def packed(block: Array) -> int:
    """Hand a block to a program; the number of bytes that it says. Raises OSError, and
    CalledProcessError where the program fails.
    """
    done = subprocess.run(PROGRAM, input=block.tobytes(), stdout=subprocess.PIPE, check=True)
    return len(done.stdout)


def larger(a: int, b: int) -> int:
    """Merge: the larger one."""
    return max(a, b)


compiled = Fold(counted, larger)
sleep = Fold(put_off, larger)
program = Fold(packed, larger)
