"""Scratch is a file system like others: what pjdfstest asks of one, and what scratch has beside."""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hyperslab.storage.emulation.program import unmount
from hyperslab.storage.scratch.program import PROGRAM
from tests.storage.emulation.test_file_system import (  # noqa: F401
    MB,
    here,
    libc,
    test_a_file_is_made_once,
    test_a_mapping_that_nobody_syncs_is_there_after_close,
    test_a_rename_may_refuse_to_replace_and_may_exchange,
    test_a_rename_replaces_what_is_there,
    test_an_unlinked_file_lives_while_it_is_open,
    test_directories_are_renamed_with_what_is_in_them,
    test_extended_attributes,
    test_files_are_cut_and_grow,
    test_hard_links_are_one_file,
    test_large_directories_are_listed_whole,
    test_locks_hold,
    test_modes_and_times,
    test_nobody_takes_for_a_hole_what_is_mapped,
    test_other_kinds_of_files,
    test_shared_mappings_are_written,
    test_space_is_set_aside_and_given_back,
    test_symbolic_links_lead_on,
    test_what_is_appended_at_once_is_all_there,
    test_what_is_past_the_page_cache_is_the_same,
    test_writers_at_once_do_not_disturb_each_other,
)
from tests.storage.scratch.stage import hyperslab, needs_root, require_program, small_disk
from tests.system.faults.command import await_that

NBYTES = 32 * MB


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program alone, with all that it can do."""
    place = tmp_path_factory.mktemp("mounted")
    on = tmp_path_factory.mktemp("on")
    with served(on, place):
        yield place
    assert not os.path.ismount(place)
    assert os.listdir(on) == []


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Path]:
    """The same, for a test that counts its room: of others some comes back at any moment."""
    on, place = tmp_path / "on", tmp_path / "place"
    on.mkdir()
    place.mkdir()
    with served(on, place):
        yield place


@contextmanager
def served(on: Path, place: Path, prefix: Sequence[str] = ()) -> Iterator[int]:
    """The program, started behind such words, until the block ends; its number."""
    require_program()
    words = [*prefix, PROGRAM.find(), "mount", str(on), str(NBYTES), str(place)]
    words += ["--attributes", "yes", "--lifeline", "yes"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            status = process.wait(100)
            if status:  # it has left its mount
                unmount(str(place), lazily=True)
    assert status == 0


def free(place: Path) -> int:
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize


def test_room_is_what_was_asked_for_and_comes_back(alone: Path) -> None:
    before = free(alone)
    assert NBYTES // 4 * 3 < before <= NBYTES
    for number in range(20):
        (alone / str(number)).write_bytes(os.urandom(NBYTES // 32))
    assert free(alone) == before - 20 * NBYTES // 32
    for number in range(20):
        (alone / str(number)).unlink()
    (alone / "sparse").touch()
    os.truncate(alone / "sparse", 100 * NBYTES)
    _await_free(alone, before)


def _await_free(place: Path, nbytes: int) -> None:
    """The kernel forgets what is gone a moment after it has answered."""
    await_that(f"{nbytes} bytes that are free", lambda: free(place) >= nbytes)


def test_what_was_freed_is_used_again_and_shows_nothing_of_others(here: Path) -> None:  # noqa: F811
    for turn in range(6):
        _await_free(here, NBYTES // 3 + 3 * MB)
        data = bytes([turn + 1]) * (NBYTES // 3)
        (here / "a").write_bytes(data)
        with (here / "b").open("wb") as file:
            file.seek(MB + 5)
            file.write(b"x")
        assert (here / "a").read_bytes() == data
        assert (here / "b").read_bytes() == bytes(MB + 5) + b"x"
        (here / "a").unlink()
        (here / "b").unlink()


def test_a_full_image_is_said_and_what_was_written_stays(alone: Path) -> None:
    kept = os.urandom(3 * MB)
    (alone / "kept").write_bytes(kept)
    with pytest.raises(OSError, match="No space left"):
        write_synced(alone / "large", 2 * NBYTES)
    assert (alone / "kept").read_bytes() == kept
    (alone / "large").unlink()
    _await_free(alone, 2 * len(kept))
    (alone / "again").write_bytes(kept)
    assert (alone / "again").read_bytes() == kept


@needs_root
def test_a_storage_that_was_full_is_written_again(tmp_path: Path) -> None:
    """Somebody else has filled it, and removes what he had."""
    on, place = tmp_path / "on", tmp_path / "place"
    on.mkdir()
    place.mkdir()
    with small_disk(on, f"size={16 * MB}"), served(on, place):
        (on / "others").write_bytes(bytes(15 * MB))
        with pytest.raises(OSError, match="No space left"):
            write_synced(place / "large", 4 * MB)
        (place / "large").unlink()
        (on / "others").unlink()
        _await_free(place, NBYTES // 2)
        data = os.urandom(8 * MB)
        (place / "again").write_bytes(data)
        assert (place / "again").read_bytes() == data
        (place / "again").unlink()


def write_synced(path: Path, nbytes: int) -> None:
    with path.open("wb") as file:
        for _ in range(nbytes // MB):
            file.write(os.urandom(MB))
            file.flush()
            os.fsync(file.fileno())


def read_same(descriptor: int, nbytes: int) -> None:
    for offset in range(0, nbytes, MB):
        assert os.pread(descriptor, MB, offset) == b"x" * MB


def test_nobody_reads_what_a_full_image_did_not_take(alone: Path) -> None:
    """What a mapping wrote too late is an error for who reads it, and never something else."""
    with pytest.raises(OSError, match="No space left"):
        write_synced(alone / "large", 2 * NBYTES)
    path = alone / "mapped"
    with path.open("w+b") as file:
        file.truncate(2 * MB)
        with mmap.mmap(file.fileno(), 2 * MB) as mapped:
            mapped[:] = b"x" * (2 * MB)
            with pytest.raises(OSError, match=r"No space left|Input/output"):
                mapped.flush()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        with pytest.raises(OSError, match="Input/output"):
            read_same(descriptor, 2 * MB)
    finally:
        os.close(descriptor)
        (alone / "large").unlink()
    _await_free(alone, MB)
    path.write_bytes(b"written anew")
    assert path.read_bytes() == b"written anew"


def test_what_is_known_is_asked_for_once(tmp_path: Path) -> None:
    """Names, those that are not there, attributes, opening, and contents take no request later:
    each would be a read of the program.
    """
    on, place = tmp_path / "on", tmp_path / "place"
    on.mkdir()
    place.mkdir()
    with served(on, place) as pid:
        for number in range(FILES):
            (place / str(number)).write_bytes(b"x" * 5000)
        before = reads_of(pid)
        look(place)
        look(place)  # its reads have changed when files were last read
        known = reads_of(pid)
        look(place)
        assert known - before > FILES
        assert reads_of(pid) - known < FILES // 4


def test_a_directory_that_has_changed_is_not_asked_about(tmp_path: Path) -> None:
    """A file is looked up and made, and then removed: no permission is asked for in between."""
    on, place = tmp_path / "on", tmp_path / "place"
    on.mkdir()
    place.mkdir()
    with served(on, place) as pid:
        before = reads_of(pid)
        for number in range(FILES):
            os.close(os.open(place / str(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        assert reads_of(pid) - before < 2 * FILES + FILES // 4


@needs_root
def test_a_user_is_kept_from_nothing_but_to_give_files_away(
    storage: Path, nobody: Callable[..., subprocess.Popen[str]]
) -> None:
    """As nobody else is let in, permissions are kept and shown, but keep nobody out."""
    require_program()
    code = """
