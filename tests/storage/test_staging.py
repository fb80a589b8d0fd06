"""Areas, copies and room on a fast tier; turns of those who read."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.staging import area, copies
from hyperslab.storage.staging.room import FEW, TRIED_NBYTES, Room, keep_free
from hyperslab.storage.turns import Turns
from tests.storage.emulation.tiers import mounted
from tests.system.faults.command import await_that


def nothing() -> None:
    """Copying goes on."""


def identity(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def test_an_area_is_swept_once_nobody_holds_it(tmp_path: Path) -> None:
    (tmp_path / ".hyperslab-staging-mine").mkdir()
    made = area.create(tmp_path)
    (made.outputs / "block").touch()
    assert area.sweep(tmp_path) == []
    assert not area.discard(made.path)
    os.close(made.lock)  # as the kernel does for a process that is killed
    assert area.sweep(tmp_path) == [made.path]
    assert [path.name for path in tmp_path.iterdir()] == [".hyperslab-staging-mine"]


def test_an_area_of_another_host_is_left_to_its_run(tmp_path: Path) -> None:
    """Where its lock may not be seen from here, as on a file system of a network."""
    with mounted(tmp_path, Settings(), kind="metadata"):
        made = area.create(tmp_path, "run")
        lock = made.path / area.LOCK
        lock.write_text(json.dumps({"boot": "another", "run": "run"}))
        os.close(made.lock)
        assert area.sweep(tmp_path) == []
        assert area.sweep(tmp_path, "another run") == []
        assert area.sweep(tmp_path, "run") == [made.path]
    left = area.create(tmp_path)
    (left.path / area.LOCK).write_text(json.dumps({"boot": "an earlier one"}))
    os.close(left.lock)
    assert area.sweep(tmp_path) == [left.path]  # this disk is of this host, which has started again


def test_an_area_without_a_lock_is_a_half_swept_one(tmp_path: Path) -> None:
    left = tmp_path / ".hyperslab-staging-0123456789ab"
    (left / "in").mkdir(parents=True)
    assert area.sweep(tmp_path) == [left]


def test_an_area_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    made = area.create(tmp_path)
    (made.inputs / "copy").touch()
    assert made.is_there
    made.shut()
    assert not Room(str(made.path), 0, 1).is_open
    assert made.remove() == []
    assert not made.is_there
    assert list(tmp_path.iterdir()) == []


def test_a_tier_that_does_not_answer_is_gone(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(1000))
    tier = tmp_path / "tier"
    tier.mkdir()
    with mounted(tier, Settings()) as emulation:
        made = area.create(tier)
        copy = str(made.inputs / "copy")
        copies.bring(str(source), identity(source), copy, nothing)
        assert emulation.pid is not None
        os.kill(emulation.pid, signal.SIGKILL)
        await_that("the end of the tier", lambda: not os.path.exists(tier))
        assert not made.is_there
        assert not Room(str(made.path), 0, 1).is_open
        assert copies.opened(copy) is None
        assert area.sweep(tier) == []
        assert not area.discard(made.path)
        with pytest.raises(UsageError, match="does not answer"):
            area.require_tier("--stage-in", str(tier), is_elsewhere=False)
        made.shut()
        made.remove()
    assert area.sweep(tier) == [made.path]


def test_a_copy_is_the_file_that_was_planned_with(tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "copy"
    source.write_bytes(os.urandom(100_000))
    took = copies.bring(str(source), identity(source), str(copy), nothing)
    assert took.nbytes == 100_000
    assert identity(copy) == identity(source)
    assert copy.read_bytes() == source.read_bytes()


def test_who_finds_no_copy_says_so(tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert not copies.is_declined(copy)
    assert copies.opened(copy) is None
    assert copies.is_declined(copy)
    assert copies.opened(str(tmp_path / "gone" / "copy")) is None


def test_no_copy_is_made_of_another_file(tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "copy"
    source.write_bytes(bytes(100))
    before = identity(source)
    os.utime(source, ns=(0, 0))
    with pytest.raises(ValueError, match="was written to"):
        copies.bring(str(source), before, str(copy), nothing)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_that_changes_while_it_is_copied_has_no_copy(tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "copy"
    source.write_bytes(bytes(100))

    def change() -> None:
        os.utime(source, ns=(0, 0))

    with pytest.raises(ValueError, match="was written to"):
        copies.bring(str(source), identity(source), str(copy), change)
    assert not copies.is_there(str(copy))


def test_who_needs_a_copy_waits_until_it_is_whole(tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "copy"
    source.write_bytes(os.urandom(1000))
    has_begun = threading.Event()
    may_end = threading.Event()

    def watch() -> None:
        has_begun.set()
        may_end.wait()

    copying = threading.Thread(
        target=copies.bring, args=(str(source), identity(source), str(copy), watch)
    )
    copying.start()
    assert has_begun.wait(60)
    found: list[bytes] = []

    def read() -> None:
        fd = copies.opened(str(copy))
        assert fd is not None
        found.append(os.pread(fd, 2000, 0))
        os.close(fd)

    reading = threading.Thread(target=read)
    reading.start()
    time.sleep(0.05)
    assert not found
    may_end.set()
    reading.join()
    copying.join()
    assert found == [source.read_bytes()]


def test_who_waits_for_a_copy_that_is_given_up_goes_without(tmp_path: Path) -> None:
    source, copy = tmp_path / "in", tmp_path / "copy"
    source.write_bytes(bytes(1000))
    has_begun = threading.Event()
    is_waited_for = threading.Event()

    def give_up() -> None:
        has_begun.set()
        is_waited_for.wait()
        raise InterruptedError

    def copied() -> None:
        with pytest.raises(InterruptedError):
            copies.bring(str(source), identity(source), str(copy), give_up)

    copying = threading.Thread(target=copied)
    copying.start()
    assert has_begun.wait(60)
    threading.Timer(0.05, is_waited_for.set).start()
    assert copies.opened(str(copy)) is None
    copying.join()


def test_room_is_what_fits_several_times(tmp_path: Path) -> None:
    made = area.create(tmp_path)
    about = os.statvfs(tmp_path)
    free = about.f_bavail * about.f_frsize
    assert Room(str(made.path), 0, 1).holds(free // 2)
    assert not Room(str(made.path), 0, 4).holds(free // 2)
    assert not Room(str(made.path), free, 1).holds(free // 2)
    assert 0 <= keep_free(tmp_path, 0) < free
    made.remove()
    assert not Room(str(made.path), 0, 1).holds(1)


def test_few_blocks_try_a_tier(tmp_path: Path) -> None:
    made = area.create(tmp_path)
    room = Room(str(made.path), 0, 1)
    assert not any(room.passes(number, TRIED_NBYTES - 1) for number in range(FEW))
    tried = [number for number in range(20) if not room.passes(number, TRIED_NBYTES)]
    assert tried == [0, 2, 4]
    assert room.passes(FEW, 1)
    made.end_trial()
    assert not room.passes(1, TRIED_NBYTES)
    made.remove()


def test_so_many_read_at_a_time_and_no_more(tmp_path: Path) -> None:
    turns = Turns(tmp_path, 2, 0.0, 8)
    now: list[int] = []
    most: list[int] = []
    are_two = threading.Event()

    def read() -> None:
        with turns.taken({"7"}):
            now.append(1)
            most.append(len(now))
            if len(now) == 2:
                are_two.set()
            assert are_two.wait(60)
            time.sleep(0.02)
            now.pop()

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert max(most) == 2
    with turns.taken({"7"}), turns.taken({"7"}), turns.taken({"8"}):
        pass  # those of other devices need no turn of this one
    assert list(tmp_path.iterdir()) == []


def test_who_dies_gives_its_turn_back(tmp_path: Path) -> None:
    turns = Turns(tmp_path, 1, 0.0, 8)
    code = (
        "import pickle, sys; turns = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "with turns.taken({'7'}): print('taken', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, pickle.dumps(turns).hex()]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"taken\n"
        reader = threading.Thread(target=lambda: turns._turn("7").close())
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
        other.kill()
        reader.join(60)
        assert not reader.is_alive()


def test_first_reads_begin_one_after_the_other(tmp_path: Path) -> None:
    turns = Turns(tmp_path, None, 0.05, 3)
    begun: list[float] = []

    def start() -> None:
        for _ in range(2):
            turns.await_start()
            begun.append(time.monotonic())

    first = time.monotonic()
    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waited = sorted(round((moment - first) / 0.05) for moment in begun)
    assert len(begun) == 8
    assert waited[-4] >= 1  # of the second slot, after the first, and one more than there should be
    assert waited[-1] >= 2


def test_without_locks_first_reads_begin_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    turns = Turns(tmp_path, None, 0.05, 2)
    begun: list[float] = []

    def start() -> None:
        turns.await_start()
        begun.append(time.monotonic())

    first = time.monotonic()
    for _ in range(2):
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    assert len(begun) == 2
    assert begun[1] - first >= 0.05
