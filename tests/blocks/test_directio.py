"""Direct writes against a file in memory: on file systems that refuse them, on full ones, and where
processes fork.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hyperslab.blocks.writing import directio
from hyperslab.blocks.writing.directio import ALIGNMENT, DirectFile
from tests.descriptors import descriptors_below

WINDOW = 2 * ALIGNMENT
EITHER = pytest.mark.parametrize("is_direct", [False, True])


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directio, "WINDOW_NBYTES", WINDOW)
    monkeypatch.setattr(directio, "_unused", deque(maxlen=4))


class Writes:
    """The positions written past the page cache, and what to refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.direct: list[int] = []
        self.refusing: dict[str, int] = {}
        self._fds: set[int] = set()
        self._open, self._pwritev = os.open, os.pwritev
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "pwritev", self.pwritev)

    def open(self, path: str, flags: int, *mode: int) -> int:
        is_direct = bool(flags & os.O_DIRECT)
        if is_direct and "open" in self.refusing:
            raise OSError(self.refusing["open"], "refused", path)
        fd = self._open(path, flags, *mode)
        self._fds.add(fd) if is_direct else self._fds.discard(fd)
        return fd

    def pwritev(self, fd: int, buffers: list[memoryview], offset: int) -> int:
        kind = "direct" if fd in self._fds else "plain"
        if kind in self.refusing:
            raise OSError(self.refusing[kind], "refused")
        if kind == "direct":
            self.direct.append(offset)
        (data,) = buffers
        return self._pwritev(
            fd, [data[: len(data) if kind == "direct" else max(1, len(data) // 2)]], offset
        )


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


@contextmanager
def opened(path: Path, is_direct: bool) -> Iterator[DirectFile]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        with DirectFile(str(path), fd, is_direct) as file:
            yield file
    finally:
        os.close(fd)


def fill(file: DirectFile, seed: int) -> bytes:
    """Windows and longer data at multiples of pages and elsewhere; what the file then is."""
    random, expected = np.random.default_rng(seed), bytearray()
    for _ in range(40):
        offset = int(random.integers(20)) * ALIGNMENT + int(random.choice([0, 0, 1, 777]))
        nbytes = int(
            random.choice(
                [0, 1, 100, ALIGNMENT, ALIGNMENT + 1, WINDOW, 3 * WINDOW, 3 * WINDOW + 17]
            )
        )
        data = random.bytes(nbytes)
        if nbytes > WINDOW or random.random() < 0.3:
            file.write_large(memoryview(data), offset)
        else:
            file.window[:nbytes] = data
            file.write(nbytes, offset)
        if data:
            expected.extend(bytes(max(0, offset + nbytes - len(expected))))
            expected[offset : offset + nbytes] = data
    return bytes(expected)


@EITHER
@pytest.mark.parametrize("seed", range(8))
def test_the_file_is_what_was_written(
    tmp_path: Path, seed: int, is_direct: bool, writes: Writes
) -> None:
    """Later writes lie over earlier ones, and the system takes less at a time than it was given."""
    with opened(tmp_path / "new", is_direct) as file:
        expected = fill(file, seed)
    assert (tmp_path / "new").read_bytes() == expected
    assert bool(writes.direct) == is_direct
    assert all(offset % ALIGNMENT == 0 for offset in writes.direct)


@pytest.mark.parametrize("what", ["open", "direct"])
def test_a_file_system_that_refuses_gets_it_the_usual_way(
    tmp_path: Path, what: str, writes: Writes
) -> None:
    writes.refusing[what] = errno.EINVAL
    with opened(tmp_path / "new", True) as file:
        expected = fill(file, 1)
    assert (tmp_path / "new").read_bytes() == expected
    assert writes.direct == []


def test_a_refusal_that_is_no_want_of_direct_writes_is_raised(
    tmp_path: Path, writes: Writes
) -> None:
    writes.refusing["open"] = errno.EIO
    with pytest.raises(OSError, match="refused"), opened(tmp_path / "new", True):
        pass
    assert descriptors_below(tmp_path) == []


@EITHER
def test_a_write_that_fails_is_raised_with_its_file(
    tmp_path: Path, is_direct: bool, writes: Writes
) -> None:
    """By the next one, or at the end; nothing is left open."""

    def write(times: int) -> None:
        with opened(tmp_path / "new", is_direct) as file:
            writes.refusing["direct" if is_direct else "plain"] = errno.ENOSPC
            for n in range(times):
                file.write(WINDOW, n * WINDOW)
        raise AssertionError("it was not raised")

    for times in (1, 3):
        with pytest.raises(OSError, match="refused") as raised:
            write(times)
        assert raised.value.errno == errno.ENOSPC
        writes.refusing.clear()
    assert descriptors_below(tmp_path) == []


def test_what_ended_the_writer_comes_before_a_write_that_failed(
    tmp_path: Path, writes: Writes
) -> None:
    def interrupted() -> None:
        with opened(tmp_path / "new", True) as file:
            writes.refusing["direct"] = errno.ENOSPC
            file.write(WINDOW, 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted()
    assert "refused" in raised.value.__notes__[0]


def test_windows_are_used_again_but_never_by_two(tmp_path: Path) -> None:
    """Also not by the process that a fork makes, and the one that it was made of."""
    with opened(tmp_path / "a", True) as first, opened(tmp_path / "b", True) as second:
        windows = {id(file.window.obj) for file in (first, second)} | {
            id(f._other.obj) for f in (first, second)
        }
        assert len(windows) == 4
    with opened(tmp_path / "c", True) as third:
        assert id(third.window.obj) in windows
    window = directio._unused[0]
    window[:3] = b"old"
    child = os.fork()
    if not child:
        window[:3] = b"new"
        os._exit(0)
    os.waitpid(child, 0)
    assert bytes(window[:3]) == b"old"
