"""The page about Spark: its marked blocks, filled with what was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

NAMES = ("circumstances", "plain", "gzip", "gates", "scaling", "launches", "caches", "memory")
END = "<!-- end -->"


def opening(name: str) -> str:
    """What begins a block."""
    return f"<!-- bench-spark: {name} -->"


def write(page: Path, blocks: Mapping[str, str]) -> None:
    """Fill the blocks of a page; one that does not exist begins with the blocks alone. Raises
    ValueError.
    """
    text = page.read_text(encoding="utf-8") if page.exists() else stub()
    page.write_text(filled(text, blocks), encoding="utf-8")


def require_blocks(page: Path) -> None:
    """Raise ValueError, before hours are spent, for a page that lacks a block."""
    if page.exists():
        filled(page.read_text(encoding="utf-8"), dict.fromkeys(NAMES, ""))


def stub() -> str:
    """A page that has nothing but its blocks."""
    return "# Spark\n\n" + "\n\n".join(f"{opening(name)}\n{END}" for name in NAMES) + "\n"


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """The text with what stands between `<!-- bench-spark: NAME -->` and `<!-- end -->`
    replaced.
    """
    for name, block in blocks.items():
        pattern = re.compile(rf"({re.escape(opening(name))}\n).*?({re.escape(END)})", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page needs one block {opening(name)} ... {END}")
        text = pattern.sub(lambda found, block=block: f"{found[1]}\n{block}\n\n{found[2]}", text)  # type: ignore[misc]
    return text
