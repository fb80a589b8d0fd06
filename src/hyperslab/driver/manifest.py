"""The manifest: what every task has written, when a run has ended.

Calls that write to one directory at the same time keep one each; who reads them all sees one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DamagedRecord
from hyperslab.storage.recordfile import load_record, save_record

MANIFEST = "manifest.json"


def load_manifest(directory: RunDirectory) -> dict[str, Any]:
    """What every task has written, and how many there are; {} when no run has ended. Raises
    DamagedRecord.

    Of a directory in which calls have ended since, what these have written takes the place of what
    is said there of the same blocks; the number of tasks is that of the last one.
    """
    if directory.call:
        return _manifest_in(directory, directory.root)
    return _joined([manifest for _, manifest in manifests(directory)])


def manifests(directory: RunDirectory) -> list[tuple[Path, dict[str, Any]]]:
    """Submissions that have something to say of what is there, oldest first, and their manifests;
    {} for one that has none: the last run that had the directory to itself, if there was one, and
    all that have begun since. Raises DamagedRecord.
    """
    own = _manifest_in(directory, directory.root)
    seen = own.get("runs", 0)
    since = [path for number, path in directory.numbered() if number > seen]
    found = [(path, _manifest_in(directory, path)) for path in since]
    if own:
        found.insert(0, (directory.folder_of(seen), own))
    return found


def _manifest_in(directory: RunDirectory, folder: Path) -> dict[str, Any]:
    """The manifest that is in a folder of records; {} where there is none. Raises DamagedRecord."""
    remedy = (
        "the list of what the run wrote is lost; the same command with --resume writes it again,"
        f" 'hyperslab clean {directory.place}' removes all records and keeps the outputs"
    )
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    return load_record(path, remedy)


def _joined(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One manifest of several, of which later ones replace what earlier ones say of a block."""
    found = [one for one in manifests if one]
    if not found:
        return {}
    if len(found) == 1:
        return dict(found[0])
    by_block: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        by_block |= _by_block(one)
    outputs = [entry for entries in by_block.values() for entry in entries]
    return {**found[-1], "outputs": outputs}


def _by_block(manifest: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in manifest["outputs"]:
        found.setdefault(entry.get("block", ""), []).append(entry)
    return found


def vouched_for(directory: RunDirectory) -> set[tuple[str, str]]:
    """Name and checksum of the files that the manifest names, before which they were on storage."""
    try:
        entries = load_manifest(replace(directory, call="")).get("outputs", [])
    except DamagedRecord:
        return set()  # it speaks for none: all of them are read
    return {
        (entry["path"], entry["checksum"])
        for entry in entries
        if entry.keys().isdisjoint(("region", "frame"))
    }


def save_manifest(
    directory: RunDirectory, entries: list[dict[str, Any]], counts: Mapping[str, Any]
) -> None:
    """Record what every task has written. Raises OSError."""
    newest = max((number for number, _ in directory.numbered()), default=0)
    about = {"version": 1, **counts, "runs": newest, "outputs": entries}
    save_record(directory.root / MANIFEST, about)