import os, sys
path = sys.argv[1] + "/a"
os.mkdir(path, 0o500)
open(path + "/b", "w").close()
os.chmod(path + "/b", 0o400)
open(path + "/b", "a").write("more")
assert os.stat(path + "/b").st_mode & 0o777 == 0o400
for owner in ((0, -1), (-1, 0)):
    try:
        os.chown(path + "/b", *owner)
    except PermissionError:
        continue
    sys.exit(f"given to {owner}")
os.chown(path + "/b", os.getuid(), os.getgid())
assert os.access(path + "/b", os.R_OK | os.W_OK) and os.access(path, os.X_OK)
assert not os.access(path + "/b", os.X_OK), "nor is it looked for in vain by its name"
try:
    os.execv(path + "/b", ["b"])
except PermissionError:
    print(open(path + "/b").read())
"""
    inside = [sys.executable, "-c", f"import os, sys; sys.argv[1:] = [os.environ['TMPDIR']]{code}"]
    words = hyperslab("scratch", "exec", "--on", storage, "--way", "fuse", "--", *inside)
    with nobody(words) as running:
        said, complaints = running.communicate()
    assert said == "more\n", complaints


FILES = 100


def look(place: Path) -> None:
    """Look at all files; not by Python's `open`, which asks of each whether it is a terminal."""
    for number in range(FILES):
        path = place / str(number)
        assert path.stat().st_size == 5000
        descriptor = os.open(path, os.O_RDONLY)
        assert os.read(descriptor, 6000) == b"x" * 5000
        os.close(descriptor)
        assert not (place / f"none-{number}").exists()


