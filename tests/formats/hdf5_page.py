"""The feature matrix of HDF5 as a page: `python -m tests.formats.hdf5_page` writes its part of docs/formats.md."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tests.formats.files import ROOT
from tests.formats.hdf5_rows import WAYS, Row, rows

PAGE = ROOT / "docs" / "formats.md"
BEGIN, END = "<!-- the matrix of HDF5: python -m tests.formats.hdf5_page -->", "<!-- end of the matrix of HDF5 -->"
_DIMENSIONS = re.compile(r"^\d+ dimensions")


def matrix() -> str:
    """What the ways mean, and a table per group."""
    ways = [f"- **{way}**: {meaning}" for way, meaning in WAYS.items()]
    return "\n".join([BEGIN, "", *ways, *_lines(), "", END])


def replaced(page: str) -> str:
    """A page with its matrix as the rows are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + matrix() + after


def _lines() -> Iterator[str]:
    for group, members in itertools.groupby(rows(), key=lambda row: row.group):
        yield from ("", f"### {group}", "", "| dataset | read by | why not by the chunk table |", "|---|---|---|")
        yield from dict.fromkeys(_line(row, "" if row.way == "chunk table" else row.reason) for row in members)


def _line(row: Row, reason: str) -> str:
    name = _DIMENSIONS.sub("1 to 32 dimensions", row.name)
    return f"| {name} | {row.way} | {reason} |"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text()))
