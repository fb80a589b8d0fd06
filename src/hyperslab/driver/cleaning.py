"""Cleaning: what runs in a directory have left behind, and its removal on request."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.arrays.partition import Partition
from hyperslab.blocks.writing.part_folders import remove_output, remove_stale
from hyperslab.driver.directory import GATHERED, RunDirectory
from hyperslab.driver.manifest import load_manifest
from hyperslab.driver.replaced import made
from hyperslab.driver.verification import is_name
from hyperslab.errors import DamagedRecord
from hyperslab.plan.journal import Tail
from hyperslab.plan.sinks import block_name
from hyperslab.plan.task import Outcome
from hyperslab.storage import replacement
from hyperslab.storage.mounts import require_unmounted
from hyperslab.storage.recordfile import load_record
from hyperslab.storage.renaming import remove
from hyperslab.storage.unfinished import LEFTOVER, leftovers


def clean(directory: RunDirectory, outputs_too: bool) -> list[Path]:
    """Remove leftovers and records of all runs, and on request what they wrote; returns what is
    gone.

    Raises DamagedRecord, before anything is removed, when what they wrote is not known, and OSError
    where something is mounted in their records.
    """
    require_unmounted(directory.root)
    doomed = list(leftovers(directory.out, directory.files))
    if not outputs_too:
        replacement.require_ended(directory.out)
    if outputs_too:
        doomed += [directory.out / name for name in _written(directory) if is_name(name)]
    doomed = [path for path in dict.fromkeys(doomed) if path.exists()]
    for path in doomed:
        if re.fullmatch(LEFTOVER, path.name):
            remove_stale(path)
        else:
            remove_output(path)
    _remove_empty(directory.out, doomed)
    remove(directory.root)
    return doomed


def _written(directory: RunDirectory) -> Iterator[str]:
    """Names of all that any run wrote, or may have written before it was killed."""
    yield from made(directory)
    yield from (entry["path"] for entry in load_manifest(directory).get("outputs", []))
    for folder in directory.submissions():
        for outcome in Tail(folder).poll():
            yield from _names(outcome)
    yield from _gathered(directory)
    with suppress(DamagedRecord):  # of the blocks of that run, those go of which its journal tells
        for _, plan in directory.plans():
            yield from _planned(plan)


def _gathered(directory: RunDirectory) -> list[str]:
    """Names of what group levels of earlier versions have made, which were no runs. Raises
    DamagedRecord.
    """
    try:
        record = load_record(directory.root / GATHERED, "remove it, and the files of that level")
    except FileNotFoundError:
        return []
    return list(record["files"])


def _names(outcome: Outcome) -> list[str]:
    """Names of what an attempt has written. Those of commands may lie in folders, and are theirs
    only once they are done: what was there before stays.
    """
    paths = [written.path for written in outcome.outputs]
    if outcome.ran is None:
        return list(map(os.path.basename, paths))
    return paths if outcome.status == "done" else []


def _remove_empty(out: Path, gone: Iterable[Path]) -> None:
    """Remove the folders in a directory that have held files which are gone, and nothing else."""
    folders = {folder for path in gone for folder in path.parents if out in folder.parents}
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):
            folder.rmdir()


def _planned(plan: dict[str, Any]) -> Iterator[str]:
    """Names of the files that the tasks of a plan write, each its block."""
    if not plan.get("suffix"):
        return
    for whole in plan["wholes"]:
        cuts = tuple(tuple(axis) for axis in whole["cuts"])
        blocks = Partition(cuts, tuple(range(len(cuts))))
        for block in blocks:
            yield block_name(whole["name"], block, blocks.shape, len(blocks)) + plan["suffix"]
