"""What the rounds of stale workers run: a function that holds the interpreter's lock until somebody
lets it go.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab

STALE = 100
"What a task adds that was held, instead of 1: nobody else makes such values."
VARIABLE = "CAMPAIGN_GATE"
"""A named pipe that the first task to come waits at, and the file `taken` beside it by which the
others know.
"""


def stall(block: Array, slab: Hyperslab, **_: object) -> Array:
    """block + 1; of the task that has been held, block + STALE."""
    gate = os.environ.get(VARIABLE, "")
    is_held = bool(gate) and slab.start != (0, 0, 0) and _take(Path(gate).with_name("taken"))
    if is_held:
        ctypes.PyDLL(None).open(
            os.fsencode(gate), os.O_RDONLY
        )  # returns when somebody opens it for writing
    result: Array = block + block.dtype.type(STALE if is_held else 1)
    return result


def _take(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
