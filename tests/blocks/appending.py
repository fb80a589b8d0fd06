"""What writers of segments append, in processes of their own, too: these load this file sooner than
one of tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hyperslab.arrays.sink import Encoded
from hyperslab.blocks.writing import segments
from hyperslab.blocks.writing.directio import ALIGNMENT
from hyperslab.blocks.writing.segments import Segment, home

HEAD = b"head"
SIZES = (0, 1, 700, ALIGNMENT, 3 * ALIGNMENT - 1, 3 * ALIGNMENT, 1_200_000, 5_000_001)
"Of pieces: some that go past the page cache, some that do not, some larger than a window."


def append(folder: str, given: Iterable[Encoded], is_home: bool = False) -> Segment:
    if is_home and not os.path.exists(home(folder)):
        Path(home(folder)).write_bytes(HEAD)
    return segments.append(folder, given, is_home)[0]


def append_many(folder: str, first: int, is_home: bool) -> list[Segment]:
    return [
        append(folder, [(first + i, bytes([i]) * SIZES[(first + i) % len(SIZES)])], is_home)
        for i in range(20)
    ]
