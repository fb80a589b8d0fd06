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


def real_files(kind: str) -> list[Any]:
    """Every real file of a format as a test parameter: the project's own, and those of the extra folder."""
    own = [
        pytest.param(path, id=path.name)
        for folder in (DATA, EXAMPLES)
        for path in find_files(folder, kind)
        if path.parent.name != "corrupt"
    ]
    if not EXTRA:
        reason = "no extra real files; set HYPERSLAB_EXTRA_DATA to a folder of NIfTI and HDF5 files"
        return [*own, pytest.param(Path(), id="extra", marks=pytest.mark.skip(reason=reason))]
    names = {path.name for folder in (DATA, EXAMPLES) for path in folder.rglob("*")}
    more = [path for path in find_files(Path(EXTRA), kind) if path.name not in names and path.parent.name != "corrupt"]
    return [*own, *(pytest.param(path, id=f"extra-{path.name}") for path in more)]
