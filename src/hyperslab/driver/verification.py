"""Verification: is what a run wrote still what its tasks had in memory, by the checksums that they
recorded?
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import checksums
from hyperslab.blocks.reading import gzipindex
from hyperslab.driver.directory import LOCK, RunDirectory
from hyperslab.driver.manifest import load_manifest, manifests
from hyperslab.driver.tried import left_out, not_found_done, tried_wholes
from hyperslab.errors import FormatError, HyperslabError, RunStopped
from hyperslab.storage import frame
from hyperslab.storage.frame import Span
from hyperslab.units import show_count

_MISSING = "missing"
"What is wrong with a file that is not there."


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that was written, held against the manifest: a file, or a part of one."""

    file: str
    "Name of the file; '' for the run as a whole."
    name: str
    "Name of the file, and of its part."
    problem: str | None
    "What is wrong; None where it is as it was written."


def verify(directory: RunDirectory) -> Iterator[Compared]:
    """Compare everything that was written with the manifest."""
    directory.latest()
    kept = load_manifest(directory)
    if not kept:
        raise RunStopped(
            f"{directory.place} has no manifest yet: its run has not ended; finish it with --resume"
        )
    done, tasks = _progress(directory, kept)
    if done < tasks:
        yield Compared(
            "", "the run", f"{done:,} of {show_count(tasks, 'task')} done; finish it with --resume"
        )
    outputs = [entry for entry in kept["outputs"] if not _is_of_several(directory, entry["path"])]
    with tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
        files = _Files(outputs, Path(folder))
        withdrawn = cache(partial(_withdrawn, directory))
        for entry in outputs:
            problem = _mismatch(files, _folder_of(directory, entry), entry)
            if problem == _MISSING and entry.get("block") in withdrawn():
                continue
            yield Compared(entry["path"], _label(entry), problem)


def _progress(directory: RunDirectory, kept: Mapping[str, Any]) -> tuple[int, int]:
    """How many tasks are done, and how many there are; of calls all that any of them was asked for.
    Raises DamagedRecord.
    """
    found = [
        (folder, manifest)
        for folder, manifest in manifests(directory)
        if manifest or (folder / LOCK).exists()
    ]
    if len(found) == 1:
        return kept["done"], kept["tasks"]
    state: dict[str, bool] = {}
    for folder, manifest in found:
        plan = directory.plan_of(folder)
        if plan is not None:
            state |= _states(folder, plan, manifest, state)
    withdrawn = _withdrawn(directory)
    asked_for = [is_done for name, is_done in state.items() if name not in withdrawn]
    return sum(asked_for), len(asked_for)


def _withdrawn(directory: RunDirectory) -> set[str]:
    """Names of what nobody misses any more. Raises DamagedRecord."""
    return left_out(plan for _, plan in directory.plans())


def _states(
    folder: Path,
    plan: Mapping[str, Any],
    manifest: Mapping[str, Any],
    before: Mapping[str, bool],
) -> dict[str, bool]:
    """Names of what a submission was asked for, and whether it is done now. What only the journal
    of one that was killed says is not: no manifest vouches for it.
    """
    names = [whole["name"] for whole in plan["wholes"]] + list(plan.get("then", ()))
    if manifest and manifest["done"] == manifest["tasks"]:
        return dict.fromkeys(names, True)
    listed = {entry.get("block") for entry in manifest.get("outputs", ())}
    tried = tried_wholes(folder, plan)
    outdated = not_found_done(plan)
    found = {}
    for name in names:
        found[name] = before.get(name, False) and name not in outdated
        if name in tried:
            found[name] = tried[name] and bool(manifest)
        if name in listed:
            found[name] = True
    return found


def _folder_of(directory: RunDirectory, entry: Mapping[str, Any]) -> Path:
    """Where an output is now."""
    if entry.keys().isdisjoint(("region", "frame")):
        return directory.blocks
    return directory.out


def _label(entry: Mapping[str, Any]) -> str:
    if "frame" in entry:
        return f"{entry['path']} (header)"
    name = str(entry["path"])
    if entry.get("array"):
        name += f"::{entry['array']}"
    if "region" in entry:
        return f"{name} (task {entry['task']})"
    return name


class _Files:
    """The files of regions, each described once; those that can be entered only with an index get
    one.
    """

    def __init__(self, entries: list[Mapping[str, Any]], folder: Path) -> None:
        self._regions = Counter(entry["path"] for entry in entries if "region" in entry)
        self._folder = folder
        self._known: dict[tuple[str, str], ArraySource] = {}

    def source(self, out: Path, name: str, array: str) -> ArraySource:
        """The file of this name in a directory, or the array of this name in it where it holds
        several. Raises OSError, FormatError.
        """
        known = (name, array)
        if known not in self._known:
            source = checksums.source_at(out / name, array)
            is_entered = self._regions[name] > 1 and gzipindex.can_be_indexed(source)
            self._known[known] = self._indexed(source) if is_entered else source
        return self._known[known]

    def _indexed(self, source: ArraySource) -> ArraySource:
        try:
            return gzipindex.index_in(self._folder, source)
        except FormatError as error:
            return replace(source, broken=str(error))  # of every region


def _is_of_several(directory: RunDirectory, path: str) -> bool:
    """Whether a file is made of what several commands say, and no result of one."""
    from hyperslab.driver import statements  # which runs over arrays do without

    return is_name(path) and statements.is_of_several(directory.top, path)


def is_name(path: str) -> bool:
    """Whether the path of an output is one below the output directory, as all outputs are."""
    parts = path.split("/")
    return not {"", os.curdir, os.pardir}.intersection(parts)


def _mismatch(files: _Files, out: Path, entry: Mapping[str, Any]) -> str | None:
    if not is_name(entry["path"]):
        return (
            "is recorded as a file of another directory and was not checked: repeat the run with"
            " --resume"
        )
    try:
        found = _found(files, out, entry)
    except FileNotFoundError:
        return _MISSING
    except (OSError, HyperslabError) as error:
        return str(error)
    return (
        None
        if found == entry["checksum"]
        else f"checksum {found}, not {entry['checksum']}: it was changed or damaged"
    )


def _found(files: _Files, out: Path, entry: Mapping[str, Any]) -> str:
    path = out / entry["path"]
    if "frame" in entry:
        return frame.checksum(path, [Span(*span) for span in entry["frame"]])
    if "region" in entry:
        region = Hyperslab(*map(tuple, entry["region"]))
        source = files.source(out, entry["path"], entry.get("array", ""))
        return checksums.of_region(source, region)
    return checksums.of_output(path, entry["checksum"])
