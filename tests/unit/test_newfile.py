"""A new file by way of a window against the same writes to a file in memory, on file systems that refuse and on full
ones."""

from __future__ import annotations

import errno
import gc
import io
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab import newfile
from hyperslab.newfile import NewFile

WINDOW = 2 * 4096
EITHER = pytest.mark.parametrize("is_direct", [False, True])


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newfile, "WINDOW_NBYTES", WINDOW)


class Writes:
    """The positions written past the page cache, and what to refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.direct: list[int] = []
        self.refusing: dict[str, int] = {}
        self._fds: set[int] = set()
        self._open, self._pwrite = os.open, os.pwrite
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def open(self, path: str, flags: int, *mode: int) -> int:
        is_direct = bool(flags & os.O_DIRECT)
        if is_direct and "open" in self.refusing:
            raise OSError(self.refusing["open"], "refused", path)
        fd = self._open(path, flags, *mode)
        self._fds.add(fd) if is_direct else self._fds.discard(fd)
        return fd

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        kind = "direct" if fd in self._fds else "plain"
        if kind in self.refusing:
            raise OSError(self.refusing[kind], "refused")
        if kind == "direct":
            self.direct.append(offset)
        return self._pwrite(fd, data, offset)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


def steps(file: Any, seed: int) -> list[bytes]:
    """Writes mostly at the end, some before it, some behind a gap; what was read in between."""
    random, end, found = np.random.default_rng(seed), 0, []
    for _ in range(60):
        at = (
            end + int(random.choice([0, 0, 0, 1, 5000, 3 * WINDOW]))
            if random.random() < 0.7
            else random.integers(end + 1)
        )
        data = random.bytes(int(random.choice([0, 1, 100, 4096, WINDOW, WINDOW + 1, 3 * WINDOW + 17])))
        file.seek(int(at))
        assert file.write(data) == len(data)
        end = max(end, file.tell()) if data else end
        file.seek(int(random.integers(end + 1)))
        buffer = bytearray(min(int(random.integers(2 * WINDOW)), end - file.tell()))
        file.readinto(buffer)
        found.append(bytes(buffer))
        assert file.seek(0, os.SEEK_END) == end
    return found


@EITHER
@pytest.mark.parametrize("seed", range(8))
def test_the_file_is_what_was_written_in_any_order(tmp_path: Path, seed: int, is_direct: bool, writes: Writes) -> None:
    expected = io.BytesIO()
    with NewFile(str(tmp_path / "new"), is_direct) as file:
        assert steps(file, seed) == steps(expected, seed)
    assert (tmp_path / "new").read_bytes() == expected.getvalue()
    assert bool(writes.direct) == is_direct
    assert all(offset % WINDOW == 0 for offset in writes.direct)


@pytest.mark.parametrize("what", ["open", "direct"])
def test_a_file_system_that_refuses_gets_it_the_usual_way(tmp_path: Path, what: str, writes: Writes) -> None:
    expected = io.BytesIO()
    writes.refusing[what] = errno.EINVAL
    with NewFile(str(tmp_path / "new"), True) as file:
        steps(file, 1)
    steps(expected, 1)
    assert (tmp_path / "new").read_bytes() == expected.getvalue()
    assert writes.direct == []


def test_a_refusal_that_is_no_want_of_direct_writes_is_raised(tmp_path: Path, writes: Writes) -> None:
    before = len(os.listdir("/proc/self/fd"))
    writes.refusing["open"] = errno.EIO
    with pytest.raises(OSError, match="refused"):
        NewFile(str(tmp_path / "new"), True)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@EITHER
@pytest.mark.parametrize("size", [3, WINDOW, 2 * WINDOW + 5])
def test_the_size_may_be_set(tmp_path: Path, is_direct: bool, size: int) -> None:
    data = bytes(range(256)) * (WINDOW // 128)
    with NewFile(str(tmp_path / "new"), is_direct) as file:
        file.write(data)
        assert file.truncate(size) == size
    assert (tmp_path / "new").read_bytes() == (data + bytes(size))[:size]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        NewFile(str(tmp_path / "new"))
    assert (tmp_path / "new").read_bytes() == b"old"


@EITHER
def test_a_write_that_fails_is_raised_at_the_end_with_its_file(tmp_path: Path, is_direct: bool, writes: Writes) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = NewFile(str(tmp_path / "new"), is_direct)
    writes.refusing["direct" if is_direct else "plain"] = errno.ENOSPC
    assert file.write(bytes(5 * WINDOW)) == 5 * WINDOW
    with pytest.raises(OSError, match=r"refused: .*new") as raised:
        file.close()
    assert raised.value.errno == errno.ENOSPC
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_writer_is_stopped_and_libhdf5_closes_its_file(tmp_path: Path, writes: Writes) -> None:
    taken = []

    def rows() -> Any:
        for n in range(1000):
            if n == 100:
                writes.refusing["plain"] = errno.ENOSPC
            taken.append(n)
            yield n

    def write() -> None:
        with NewFile(str(tmp_path / "new.h5")) as new, h5py.File(new, "w") as file:
            dataset = file.create_dataset("data", (1000, 1000), chunks=(1, 1000), dtype="u1")
            for n in new.until_failure(rows()):
                dataset.id.write_direct_chunk((n, 0), bytes(1000))

    with pytest.raises(OSError, match="refused") as raised:
        write()
    assert raised.value.errno == errno.ENOSPC
    assert 100 <= taken[-1] < 150
    assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE) == 0


@EITHER
def test_a_file_of_hdf5_is_the_one_that_libhdf5_writes_to_memory(tmp_path: Path, is_direct: bool) -> None:
    """Metadata between the chunks and over what is in the file already; many small chunks and a long index of them."""
    values = np.arange(300 * 300, dtype="<u4").reshape(300, 300)

    def fill(file: Any) -> None:
        dataset = file.create_dataset("a/b/data", values.shape, values.dtype, chunks=(7, 11), track_times=False)
        for i in range(0, 300, 7):
            for j in range(0, 300, 11):
                dataset[i : i + 7, j : j + 11] = values[i : i + 7, j : j + 11]
            dataset.attrs[f"row {i}"] = "x" * i

    with NewFile(str(tmp_path / "new.h5"), is_direct) as new, h5py.File(new, "w", rdcc_nbytes=0) as file:
        fill(file)
    own = io.BytesIO()
    with h5py.File(own, "w", rdcc_nbytes=0) as file:
        fill(file)
    assert (tmp_path / "new.h5").read_bytes() == own.getvalue()
    with h5py.File(tmp_path / "new.h5") as file:
        np.testing.assert_array_equal(file["a/b/data"][()], values)
