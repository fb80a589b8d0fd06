"""Publication: what a conversion makes for a URL, from the directory for temporary files into the
store.

- nothing is removed or written over but what an earlier conversion has put there, and only if that
  was allowed: a directory of files has an object that names them
  (`tests/storage/remote/test_convert.py`)
- an upload that fails can be resumed: what has arrived is not sent again
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperslab import formats
from hyperslab.driver import resume
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.prepare import Prepared
from hyperslab.driver.products import PUBLISHED
from hyperslab.driver.result import Result
from hyperslab.errors import AlreadyDone, DamagedRecord, FormatError, OutputBusy, UsageError
from hyperslab.redaction import redact
from hyperslab.storage.location import is_remote, local_path
from hyperslab.storage.recordfile import load_record, save_json, save_record
from hyperslab.storage.remote.file import RemoteFile
from hyperslab.storage.remote.objects import look
from hyperslab.storage.remote.uploading import REPLACING, Uploaded, listed, removed, upload
from hyperslab.storage.renaming import remove
from hyperslab.storage.zarr_names import require_replaceable

MANIFEST = ".hyperslab.json"
"Name of the object beside files of a conversion that holds their names."
_OTHERS = 0o077
"Permissions of a group and of all others."

Stores = Mapping[str, Any] | None


def staged(
    dest: str, storage_options: Stores, overwrite: bool = False, resumes: bool = False
) -> str:
    """Where a destination is written: itself, or for a URL a path in the directory for temporary
    files.

    Raises OutputBusy for a URL that exists already, unless it may be overwritten, or an upload by
    the conversion that is resumed has put it there; with `overwrite`, for what no conversion has
    made. Raises UsageError for a directory for temporary files that others can write to.
    """
    if not is_remote(dest):
        return local_path(dest)
    there = listed(dest, storage_options)
    _own_folder(_folder(dest))
    directory = RunDirectory.of(_place(dest))
    record = _load(directory.root, overwrite)
    begun: set[str] = set()
    if resumes:
        begun = record.begun
    if overwrite:
        _require_made_here(dest, storage_options, there, begun)
    elif any(not _is_of(name, begun) for name in there.keys() - {MANIFEST}):
        raise OutputBusy(
            f"{redact(dest)} exists; choose another name, or --overwrite; --resume continues a"
            " conversion that began to write there"
        )
    elif not resumes and record.done and not directory.is_owned():
        remove(directory.root)  # of a conversion whose result has been removed since
    return _place(dest)


def require_unfinished(prepared: Prepared, dest: str, storage_options: Stores) -> None:
    """Raise AlreadyDone where all of a conversion to a URL, of the sources as they are, has arrived
    before.
    """
    if not is_remote(dest) or not prepared.inherited:
        return
    assert prepared.directory is not None
    record = _load(prepared.directory.root, overwrite=True)
    if not record.done or resume.results(prepared.inherited).keys() != {
        task.id for task in prepared.plan.tasks
    }:
        return
    there = listed(dest, storage_options)
    if all(there.get(name) == nbytes for name, nbytes in record.done.items()):
        raise AlreadyDone(
            f"{redact(dest)} is complete; --overwrite without --resume makes it again"
        )


def publish(result: Result, dest: str, storage_options: Stores, overwrite: bool) -> Uploaded | None:
    """Upload what was made for a URL, each file when all of it is there, and remove it here; the
    records stay.

    Returns what was sent, which a resumed upload may have to send nothing of; None for a path.
    Raises what `hyperslab.upload` raises.
    """
    if not is_remote(dest) or not result.ok:
        return None
    root = result.folder.parent
    there = listed(dest, storage_options)
    record = _load(root, overwrite)
    if _is_one(dest):
        done = _send(
            root, record, {"": Path(_place(dest))}, there, dest, storage_options, overwrite
        )
    else:
        files = {path.name: path for path in result.outputs}
        named = _named(dest, storage_options, there)
        stale = record.begun - files.keys()
        if overwrite:
            stale |= named - files.keys()
        _say(root, dest, storage_options, named | stale | files.keys())
        done = _send(root, record, files, there, dest, storage_options, overwrite)
        removed(
            dest,
            storage_options,
            sorted(name for name in there.keys() - {MANIFEST} if _is_of(name, stale)),
        )
        _say(root, dest, storage_options, (named | files.keys()) - stale)
    record.done = listed(dest, storage_options)
    _save(root, record)
    for path in result.outputs:
        remove(path)
    return Uploaded(redact(dest), sum(one.files for one in done), sum(one.nbytes for one in done))


@dataclass(slots=True)
class _Record:
    """Record of the files of a conversion that have been sent; names are those below its URL, '' is
    the one file at the URL itself.
    """

    begun: set[str] = field(default_factory=set)
    sent: dict[str, list[int]] = field(default_factory=dict)
    "The state of each file that has arrived."
    done: dict[str, int] = field(default_factory=dict)
    "Names and sizes of all objects, when all had arrived."


def _send(
    root: Path,
    record: _Record,
    files: Mapping[str, Path],
    there: Mapping[str, int],
    dest: str,
    storage_options: Stores,
    overwrite: bool,
) -> list[Uploaded]:
    """Send the files that have not arrived, and keep a record of it."""
    present = there.keys() - {MANIFEST}
    done = []
    for name, path in files.items():
        status = path.stat()
        state = [status.st_ino, status.st_mtime_ns, status.st_size]
        if record.sent.get(name) == state and any(_is_of(found, {name}) for found in present):
            continue
        is_ours = name in record.begun
        record.begun.add(name)
        _save(root, record)
        try:
            done.append(upload(path, _url(dest, name), storage_options, overwrite or is_ours))
        except UsageError as error:
            if path.is_file() or isinstance(
                error, OutputBusy
            ):  # what is there, if anything, is somebody else's
                record.begun.discard(name)
                _save(root, record)
            raise
        record.sent[name] = state
        _save(root, record)
    return done


def _load(root: Path, overwrite: bool) -> _Record:
    """What has been sent; nothing, when the record is damaged and what is there may be overwritten.

    Raises DamagedRecord.
    """
    if not (root / PUBLISHED).is_file():
        return _Record()
    remedy = (
        "the record of what was sent is lost; add --overwrite, which sends all of it again, or"
        " choose"
        " another URL"
    )
    try:
        kept = load_record(root / PUBLISHED, remedy)
    except DamagedRecord:
        if not overwrite:
            raise
        return _Record()
    return _Record(set(kept["begun"]), kept["sent"], kept["done"])


def _save(root: Path, record: _Record) -> None:
    save_record(
        root / PUBLISHED, {"begun": sorted(record.begun), "sent": record.sent, "done": record.done}
    )


def _place(dest: str) -> str:
    return str(_folder(dest) / redact(dest).rstrip("/").rpartition("/")[2])


def _folder(dest: str) -> Path:
    """The directory for temporary files of a destination, the same for every attempt of a user."""
    digest = hashlib.sha256(redact(dest).rstrip("/").encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"hyperslab-{os.getuid()}-{digest}"


def _own_folder(folder: Path) -> None:
    """Make a directory that is ours alone. Raises UsageError where there is another of its name."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & _OTHERS:
        raise UsageError(
            f"{folder} is not a directory that only you can use, as temporary files need; remove"
            " it, or set TMPDIR to a directory of your own"
        )


