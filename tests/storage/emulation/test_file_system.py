"""An emulated tier is a file system like others: what pjdfstest asks of one."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.storage.emulation import program
from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import mounted

MB = 1 << 20
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("tier")
    with mounted(place, Settings()):
        yield place


@pytest.fixture
def here(tier: Path, request: pytest.FixtureRequest) -> Path:
    folder = tier / str(request.node.name)
    folder.mkdir()
    return folder


def test_a_rename_replaces_what_is_there(here: Path) -> None:
    (here / "a").write_text("new")
    (here / "b").write_text("old")
    with (here / "b").open() as old:
        (here / "a").rename(here / "b")
        assert old.read() == "old"
    assert (here / "b").read_text() == "new"
    assert os.listdir(here) == ["b"]


def test_a_rename_may_refuse_to_replace_and_may_exchange(here: Path) -> None:
    (here / "a").write_text("a")
    (here / "b").write_text("b")
    assert _rename(here / "a", here / "b", RENAME_NOREPLACE) == errno.EEXIST
    assert _rename(here / "a", here / "b", RENAME_EXCHANGE) == 0
    assert (here / "a").read_text() == "b"


def _rename(old: Path, new: Path, flags: int) -> int:
    done = libc.renameat2(-100, bytes(old), -100, bytes(new), flags)
    return ctypes.get_errno() if done else 0


def test_directories_are_renamed_with_what_is_in_them(here: Path) -> None:
    (here / "a" / "deep").mkdir(parents=True)
    (here / "a" / "deep" / "x").write_text("x")
    (here / "b").mkdir()
    (here / "a").rename(here / "b" / "c")
    assert (here / "b" / "c" / "deep" / "x").read_text() == "x"
    with pytest.raises(OSError, match="Invalid argument"):
        (here / "b").rename(here / "b" / "c" / "d")
    with pytest.raises(OSError, match="not empty"):
        (here / "b").rmdir()


def test_an_unlinked_file_lives_while_it_is_open(here: Path) -> None:
    path = here / "a"
    with path.open("w+b") as file:
        file.write(b"x" * 100_000)
        path.unlink()
        assert not path.exists()
        path.write_bytes(b"another")
        file.seek(50_000)
        assert file.read() == b"x" * 50_000
        file.truncate(10)
        assert os.fstat(file.fileno()).st_size == 10
        assert os.fstat(file.fileno()).st_nlink == 0
    assert path.read_bytes() == b"another"


def test_files_are_cut_and_grow(here: Path) -> None:
    path = here / "a"
    path.write_bytes(b"abcdef" * 10_000)
    os.truncate(path, 7)
    assert path.read_bytes() == b"abcdefa"
    with path.open("r+b") as file:
        file.truncate(5000)
    assert path.read_bytes() == b"abcdefa" + bytes(4993)


def test_shared_mappings_are_written(here: Path) -> None:
    path = here / "a"
    path.write_bytes(bytes(3 * mmap.PAGESIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as first:
        first[mmap.PAGESIZE : mmap.PAGESIZE + 5] = b"abcde"
        with path.open("r+b") as other, mmap.mmap(other.fileno(), 0) as second:
            assert second[mmap.PAGESIZE : mmap.PAGESIZE + 5] == b"abcde"
            second[0:2] = b"xy"
        assert first[0:2] == b"xy"
        first.flush()
        assert os.pread(file.fileno(), 2, 0) == b"xy"
    data = path.read_bytes()
    assert data[mmap.PAGESIZE :][:5] == b"abcde"


def test_a_mapping_that_nobody_syncs_is_there_after_close(here: Path) -> None:
    path = here / "a"
    path.write_bytes(bytes(mmap.PAGESIZE))
    code = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b')\n"
        "mmap.mmap(file.fileno(), 0)[:4] = b'mine'"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert path.read_bytes()[:4] == b"mine"


def test_writers_at_once_do_not_disturb_each_other(here: Path) -> None:
    path = here / "a"
    path.touch()
    piece = 70_001

    def write(number: int) -> None:
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), bytes([number]) * piece, number * piece)

    _at_once(write, 8)
    assert path.read_bytes() == b"".join(bytes([number]) * piece for number in range(8))


def test_what_is_appended_at_once_is_all_there(here: Path) -> None:
    path = here / "log"

    def append(number: int) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for line in range(20):
            os.write(descriptor, f"{number} {line}\n".encode())
        os.close(descriptor)

    _at_once(append, 4)
    lines = sorted(path.read_text().splitlines())
    assert lines == sorted(f"{number} {line}" for number in range(4) for line in range(20))


def _at_once(act: Callable[[int], None], number: int) -> None:
    threads = [threading.Thread(target=act, args=(one,)) for one in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_file_is_made_once(here: Path) -> None:
    made = []

    def make(number: int) -> None:
        try:
            os.close(os.open(here / "lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            made.append(number)
        except FileExistsError:
            pass

    _at_once(make, 8)
    assert len(made) == 1


def test_locks_hold(here: Path) -> None:
    path = here / "a"
    with path.open("w") as first, path.open("w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_hard_links_are_one_file(here: Path) -> None:
    (here / "a").write_text("one")
    os.link(here / "a", here / "b")
    (here / "b").write_text("two")
    assert (here / "a").read_text() == "two"
    assert (here / "a").stat().st_ino == (here / "b").stat().st_ino
    assert (here / "a").stat().st_nlink == 2
    (here / "a").unlink()
    assert (here / "b").stat().st_nlink == 1
    assert (here / "b").read_text() == "two"


def test_symbolic_links_lead_on(here: Path) -> None:
    (here / "dir").mkdir()
    (here / "dir" / "x").write_text("x")
    (here / "link").symlink_to("dir/x")
    (here / "nowhere").symlink_to("gone")
    assert (here / "link").read_text() == "x"
    assert os.readlink(here / "nowhere") == "gone"
    assert not (here / "nowhere").exists()
    os.link(here / "nowhere", here / "again", follow_symlinks=False)
    assert os.readlink(here / "again") == "gone"


def test_other_kinds_of_files(here: Path) -> None:
    os.mkfifo(here / "pipe")
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)
    assert os.listdir(here) == ["pipe"]


def test_extended_attributes(here: Path) -> None:
    path = here / "a"
    path.touch()
    try:
        os.setxattr(path, "user.one", b"1")
    except OSError as error:
        pytest.skip(f"the file system of the temporary directory has no such attributes: {error}")
    os.setxattr(path, "user.long", b"x" * 2000)
    with pytest.raises(FileExistsError):
        os.setxattr(path, "user.one", b"2", os.XATTR_CREATE)
    assert set(os.listxattr(path)) >= {"user.one", "user.long"}
    assert os.getxattr(path, "user.long") == b"x" * 2000
    os.removexattr(path, "user.one")
    with pytest.raises(OSError, match="No data available"):
        os.getxattr(path, "user.one")


def test_holes_stay_holes(here: Path) -> None:
    path = here / "a"
    with path.open("w+b") as file:
        os.pwrite(file.fileno(), b"end", 1 << 40)
        assert path.stat().st_size == (1 << 40) + 3
        assert path.stat().st_blocks < 100
        assert os.pread(file.fileno(), 10, 1 << 40) == b"end"


def test_nobody_takes_for_a_hole_what_is_mapped(here: Path) -> None:
    path = here / "a"
    with path.open("w+b") as file:
        file.truncate(2 * MB)
        with mmap.mmap(file.fileno(), 2 * MB) as mapped:
            mapped[MB] = 7
            assert file.seek(0, os.SEEK_DATA) <= MB
            subprocess.run(["cp", path, here / "copy"], check=True)
            assert (here / "copy").read_bytes()[MB] == 7


def test_space_is_set_aside_and_given_back(here: Path) -> None:
    path = here / "a"
    with path.open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        assert path.stat().st_size == 1 << 20
        os.pwrite(file.fileno(), b"x" * (1 << 20), 0)
        os.fsync(file.fileno())
        before = path.stat().st_blocks
        mode = KEEP_SIZE | PUNCH_HOLE
        place = ctypes.c_long(1 << 16)
        assert libc.fallocate(file.fileno(), mode, place, ctypes.c_long(1 << 19)) == 0
        assert os.pread(file.fileno(), 4, 1 << 16) == bytes(4)
        assert path.stat().st_size == 1 << 20
        assert path.stat().st_blocks < before


def test_space_is_that_of_the_directory_beneath(here: Path, tmp_path: Path) -> None:
    tier = os.statvfs(here)
    beneath = os.statvfs(tmp_path)
    assert tier.f_frsize * tier.f_blocks == beneath.f_frsize * beneath.f_blocks
    assert tier.f_namemax == beneath.f_namemax


def test_modes_and_times(here: Path) -> None:
    path = here / "a"
    path.touch(mode=0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 & ~_mask()
    path.chmod(0o751)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    os.utime(path, ns=(1_500_000_000_123_456_789, -2_750_000_000))
    assert path.stat().st_atime_ns == 1_500_000_000_123_456_789
    assert path.stat().st_mtime_ns == -2_750_000_000
    link = here / "link"
    link.symlink_to("a")
    os.utime(link, ns=(5, 6), follow_symlinks=False)
    assert link.lstat().st_mtime_ns == 6
    assert path.stat().st_mtime_ns == -2_750_000_000


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the rights of another user: run as root")
def test_permissions_hold_for_others(here: Path, tier: Path) -> None:
    here.chmod(0o755)
    tier.chmod(0o755)
    (here / "mine").write_text("mine")
    (here / "mine").chmod(0o600)
    (here / "open").mkdir()
    (here / "open").chmod(0o1777)
    (here / "open" / "kept").write_text("kept")
    code = f"""
