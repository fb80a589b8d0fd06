"""Detection of the format of a file by its first bytes, of a directory by what is in it; a suffix
says what a new one shall be.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from hyperslab.errors import FormatError, Missing
from hyperslab.formats.facts import HEAD_NBYTES, Facts, Magic
from hyperslab.formats.table import (
    facts_of_file_name,
    is_store_name,
    known,
    store_of,
    supported,
)
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.file import open_binary

_ANNEX_POINTER = b"/annex/objects/"
_ZIP_MAGIC = b"PK\x03\x04"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_HEAD_NBYTES = 2**16
"Stored bytes in which the head of a compressed file has to begin."


def is_store(path: str) -> bool:
    """True for a directory that is a source itself, not a folder of sources: a Zarr store, or named
    like one.
    """
    if not os.path.isdir(path):
        return False
    return is_store_name(path) or _kind_of_directory(path) is not None


def detect(path: str) -> str:
    """Name of the format of a file, by its first bytes, or of a directory, by what is in it.

    Raises FormatError that says what is there instead.
    """
    if isinstance(path, RemoteFolder):
        return _kind_of_remote(path)
    if not isinstance(path, Remote):
        kind = _kind_of_directory(path)
        if kind is not None:
            return kind
        _check_is_file(path)
    try:
        with open_binary(path) as file:
            return _by_magic(path, file)
    except OSError as error:
        remedy = "check its permissions"
        if error.errno == errno.EMFILE:
            remedy = "raise the limit of ulimit -n"
        raise FormatError(f"{path} cannot be read: {error.strerror}; {remedy}") from error


def _kind_of_remote(path: RemoteFolder) -> str:
    """The format of a store elsewhere, as its name says; without one it is Zarr, as `find` has
    seen.
    """
    named = store_of(path)
    if named is None:
        return "zarr"
    if not named.has_remote_stores:
        raise FormatError(
            f"{path}: {named.title} stores are not read from a URL; copy it to this machine first"
        )
    return named.name


def _kind_of_directory(path: str) -> str | None:
    """The format whose documents are in a directory, or None."""
    if not os.path.isdir(path):
        return None
    for facts in known().values():
        for name in facts.documents:
            if os.path.isfile(os.path.join(path, name)):
                return facts.name
    return None


def _check_is_file(path: str) -> None:
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if file.is_symlink():
            raise Missing(_dangling(file)) from None
        raise Missing(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        named = facts_of_file_name(path.rstrip("/"))
        if named is not None and named.documents:
            *more, last = named.documents
            raise FormatError(
                f"{path} is named like a {named.title} store but holds no {', '.join(more)} or"
                f" {last}; fetch or copy it again"
            )
        raise FormatError(f"{path} is a directory, not an array file; name a file in it")
    if not stat.S_ISREG(mode):
        raise FormatError(
            f"{path} is not a regular file; arrays are read at positions, which a pipe or device"
            " lacks"
        )


def _dangling(file: Path) -> str:
    target = str(file.readlink())
    if ".git/annex/objects" in target:
        return f"{file}: its content is not here but in a git-annex; run: datalad get {file}"
    return f"{file} is a symbolic link to {target}, which does not exist"


def _by_magic(path: str, file: BinaryIO) -> str:
    head = file.read(HEAD_NBYTES)
    if not head:
        raise FormatError(f"{path} is empty (0 bytes); fetch or copy it again")
    if head.startswith(_ANNEX_POINTER):
        raise FormatError(
            f"{path}: its content is not here but in a git-annex; run: datalad get {path}"
        )
    if head.startswith(_GZIP_MAGIC):
        return _by_magic_gzip(path, head, file)
    kind = _by_head(path, head, known().values()) or _by_later_magic(file)
    if kind is not None:
        return kind
    if head.startswith(_ZIP_MAGIC):
        raise FormatError(
            f"{path} is a ZIP file, which is not read; unpack it first, also if it is a Zarr store"
        )
    named = facts_of_file_name(path)
    if named is not None and named.is_one_array:
        raise FormatError(
            f"{path} is not a {named.title} file although its name says so; supported are"
            f" {supported()}"
        )
    _require_no_values(path)
    raise FormatError(f"{path}: its format is unknown; supported are {supported()}")


def _require_no_values(path: str) -> None:
    """Raise FormatError for a file that has the values of a header beside it, where such a pair is
    not read.
    """
    if isinstance(path, Remote):
        return
    marks = [mark for facts in known().values() for mark in facts.magic if mark.beside]
    file = Path(path)
    for mark in marks:
        own, of_values = mark.beside
        header = file.with_suffix(own)
        is_beside = file.suffix.lower() == of_values and header.is_file()
        if not is_beside or not os.access(header, os.R_OK):
            continue
        with header.open("rb") as other:
            head = other.read(HEAD_NBYTES)
        if head.startswith(mark.text, mark.offset):
            raise FormatError(f"{path} {mark.refusal}")


def _by_head(path: str, head: bytes, among: Iterable[Facts]) -> str | None:
    """The format whose magic is in the first bytes of a file, the magic furthest ahead first; None
    for none. Raises FormatError for files of a kind that is not read.
    """
    marks = [(mark, facts.name) for facts in among for mark in facts.magic]
    for mark, kind in sorted(marks, key=lambda pair: pair[0].offset):
        if not head.startswith(mark.text, mark.offset):
            continue
        if mark.refusal:
            raise FormatError(f"{path} {mark.refusal}")
        return kind
    return None


def _by_later_magic(file: BinaryIO) -> str | None:
    """The format whose magic is further on in a file, where its facts say that it may be."""
    size = file.seek(0, os.SEEK_END)
    for facts in known().values():
        for mark in facts.magic:
            if mark.doubling and _recurs(mark, file, size):
                return facts.name
    return None


def _recurs(mark: Magic, file: BinaryIO, size: int) -> bool:
    offset = mark.doubling
    while offset < size:
        file.seek(offset)
        if file.read(len(mark.text)) == mark.text:
            return True
        offset *= 2
    return False


def _by_magic_gzip(path: str, head: bytes, file: BinaryIO) -> str:
    """The format of what a gzip file holds, whose head may be spread over several members, some of
    them empty.
    """
    stored = head + file.read(_GZIP_HEAD_NBYTES)
    early: EOFError | None = None
    try:
        plain = gzip.GzipFile(fileobj=BytesIO(stored)).read(HEAD_NBYTES)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(
            f"{path}: its gzip data are corrupt ({error}); fetch or copy it again"
        ) from error
    except EOFError as error:
        plain = b""
        early = error
    streams = [facts for facts in known().values() if facts.is_stream]
    kind = _by_head(path, plain, streams)
    if kind is not None:
        return kind
    titles = " or ".join(facts.title for facts in streams)
    what = f"not {titles}"
    if len(plain) < HEAD_NBYTES and file.read(1):
        what = f"its first {_GZIP_HEAD_NBYTES >> 10} KiB inflate to no {titles} header"
    elif early:
        raise FormatError(f"{path}: its gzip data end too early; fetch or copy it again") from early
    raise FormatError(
        f"{path} is compressed, but {what}; unpack it first (supported are {supported()})"
    )
