"""Finished files and directories into a remote store, where each object appears when it is
complete, or not at all.

- an object of S3 and its like appears when its last byte has arrived; elsewhere it is written under
  another name and renamed (`tests/storage/remote/test_upload.py`)
- of a directory, the documents that say what is in it come last, that of the directory itself at
  the very end: what has no such document is nothing that a reader opens. Over an older one, they go
  first
- nothing is written over unless that was allowed, and sizes are compared when all is there
- what is removed is a Zarr store's own: where anything else lies, nothing is touched
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hyperslab.errors import OutputBusy, Unavailable, UsageError
from hyperslab.storage.location import Remote, is_remote, scheme
from hyperslab.storage.remote.connections import S3, WEB, Store, path_in, store_of, submit
from hyperslab.storage.remote.faults import understand
from hyperslab.storage.remote.objects import call, finished, in_thread, insist, wait
from hyperslab.storage.zarr_names import DOCUMENTS, require_replaceable

REPLACING = ".hyperslab-replacing"
"""Name of the object that lies in a Zarr store while another takes its place: it has no documents
then.
"""
PART_NBYTES = 16 * 1024**2
"""Size of a part of a large object that is sent in parts, bytes (Amazon S3 user guide: at least 5
MiB, at most 10,000 parts).
"""
DEPTH = 4
"Files, or parts of one, under way."
_MOST_PARTS = 10_000
_AT_ONCE = (*S3, "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory")
"Schemes whose objects appear when they are complete."
_NO_CONDITIONS = 501

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A finished upload."""

    url: str
    "Free of secrets."
    files: int
    nbytes: int