def _is_one(dest: str) -> bool:
    """Whether a URL names one file, or one Zarr store."""
    return formats.is_array_file(dest.rstrip("/"))


def _is_of(name: str, files: Collection[str]) -> bool:
    """Whether an object is one of these files, or lies in one of these stores."""
    return "" in files or name.partition("/")[0] in files


def _url(dest: str, name: str) -> str:
    if not name:
        return dest
    return f"{dest.rstrip('/')}/{name}"


def _require_made_here(
    dest: str, storage_options: Stores, there: Mapping[str, int], begun: AbstractSet[str]
) -> None:
    """Raise OutputBusy for objects that no conversion has made, which nothing is to replace or to
    be mixed with.
    """
    if _is_one(dest):
        if begun:
            return
        others = there.keys() - {REPLACING}
        if not formats.is_store_name(dest):
            others -= {""}
        require_replaceable(redact(dest), others, REPLACING in there)
        return
    known = _named(dest, storage_options, there) | begun | {MANIFEST}
    odd = min((name for name in there if not _is_of(name, known)), default=None)
    if odd is not None:
        raise OutputBusy(
            f"{redact(dest)}: holds {odd or 'an object of this name'}, which no conversion"
            " made: --overwrite replaces only what an earlier conversion made; choose a new place,"
            " or remove what is there"
        )


def _named(dest: str, storage_options: Stores, there: Mapping[str, int]) -> set[str]:
    """The files that conversions have put there."""
    if MANIFEST not in there:
        return set()
    remote, _ = look(_url(dest, MANIFEST), storage_options or {}, 1)
    raw = b"".join(RemoteFile(remote).fetch([(0, remote.size)]))
    try:
        return {str(name) for name in json.loads(raw)["files"]}
    except (ValueError, KeyError, TypeError):
        raise FormatError(
            f"{remote}: does not say which files conversions made; remove it together with them"
        ) from None


def _say(root: Path, dest: str, storage_options: Stores, names: Collection[str]) -> None:
    save_json(root / MANIFEST, {"version": 1, "files": sorted(names)})
    upload(root / MANIFEST, _url(dest, MANIFEST), storage_options, overwrite=True)
