"""The feature matrices as a page: `python -m tests.formats.page` writes their parts of
docs/formats.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.formats.files import ROOT
from tests.formats.hdf5_rows import HDF5
from tests.formats.matrix import WAYS, Matrix, Row
from tests.formats.minc_rows import MINC
from tests.formats.netcdf_rows import NETCDF
from tests.formats.nifti_rows import NIFTI
from tests.formats.zarr_rows import ZARR

MATRICES = [HDF5, NETCDF, MINC, NIFTI, ZARR]
PAGE = ROOT / "docs" / "formats.md"
COMMAND = "python -m tests.formats.page"


def replaced(page: str) -> str:
    """A page with its ways and matrices as they are now. Raises ValueError where one has no place
    in it.
    """
    parts = {"ways": [f"- **{way}**: {meaning}" for way, meaning in WAYS.items()]}
    parts |= {f"matrix of {matrix.title}": list(_tables(matrix)) for matrix in MATRICES}
    for name, lines in parts.items():
        begin, end = f"<!-- the {name}: {COMMAND} -->", f"<!-- end of the {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(
                f"{PAGE}: lacks the lines '{begin}' and '{end}', between which the {name} stand"
            )
        page = "\n".join([before + begin, "", *lines, "", end + after])
    return page


def _tables(matrix: Matrix) -> Iterator[str]:
    """A table per group."""
    for number, (group, found) in enumerate(
        itertools.groupby(matrix.rows(), key=lambda row: row.group)
    ):
        rows = list(found)
        meant = any(row.real or row.unscalable for row in rows)
        titles = [
            "dataset",
            "read by",
            "why not by the chunk table",
            *["real values"][: 1 if meant else 0],
        ]
        yield from ([""] if number else [])
        yield from (f"### {group}", "", _line(titles), "|" + "---|" * len(titles))
        yield from dict.fromkeys(_line(_cells(row)[: len(titles)]) for row in rows)


def _cells(row: Row) -> list[str]:
    real = row.real or "as stored"
    if row.unscalable:
        real = f"refused: {row.unscalable}"
    reason = "" if row.way == "chunk table" else row.reason
    return [row.shown or row.name, row.way, reason, "" if row.way == "refused" else real]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text()))
