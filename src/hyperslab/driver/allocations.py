"""Allocations: room for the files that several tasks write to."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.blocks.writing import Written
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import AGAIN, HyperslabError, RunStopped
from hyperslab.plan.task import Volume
from hyperslab.storage.full import why
from hyperslab.units import show_count


def by_file(volumes: Sequence[Volume]) -> tuple[tuple[Volume, ...], list[int]]:
    """The first volume of each file, and the number of the file of every volume: all arrays of a
    file are one allocation, and get one name.
    """
    firsts: dict[str, Volume] = {}
    for volume in volumes:
        firsts.setdefault(volume.sink.path, volume)
    numbers = {path: number for number, path in enumerate(firsts)}
    return tuple(firsts.values()), [numbers[volume.sink.path] for volume in volumes]


def vanished(volume: Volume) -> RunStopped:
    return RunStopped(
        f"{volume.partial} has disappeared, with what was written to it",
        AGAIN,
    )


def require_complete(volume: Volume, outputs: Sequence[Written | None]) -> list[Written]:
    """What was written of all regions, None for one of which that is not known. Raises RunStopped
    for an allocation that is not there, or is not the one that the regions were written to.
    """
    sink, partial = volume
    if not os.path.exists(partial):
        raise vanished(volume)
    form = form_of(sink)
    own = os.path.basename(partial)
    there = [each for each in outputs if each is not None and form.allocation(each) == own]
    if len(there) < len(outputs):
        missing = show_count(len(outputs) - len(there), "region")
        raise RunStopped(f"{sink.path}: {missing} missing from {partial}", AGAIN)
    return there


def is_finished(volume: Volume, known: Collection[str]) -> bool:
    """Whether a volume has its name already, since an earlier submission."""
    return os.path.basename(volume.sink.path) in known and not os.path.exists(volume.partial)


def allocate(volume: Volume) -> None:
    try:
        writing.allocate(*volume)
    except OSError as error:
        raise RunStopped(
            f"{volume.sink.path} cannot be created: {why(error, Path(volume.partial))}",
            "fix that, then use --resume",
        ) from error


def is_kept(volume: Volume, written: Written, files: Mapping[str, str]) -> bool:
    """Whether what a task wrote to a volume is in its allocation, or in the file that this one
    became.
    """
    sink, partial = volume
    allocation = form_of(sink).allocation(written)
    if files.get(os.path.basename(sink.path)) == allocation:
        return True
    if allocation != os.path.basename(partial):
        return False
    return form_of(sink).is_kept(sink, partial, written)


def differs(volume: Volume, slab: Hyperslab, written: Written) -> bool:
    """Whether an allocation holds in a region something else than was written there."""
    sink, partial = volume
    try:
        return form_of(sink).differs(sink, partial, slab, written)
    except (OSError, HyperslabError):
        return True
