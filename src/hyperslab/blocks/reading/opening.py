"""The file of a source while it is read: still the one that was described, or SourceChanged is
raised.

A change before the read and one meanwhile are both seen, as is one that made the file unreadable.
Where a copy of the file lies on faster storage, it is that which is read, and looked at.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.kept import Reader, let_go_of_all
from hyperslab.errors import AGAIN, FormatError, SourceChanged, SourceGone
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.file import RemoteFile
from hyperslab.trace import span


@contextmanager
def opened(source: ArraySource, reader: Reader | None = None) -> Iterator[OpenFile | RemoteFile]:
    """The source's file for a read; a reader keeps it open."""
    if isinstance(source.url, Remote):
        remote = RemoteFile(source.url)
        yield remote
        remote.check()
        return
    own: OpenFile | None = None
    if reader is None:
        file = own = _open(source)
    else:
        file = reader.file(lambda: _open(source))
    try:
        yield OpenFile(file.fd, file.where, is_copy=file.is_copy)
    except FormatError:
        _check_unchanged(source, own)
        raise
    else:
        _check_unchanged(source, own)
    finally:
        if own is not None:
            os.close(own.fd)


@contextmanager
def watched(source: ArraySource) -> Iterator[None]:
    """A directory for a read by a library, before and after which its metadata document is the one
    described.

    That of one elsewhere is looked at once, at the end: so a change before and one meanwhile are
    both seen.
    """
    if not isinstance(source.url, RemoteFolder):
        with span("open"):
            _check_unchanged(source, None)
    try:
        yield
    except FormatError:
        _check_document(source)
        raise
    else:
        _check_document(source)


def _check_document(source: ArraySource) -> None:
    if isinstance(source.url, RemoteFolder):
        from hyperslab.storage.remote.folder import check

        check(source.url, source.document)
    else:
        _check_unchanged(source, None)


def _open(source: ArraySource) -> OpenFile:
    copy = _copy(source)
    if copy is not None:
        return copy
    with span("open"):
        try:
            fd = _descriptor(source.url)
        except FileNotFoundError as error:
            raise _gone(source) from error
    return OpenFile(fd, source.label)


def _copy(source: ArraySource) -> OpenFile | None:
    """The copy of a source on a fast tier; None where there is none."""
    if not source.copy:
        return None
    from hyperslab.storage.staging import copies

    fd = copies.opened(source.copy)
    if fd is None:
        return None
    return OpenFile(fd, source.label, is_copy=True)


def _descriptor(path: str) -> int:
    """Open a file for reading; where too many are open already, views close theirs first."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    let_go_of_all()
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _check_unchanged(source: ArraySource, file: OpenFile | None) -> None:
    """Look at an open file, or at the one that has the source's name now."""
    try:
        now = os.stat(source.watched) if file is None else os.fstat(file.fd)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _gone(source) from error
    if now.st_size != source.file_size:
        was = f"was {source.file_size} bytes when the run was planned"
        raise _changed(source, f"{was} and is {now.st_size} now")
    if now.st_mtime_ns != source.mtime_ns:
        raise _changed(source, "was written to after the run was planned")


def _gone(source: ArraySource) -> SourceGone:
    return SourceGone(f"{source.url}: is no longer there: restore it", AGAIN)


def _changed(source: ArraySource, what: str) -> SourceChanged:
    return SourceChanged(f"{source.url}: {what}: restore it", AGAIN)