def reads_of(pid: int) -> int:
    """Reads that a process has asked the kernel for."""
    told = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(told["syscr"])


def test_a_file_far_out_takes_little(here: Path) -> None:  # noqa: F811
    path = here / "a"
    with path.open("w+b") as file:
        os.pwrite(file.fileno(), b"end", 1 << 40)
        assert os.pread(file.fileno(), 10, (1 << 40) - 2) == b"\0\0end"
        last = (1 << 63) - 2
        os.pwrite(file.fileno(), b"x", last)
        assert os.pread(file.fileno(), 1, last) == b"x"
        assert path.stat().st_size == last + 1
        assert path.stat().st_blocks == 2 * 8
        os.ftruncate(file.fileno(), 1 << 40)
    assert path.stat().st_blocks == 0


def test_more_than_there_is_is_not_set_aside_in_part(here: Path) -> None:  # noqa: F811
    before = free(here)
    with (here / "a").open("wb") as file:
        with pytest.raises(OSError, match="No space left"):
            os.posix_fallocate(file.fileno(), 0, 2 * NBYTES)
        assert os.fstat(file.fileno()).st_size == 0
    assert free(here) >= before


def test_a_limit_of_the_user_is_an_error_and_no_end(tmp_path: Path) -> None:
    on, place = tmp_path / "on", tmp_path / "place"
    on.mkdir()
    place.mkdir()
    with served(on, place, ["prlimit", f"--fsize={MB}"]):
        (place / "kept").write_bytes(b"x" * (MB // 2))
        with pytest.raises(OSError, match="No space left"):
            write_synced(place / "large", 4 * MB)
        assert (place / "kept").read_bytes() == b"x" * (MB // 2)


def test_names_are_no_longer_than_elsewhere(here: Path) -> None:  # noqa: F811
    (here / "a").touch()
    for make in (os.link, os.rename):
        with pytest.raises(OSError, match="File name too long"):
            make(here / "a", here / ("b" * 256))
    os.link(here / "a", here / ("b" * 255))


@needs_root
def test_a_whiteout_is_refused_and_a_directory_keeps_its_group(here: Path) -> None:  # noqa: F811
    (here / "a").touch()
    whiteout, at = 4, -100
    names = (os.fsencode(here / "a"), os.fsencode(here / "b"))
    assert libc.renameat2(at, names[0], at, names[1], whiteout) == -1
    assert os.listdir(here) == ["a"]
    (here / "folder").mkdir()
    (here / "folder").chmod(0o2770)
    os.chown(here / "folder", -1, 7)
    assert stat.S_IMODE((here / "folder").stat().st_mode) == 0o2770


def test_a_directory_that_changes_while_it_is_listed_is_listed_once(here: Path) -> None:  # noqa: F811
    """What was listed last is gone, and some of it was replaced, when somebody else lists it whole:
    what stays comes once, and nothing is left out.
    """
    names = [f"{number:04}" for number in range(4000)]
    for name in names:
        (here / name).touch()
    listing = os.scandir(here)
    seen = [next(listing).name for _ in range(10)]
    for name in names[500:2000]:
        (here / name).unlink()
    for name in names[:400]:
        (here / "new").touch()
        (here / "new").rename(here / name)
    libc.renameat2(-100, os.fsencode(here / "0401"), -100, os.fsencode(here / "0403"), 2)
    staying = names[:500] + names[2000:]
    for _ in range(2):
        assert sorted(os.listdir(here)) == staying
    seen += [entry.name for entry in listing]
    assert sorted(set(seen) - set(names[500:2000])) == staying
    assert len(seen) == len(set(seen))


def test_archives_and_repositories_are_at_home(here: Path) -> None:  # noqa: F811
    _await_free(here, NBYTES // 2)
    tree = here / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    for number in range(200):
        (tree / "deep" / f"{number}.txt").write_text(f"{number}\n" * number)
    (tree / "link").symlink_to("deep/7.txt")
    os.link(tree / "deep" / "8.txt", tree / "hard")
    subprocess.run(["tar", "-C", here, "-cf", here / "tree.tar", "tree"], check=True)
    (here / "out").mkdir()
    subprocess.run(["tar", "-C", here / "out", "-xf", here / "tree.tar"], check=True)
    subprocess.run(["diff", "-r", tree, here / "out" / "tree"], check=True)
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["gc", "-q"], ["fsck"]):
        done = subprocess.run([*git, *words], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(tree)
    assert not tree.exists()
