"""Same blocks: whether two ways of working have left the same values in the same places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nibabel
import numpy as np


def require_same_blocks(ours: Iterable[Path], theirs: Iterable[Path]) -> None:
    """Raise AssertionError unless the NIfTI files of both have the same values wherever they lie.

    A file is a block, whose place is that of its first voxel, by its affine.
    """
    found = _by_place(ours)
    expected = _by_place(theirs)
    assert found.keys() == expected.keys(), "the blocks lie in other places"
    for place, path in expected.items():
        assert np.array_equal(_values(found[place]), _values(path)), f"{path} has other values"


def _by_place(paths: Iterable[Path]) -> Mapping[tuple[float, ...], Path]:
    images: list[tuple[Path, Any]] = [(path, nibabel.load(path)) for path in paths]
    return {tuple(np.round(image.affine[:3, 3], 3)): path for path, image in images}


def _values(path: Path) -> Any:
    image: Any = nibabel.load(path)
    return np.asanyarray(image.dataobj)
