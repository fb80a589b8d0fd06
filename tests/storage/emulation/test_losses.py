"""What the directory beneath a tier refuses or loses is told, as it would be there."""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import needs_root, small_disk, thin_disk

MB = 1 << 20
PAGE = mmap.PAGESIZE
ROOM = 16 * PAGE


@pytest.fixture
def beneath(tmp_path: Path) -> Path:
    return _folder(tmp_path / "beneath")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return _folder(tmp_path / "tier")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_limit_is_that_of_who_writes(place: Path) -> None:
    """Beyond one that the program cannot raise, writing fails, and the tier goes on."""
    with ExitStack() as stack:
        with _limited(MB):
            tier = stack.enter_context(mounted(place, Settings()))
        (place / "a").write_bytes(bytes(2 * MB))
        assert tier.pid is not None
        resource.prlimit(tier.pid, resource.RLIMIT_FSIZE, (MB, MB))
        with pytest.raises(OSError, match="File too large"):
            (place / "b").write_bytes(bytes(2 * MB))
        with pytest.raises(OSError, match="File too large"):
            os.truncate(place / "b", 2 * MB)
        assert (place / "a").read_bytes() == bytes(2 * MB)


@contextmanager
def _limited(nbytes: int) -> Iterator[None]:
    """Programs that are started in the block may write files of so many bytes, or raise that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@needs_root
def test_a_mapping_that_finds_room_in_part_is_told(beneath: Path, place: Path) -> None:
    """The kernel writes it back by one request, and does not look how much of that was taken."""
    with small_disk(beneath, f"size={ROOM}"), mounted(place, Settings(), beneath):
        (place / "kept").write_bytes(bytes(ROOM // 2))
        with (place / "a").open("w+b") as file:
            file.truncate(ROOM)
            with mmap.mmap(file.fileno(), ROOM) as mapped:
                mapped[:] = b"x" * ROOM
                with pytest.raises(OSError, match="No space left"):
                    mapped.flush()


@needs_root
def test_what_a_disk_has_lost_is_told_by_fsync(beneath: Path, place: Path, tmp_path: Path) -> None:
    disk = _folder(tmp_path / "disk")
    with ExitStack() as stack:
        stack.enter_context(small_disk(beneath, "size=8m"))
        stack.enter_context(thin_disk(beneath / "image", disk))
        stack.enter_context(mounted(place, Settings(), disk))
        with (place / "a").open("wb", buffering=0) as file:
            file.write(b"x" * (12 * MB))
            with pytest.raises(OSError, match=r"Input/output|No space left"):
                os.fsync(file.fileno())


@needs_root
def test_what_is_lost_beneath_is_told_at_close(beneath: Path, place: Path, tmp_path: Path) -> None:
    """As a server tells it; here the server is a tier, in which a mapping has not been written."""
    server = _folder(tmp_path / "server")
    with ExitStack() as stack:
        stack.enter_context(small_disk(beneath, f"size={ROOM}"))
        stack.enter_context(mounted(server, Settings(), beneath))
        stack.enter_context(mounted(place, Settings(), server))
        file = stack.enter_context((server / "a").open("w+b"))
        file.truncate(2 * ROOM)
        mapped = stack.enter_context(mmap.mmap(file.fileno(), 2 * ROOM))
        descriptor = os.open(place / "a", os.O_RDONLY)
        mapped[:] = b"x" * (2 * ROOM)
        with pytest.raises(OSError, match="No space left"):
            os.close(descriptor)