def upload(
    local: str | os.PathLike[str],
    url: str,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Uploaded:
    """Copy a file, or all files of a directory and below, those behind links too, to a URL.

    Raises OutputBusy for a destination that exists, unless `overwrite`, with which a directory
    takes the place of a Zarr store that has nothing else in it; UsageError for one that cannot be
    written to and for a source that is not there; FormatError where access is denied; Unavailable
    for a store that does not answer. A file is then as it was at the destination, or complete; of a
    directory what has arrived is left there, without the document that opens it, and `overwrite`
    goes over it.
    """
    source = Path(local)
    target = _destination(url, storage_options)
    files = _files(source)
    there = _there(target)
    if there and not overwrite:
        raise OutputBusy(f"{target} exists; choose another name, or say that it may be overwritten")
    if source.is_dir():
        sent = {path.relative_to(source).as_posix(): path for path in files}
        if left := there.keys() - sent.keys() - {REPLACING}:
            require_replaceable(target, left | (there.keys() & DOCUMENTS), REPLACING in there)
        _send_directory(target, sent, there.keys(), overwrite)
    else:
        _send(target, {target: source}, overwrite)
        _check_sizes(target, {target: source})
    return Uploaded(str(target), len(files), sum(path.stat().st_size for path in files))


def listed(url: str, storage_options: Mapping[str, Any] | None) -> dict[str, int]:
    """The objects below a destination, and their sizes; '' names one of the URL itself. Raises as
    `upload` does.
    """
    return _there(_destination(url, storage_options))


def removed(url: str, storage_options: Mapping[str, Any] | None, names: Iterable[str]) -> None:
    """Remove objects below a destination, one after the other."""
    _remove(_destination(url, storage_options), names)


def _destination(url: str, storage_options: Mapping[str, Any] | None) -> Remote:
    """The object or directory to make, in a store whose requests for writing insist by themselves:
    see `_put`.
    """
    target = Remote(url.rstrip("/"), storage_options)
    if not is_remote(url) or scheme(url) in WEB:
        raise UsageError(
            f"{target} cannot be written to; give a URL of an object store, such as s3://bucket/key"
        )
    if "/" not in target.target.partition("://")[2]:
        raise UsageError(
            f"{target} names all of a store; give a place in it, such as {target}/results"
        )
    if scheme(url) not in S3:
        return target
    retries = {"total_max_attempts": store_of(target).attempts, "mode": "standard"}
    config = {"retries": retries, **target.options.get("config_kwargs", {})}
    return Remote(target.target, {**target.options, "config_kwargs": config})


def _files(source: Path) -> list[Path]:
    """The file, or all files of a directory and below, in order. Raises UsageError for anything
    else.
    """
    found = [source]
    if source.is_dir():
        found = sorted(_walk(source, frozenset()))
    if not found:
        raise UsageError(
            f"{source}: there is nothing to upload; give a file, or a directory of files"
        )
    odd = next((path for path in found if not path.is_file()), None)
    if odd is not None:
        raise UsageError(f"{odd} is not a file that is there; give a file, or a directory of files")
    return found


def _walk(folder: Path, above: frozenset[tuple[int, int]]) -> Iterator[Path]:
    """All that is no directory in a directory and below, also behind links. Raises UsageError for
    links in circles.
    """
    state = folder.stat()
    place = (state.st_dev, state.st_ino)
    if place in above:
        raise UsageError(f"{folder} is a link to a directory that it lies in; remove the link")
    for path in folder.iterdir():
        if path.is_dir():
            yield from _walk(path, above | {place})
        else:
            yield path


def _below(target: Remote, name: str) -> Remote:
    if not name:
        return Remote(target.target, target.options)
    return Remote(f"{target.target}/{name}", target.options)


def _send_directory(
    target: Remote, sent: Mapping[str, Path], there: AbstractSet[str], overwrite: bool
) -> None:
    """Send the data, compare them, and only then send the documents, those of the innermost
    directories first.
    """
    files = {_below(target, name): path for name, path in sent.items()}
    documents = {remote: path for remote, path in files.items() if path.name in DOCUMENTS}
    data = {remote: path for remote, path in files.items() if remote not in documents}
    older = {name for name in there if name.rpartition("/")[2] in DOCUMENTS}
    if there:
        _mark(target)
    _remove(target, sorted(older, key=_depth))
    _send(target, data, overwrite)
    _remove(target, sorted(there - older - sent.keys() - {REPLACING}))
    _check_sizes(target, data)
    for depth in sorted({_depth(remote) for remote in documents}, reverse=True):
        _send(target, {r: path for r, path in documents.items() if _depth(r) == depth}, overwrite)
    _check_sizes(target, files)
    if there:
        _remove(target, [REPLACING])


def _mark(target: Remote) -> None:
    """Say that what lies there was a Zarr store, so that it can be replaced should this be
    interrupted.
    """
    store = store_of(target)
    _asked(target, partial(call, store, "pipe_file", f"{path_in(store, target)}/{REPLACING}", b""))


def _depth(name: str) -> int:
    return name.count("/")


def _send(target: Remote, files: Mapping[Remote, Path], overwrite: bool) -> None:
    """Send files, several at a time; when one fails, those under way are given up."""
    waiting: deque[tuple[Remote, int, Future[None]]] = deque()
    try:
        for remote, path in files.items():
            if len(waiting) == DEPTH:
                finished(*waiting.popleft())
            nbytes = path.stat().st_size
            waiting.append((remote, nbytes, submit(_sent(target, remote, path, nbytes, overwrite))))
        while waiting:
            finished(*waiting.popleft())
    finally:
        for _, _, future in waiting:
            future.cancel()


async def _sent(target: Remote, remote: Remote, path: Path, nbytes: int, overwrite: bool) -> None:
    """Send one file."""
    store = store_of(target)
    is_s3 = scheme(target.target) in S3
    name = path_in(store, remote)

    async def attempt() -> None:
        if is_s3:
            await _put(store, path, name, nbytes, overwrite)
        elif scheme(target.target) in _AT_ONCE:
            await call(store, "put_file", str(path), name)
        else:
            folder, _, last = name.rpartition("/")
            temporary = f"{folder}/.{last}.{secrets.token_hex(8)}.part"
            await call(store, "put_file", str(path), temporary)
            await in_thread(partial(store.fs.mv, temporary, name))

    await insist(remote, nbytes, attempt, alone=is_s3)


def _asked(target: Remote, attempt: Callable[[], Awaitable[T]]) -> T:
    """What a small request comes to."""
    return wait(target, 0, insist(target, 0, attempt, alone=scheme(target.target) in S3))


async def _put(store: Store, path: Path, name: str, nbytes: int, overwrite: bool) -> None:
    """A file into S3: botocore repeats what fails of its requests, so that a large file is not sent
    all over again.

    Nobody else's object is written over, where the store knows conditions.
    """
    part_nbytes = max(PART_NBYTES, -(-nbytes // _MOST_PARTS))
    sizes = {"chunksize": part_nbytes, "max_concurrency": DEPTH}
    mode = "overwrite" if overwrite else "create"
    try:
        await call(store, "put_file", str(path), name, mode=mode, **sizes)
    except Exception as error:
        if overwrite or understand(error).status != _NO_CONDITIONS:
            raise
        await call(store, "put_file", str(path), name, **sizes)


def _there(target: Remote) -> dict[str, int]:
    """The objects at a URL and below: their names from there on, '' for that at the URL itself, and
    sizes.
    """
    store = store_of(target)
    above = path_in(store, target)

    async def attempt() -> dict[str, int]:
        store.fs.invalidate_cache()
        found = await call(store, "find", above, detail=True)
        return {
            str(name)[len(above) + 1 :]: int(about["size"] or 0) for name, about in found.items()
        }

    return _asked(target, attempt)


def _remove(target: Remote, names: Iterable[str]) -> None:
    """Remove objects below a URL, one after the other."""
    store = store_of(target)
    for name in names:
        _asked(target, partial(call, store, "rm_file", f"{path_in(store, target)}/{name}"))


def _check_sizes(target: Remote, files: Mapping[Remote, Path]) -> None:
    """Raise Unavailable where an object is not as large as its file."""
    there = _there(target)
    for remote, path in files.items():
        found = there.get(remote.target[len(target.target) + 1 :])
        expected = path.stat().st_size
        if found != expected:
            raise Unavailable(
                f"{remote}: holds {found or 0} bytes of {expected} after it was sent; upload it"
                " again"
            )
