"""Files that are either whole or not there: they get their name when all is written."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


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
    writer = f"{os.getpid()}.{threading.get_native_id()}"  # two threads may write at a time
    temporary = path.with_name(f".{path.name}.{writer}.partial")
    with appearing(path, temporary) as partial, partial.open("wb") as raw:
        stream: Any = raw
        if path.suffix == ".gz":
            stream = gzip.GzipFile("", "wb", 6, raw, mtime=0)
        with io.TextIOWrapper(
            stream, encoding="utf-8", errors="backslashreplace", newline=""
        ) as file:
            yield file
            file.flush()
            if stream is not raw:
                stream.close()
                raw.flush()
            os.fsync(raw.fileno())
