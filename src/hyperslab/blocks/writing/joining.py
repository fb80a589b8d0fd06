"""Files of pieces that many writers encode: begun before the first, complete when the last is
there.

Of a format that can say in the end where its pieces lie (a sink in pieces with a head), those that
writers have put into the file stay where they are, and others are copied behind them. Files of
other formats are joined of copies, in the order of the pieces' numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import cast

from hyperslab.arrays.sink import ArraySink, Encoded
from hyperslab.blocks.positioned import opened, write_at
from hyperslab.blocks.writing import segments
from hyperslab.blocks.writing.directio import WINDOW_NBYTES, DirectFile
from hyperslab.blocks.writing.segments import Segment
from hyperslab.errors import AGAIN, FormatError
from hyperslab.formats import hooks, module
from hyperslab.storage.frame import Span

_ASSEMBLED = "assembled"


def begin(sink: ArraySink, folder: str) -> Path:
    """The home in a folder, with the head of a sink; what is behind that already stays. Raises
    OSError.
    """
    path = Path(segments.home(folder))
    if not path.exists():
        segments.remove_tables(folder)
        new = path.with_suffix(".new")
        new.write_bytes(sink.head or b"")
        new.rename(path)
    with opened(
        str(path), os.O_WRONLY
    ) as fd:  # an earlier commit may have changed it, or the machine lost it
        write_at(fd, [memoryview(sink.head or b"")], 0)
    return path


def write(sink: ArraySink, path: Path, pieces: Iterable[Encoded]) -> None:
    """Write the file of all pieces, which come in the order of their numbers. Raises OSError and
    FormatError.
    """
    if sink.head is None:
        _assemble(sink, path, pieces, False)
        return
    path.write_bytes(sink.head)
    _finish(sink, path, segments.put(str(path), pieces, False), False)


def join(
    sink: ArraySink, folder: str, held: Sequence[Segment], is_local: bool
) -> tuple[Path, list[Span]]:
    """Complete the file of all segments in a folder; what is copied goes past the page cache where
    that is local.

    Returns it, and where it holds no values. Raises OSError, and FormatError when pieces are
    missing or damaged.
    """
    if sink.head is None:
        path = Path(folder, _ASSEMBLED)
        with _copied(path):
            return path, [_assemble(sink, path, segments.pieces(held), is_local)]
    path = Path(segments.home(folder))
    if not any(map(segments.is_home, held)):
        with _copied(path):
            return path, _settled(sink, folder, held, is_local)
    if not path.exists():
        raise FormatError(f"{path} is gone, with what was written to it", AGAIN)
    return path, _settled(sink, folder, held, is_local)


@contextmanager
def _copied(path: Path) -> Iterator[None]:
    """A block that makes a file of copies; where it fails, as on a full disk, they take no room any
    more.
    """
    path.unlink(missing_ok=True)  # with what a process that was killed has copied
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _settled(sink: ArraySink, folder: str, held: Sequence[Segment], is_local: bool) -> list[Span]:
    """Complete the file that pieces stay in; where it holds no values."""
    path = begin(sink, folder)
    return _finish(sink, path, segments.settle(held, folder, is_local), is_local)


def _assemble(sink: ArraySink, path: Path, pieces: Iterable[Encoded], is_direct: bool) -> Span:
    """Write all pieces; where the first part lies, which holds no values."""
    head_nbytes = 0
    with (
        opened(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd,
        DirectFile(str(path), fd, is_direct) as file,
    ):
        filled = offset = 0
        for data in cast(hooks.Joins, module(sink.format)).assemble(sink, pieces):
            rest = memoryview(data)
            head_nbytes = head_nbytes or len(rest)
            while rest:
                count = min(len(rest), WINDOW_NBYTES - filled)
                file.window[filled : filled + count] = rest[:count]
                filled += count
                rest = rest[count:]
                if filled == WINDOW_NBYTES:
                    file.write(filled, offset)
                    filled, offset = 0, offset + filled
        file.write(filled, offset)
    return Span("", 0, head_nbytes)


def _finish(sink: ArraySink, path: Path, table: segments.Table, is_shared: bool) -> list[Span]:
    """Add to head and pieces what makes them a file; a writer that nobody waits for may still be at
    one of many.

    Returns where it holds no values.
    """
    spans = [Span("", 0, len(sink.head or b""))]
    with opened(str(path), os.O_WRONLY) as fd, segments.locked(fd) if is_shared else nullcontext():
        about = table["number"], table["nbytes"], table["offset"], os.fstat(fd).st_size
        for offset, data in cast(hooks.Indexes, module(sink.format)).index(sink, *about):
            write_at(fd, [memoryview(data)], offset)
            spans.append(Span("", offset, len(data)))
    return spans
