"""Files that are either whole or not there: they get their name when all is written."""

from __future__ import annotations

import fcntl
import glob
import gzip
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

_PARTIAL = ".partial"
"End of the names of files that are not whole."


@contextmanager
def appearing(final: Path, temporary: Path) -> Iterator[Path]:
    """Another name to write a file to, which is renamed to `final` when the block ends; on failure
    what had that stays, and nothing else does.
    """
    try:
        yield temporary
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_text(path: Path, text: str) -> None:
    """Write UTF-8 text in place of `path`; on failure the old file stays and nothing else does."""
    with replacement(path) as file:
        file.write(text)


@contextmanager
def replacement(path: Path) -> Iterator[TextIO]:
    """A file to write UTF-8 text to, which is renamed to `path` when the block ends; with gzip for
    a name in .gz.
    """
    writer = secrets.token_hex(8)  # two hosts may write at a time
    temporary = path.with_name(f".{path.name}.{writer}{_PARTIAL}")
    with _held(temporary) as raw, appearing(path, temporary):
        with _text_to(raw, path.suffix == ".gz") as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())


@contextmanager
def _text_to(raw: BinaryIO, is_packed: bool) -> Iterator[TextIO]:
    """A file of text that is written to another one, which stays open."""
    with ExitStack() as stack:
        stream: Any = raw
        if is_packed:
            stream = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0))
        file = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
        try:
            yield file
        finally:
            file.detach()


def _held(temporary: Path) -> BinaryIO:
    """A new file that nobody sweeps away while it is open."""
    while True:
        file = temporary.open("wb")
        if _is_locked(file) and os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # somebody sweeps it away in this moment


def _is_locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks, where nothing is swept either
    return True


def sweep(path: Path) -> None:
    """Remove what writers of a `replacement` have left that have died before it was whole."""
    _sweep(path.parent, glob.escape(path.name))


def sweep_folder(folder: Path) -> None:
    """Remove what such writers have left of all files in a folder."""
    _sweep(folder, "*")


def _sweep(folder: Path, names: str) -> None:
    for left in folder.glob(f".{names}.*{_PARTIAL}"):
        with suppress(OSError), left.open("r+b") as file:  # it is being written, or has gone
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