import os
os.chdir({str(here)!r})
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for refused in (
    lambda: open("mine"), lambda: open("new", "w"), lambda: os.unlink("open/kept"),
    lambda: os.chmod("mine", 0o777), lambda: os.rename("open/kept", "open/other"),
):
    try:
        refused()
    except PermissionError:
        continue
    raise SystemExit("allowed")
open("open/theirs", "w").write("theirs")
os.mkdir("open/dir")
"""
    # Nobody may reach the temporary directory by its path: the child enters it before it changes.
    subprocess.run([sys.executable, "-c", code], check=True)
    theirs = (here / "open" / "theirs").stat()
    assert (theirs.st_uid, theirs.st_gid) == (65534, 65534)
    assert (here / "open" / "dir").stat().st_uid == 65534


def test_large_directories_are_listed_whole(here: Path) -> None:
    names = {f"a-rather-long-name-of-a-file-{number:05}" for number in range(3000)}
    for name in names:
        os.mknod(here / name)
    assert set(os.listdir(here)) == names
    for entry in os.scandir(here):
        os.unlink(entry.path)
    assert os.listdir(here) == []


def test_what_is_past_the_page_cache_is_the_same(here: Path) -> None:
    path = here / "a"
    data = os.urandom(300_000)
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, 1 << 19)
    assert os.preadv(descriptor, [buffer], 0) == 300_000
    assert buffer[:300_000] == data
    buffer[:4096] = bytes(4096)
    assert os.pwritev(descriptor, [memoryview(buffer)[:4096]], 8192) == 4096
    os.close(descriptor)
    assert path.read_bytes() == data[:8192] + bytes(4096) + data[12288:]


def test_what_was_read_stays_in_memory_if_asked_for(tmp_path: Path) -> None:
    for page_cache in (True, False):
        place = tmp_path / f"tier-{page_cache}"
        place.mkdir()
        settings = Settings(bandwidth=500 * MB, page_cache=page_cache)
        with mounted(place, settings) as emulation:
            (place / "a").write_bytes(bytes(MB))
            for _ in range(2):
                (place / "a").read_bytes()
            assert program.counters(emulation)["read_nbytes"] == (0 if page_cache else 2 * MB)


def test_what_is_changed_beneath_is_seen_by_who_opens_it(tmp_path: Path) -> None:
    """Although what was read stays in memory, and the size is the same."""
    first, other = b"1" * 2 * mmap.PAGESIZE, b"2" * 2 * mmap.PAGESIZE
    beneath, place = tmp_path / "beneath", tmp_path / "tier"
    for folder in (beneath, place):
        folder.mkdir()
    with mounted(place, Settings(page_cache=True), beneath) as emulation:
        (place / "a").write_bytes(first)
        assert (place / "a").read_bytes() == first
        before = program.counters(emulation)["read_nbytes"]
        assert (place / "a").read_bytes() == first
        assert program.counters(emulation)["read_nbytes"] == before
        with (beneath / "a").open("r+b") as file:
            file.write(other)
        os.utime(beneath / "a", ns=(0, 0))  # however coarse the clock of the file system
        for _ in range(2):
            assert (place / "a").read_bytes() == other
        assert program.counters(emulation)["read_nbytes"] == before + len(other)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system: run as root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", tmp_path], check=True)
    try:
        (tmp_path / "tier").mkdir()
        with mounted(tmp_path / "tier", Settings()):
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "tier" / "a").write_bytes(bytes(2 << 20))
            (tmp_path / "tier" / "a").unlink()
            (tmp_path / "tier" / "a").write_bytes(bytes(1 << 19))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
