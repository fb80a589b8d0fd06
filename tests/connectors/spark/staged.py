"""What `h5write` does, without Spark: its partitions one after the other in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

from hyperslab.connectors.spark import assembly, fragment_files
from hyperslab.connectors.spark.destination import destination
from hyperslab.connectors.spark.rows import pieces


def staged_file(tmp_path: Path, *parts: list[Any], path: str = "out.h5", **said: Any) -> Path:
    """A file of the elements of some partitions, written in this process."""
    place = destination(tmp_path / path, **said)
    with fragment_files.begun(place.path) as folder:
        outcomes = [
            fragment_files.stage(pieces(items, number, place.dtype), folder, number)
            for number, items in enumerate(parts)
        ]
        made = assembly.prepare(place, folder, outcomes)
        assembly.finish(
            made, [assembly.copy(made, slab) for slab in made.regions()], place.overwrite
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == [path]
    return tmp_path / path


def h5(path: Path, name: str = "data") -> Any:
    with h5py.File(path) as file:
        return file[name][...]
