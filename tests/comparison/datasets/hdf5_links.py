"""Names of HDF5 datasets: in groups, in Unicode, and by soft, hard and external links."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import h5py

from tests.formats.hdf5_made import NAME

_NAMES = (
    "/g/data",
    "/a/b/c/d",
    "/größe",
    "/two words",
    "/a.b",
    "/%41",
    "/g/data#1",
    "/-x",
    "/data[0]",
    "/a:b",
    "/*",
    "/ä/日本",
)


def rename(rng: Random, file: Any) -> str:
    """Give the dataset another name, or one more; the name to open it by."""
    style = rng.random()
    if style < 0.5:
        return f"/{NAME}"
    name = rng.choice(_NAMES)
    if style < 0.65:
        file[name] = file[NAME]
    elif style < 0.8:
        file[name] = h5py.SoftLink(f"/{NAME}")
    else:
        folder = name.rpartition("/")[0]
        file.require_group(folder or "/")
        file.move(NAME, name)
    return name


def link(rng: Random, path: Path, name: str) -> tuple[tuple[Path, str], bool]:
    """The file and the name to open it by: sometimes those of an external link in another file."""
    if rng.random() > 0.05:
        return (path, name), False
    outer = path.with_name("outer.h5")
    target = path.name if rng.random() < 0.5 else str(path)
    with h5py.File(outer, "w") as file:
        file["linked"] = h5py.ExternalLink(target, name)
    return (outer, "/linked"), True
