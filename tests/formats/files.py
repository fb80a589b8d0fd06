"""The real files on which the formats are tested."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hyperslab.testing.formats import find_files

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples" / "data"
EXTRA = os.environ.get("HYPERSLAB_EXTRA_DATA")


def real_files(kind: str, only: str = "", without: tuple[str, ...] = ()) -> list[Any]:
    """Every real file of a format as a test parameter: the project's own, and those of the extra
    folder.

    `only` and `without` are the ends of names that are taken and left out.
    """
    own = [path for folder in (DATA, EXAMPLES) for path in find_files(folder, kind)]
    names = {path.name for folder in (DATA, EXAMPLES) for path in folder.rglob("*")}
    more = (
        [path for path in find_files(Path(EXTRA), kind) if path.name not in names] if EXTRA else []
    )
    found = [
        pytest.param(path, id=name)
        for path, name in (
            *((path, path.name) for path in own),
            *((path, f"extra-{path.name}") for path in more),
        )
        if path.parent.name != "corrupt"
        and path.name.endswith(only)
        and not path.name.endswith(without)
    ]
    if EXTRA:
        return found
    reason = (
        "no extra real files; set HYPERSLAB_EXTRA_DATA to a folder of NIfTI, HDF5, netCDF and MINC"
        " files"
    )
    return [*found, pytest.param(Path(), id="extra", marks=pytest.mark.skip(reason=reason))]
