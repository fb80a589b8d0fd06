"""Unfinished: names of what is not complete yet, or has been replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LEFTOVER = re.compile(
    r"\.(?P<name>.+)\.(?:[0-9a-f]{16}|[0-9a-f]{12}-[0-9a-f]{12}|(?:gone|index|old)-[0-9a-f]{12})\.part"
)
"""Name of what is unfinished or has been replaced, as hyperslab.blocks.writing, outputs and
renaming make it.
"""


def leftovers(out: Path, names: set[str] | None = None) -> Iterator[Path]:
    """Half-written files in an output directory, or folders of their parts: of these outputs, or
    all.
    """
    for path in sorted(out.iterdir()) if out.is_dir() else []:
        match = LEFTOVER.fullmatch(path.name)
        if match and (names is None or match["name"] in names):
            yield path
