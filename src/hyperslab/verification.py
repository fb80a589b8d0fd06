"""Verification: is what a run wrote still what its tasks had in memory, by the checksums that they recorded?"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab import blockio, formats, gzipindex, sinkio
from hyperslab.array import ArraySource
from hyperslab.errors import FormatError, HyperslabError, RunStopped
from hyperslab.rundir import RunDirectory, load_json
from hyperslab.slab import Hyperslab


def verify(directory: RunDirectory) -> Iterator[tuple[str, str | None]]:
    """Compare every output with the manifest: (path, None) when equal, (path, what is wrong) otherwise."""
    manifest = directory.root / "manifest.json"
    directory.latest()
    if not manifest.is_file():
        raise RunStopped(f"{directory.out} has no manifest yet: its run has not ended; finish it with --resume")
    kept = load_json(manifest)
    if kept["done"] < kept["tasks"]:
        yield (
            "the run",
            f"{kept['tasks'] - kept['done']} of {kept['tasks']} tasks are not done; finish it with --resume",
        )
    with tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
        files = _Files(kept["outputs"], Path(folder))
        for entry in kept["outputs"]:
            yield (
                entry["path"] if "region" not in entry else f"{entry['path']} (task {entry['task']})",
                _mismatch(files, directory.out, entry),
            )


class _Files:
    """The files of regions, each described once; those that can be entered only with an index get one."""

    def __init__(self, entries: list[Mapping[str, Any]], folder: Path) -> None:
        self._regions = Counter(entry["path"] for entry in entries if "region" in entry)
        self._folder = folder
        self._known: dict[str, ArraySource] = {}

    def source(self, out: Path, name: str) -> ArraySource:
        """The file of this name in a directory. Raises OSError, FormatError."""
        if name not in self._known:
            source = formats.open_source(os.fspath(out / name))
            is_entered = self._regions[name] > 1 and gzipindex.can_be_indexed(source)
            self._known[name] = self._indexed(source) if is_entered else source
        return self._known[name]

    def _indexed(self, source: ArraySource) -> ArraySource:
        try:
            return gzipindex.index(source, self._folder / gzipindex.file_name(source))
        except FormatError as error:
            return replace(source, broken=str(error))  # of every region


def _mismatch(files: _Files, out: Path, entry: Mapping[str, Any]) -> str | None:
    try:
        if "region" in entry:
            found = _checksum(files.source(out, entry["path"]), Hyperslab(*map(tuple, entry["region"])))
        else:
            found = file_checksum(out / entry["path"])
    except FileNotFoundError:
        return "missing"
    except (OSError, HyperslabError) as error:
        return str(error)
    return (
        None if found == entry["checksum"] else f"checksum {found}, not {entry['checksum']}: it was changed or damaged"
    )


def file_checksum(path: Path) -> str:
    """Of the bytes of a file, or the values of a directory, as `sinkio.write` gave it. Raises OSError, FormatError."""
    if not path.is_dir():
        return sinkio.file_checksum(str(path))
    source = formats.open_source(os.fspath(path))
    return _checksum(source, Hyperslab.full(source.shape))


def region_checksum(path: str | os.PathLike[str], slab: Hyperslab) -> str:
    """The checksum that `sinkio.write_region` gave, of what a file, or its allocation, holds in a region now.

    Raises OSError, FormatError.
    """
    return _checksum(formats.open_source(os.fspath(path)), slab)


def _checksum(source: ArraySource, slab: Hyperslab) -> str:
    block = blockio.read(source, slab, values="stored")
    return sinkio.checksum(block.transpose(source.axes), source.stored)
