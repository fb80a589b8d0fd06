"""Nothing of scratch stays, whichever way it is made and whenever who makes or removes it dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.mounts import mounts
from hyperslab.storage.scratch import program, registry, removing, sizing
from hyperslab.storage.scratch.holding import wish_for_run
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.program import ScratchFailed
from hyperslab.storage.scratch.registry import LOOP, Scratch, plain_name
from hyperslab.storage.scratch.removing import ScratchInUse
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import (
    await_gone,
    hyperslab,
    is_gone,
    made,
    needs_root,
    require_program,
    small_disk,
)
from tests.system.end_to_end.command import call, succeed
from tests.system.faults.command import await_that

DIES = """
import os, signal, sys, time
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.removing import remove

wish = wish_of(sys.argv[1], 1 << 20)
for line in sys.stdin:
    child = os.fork()
    while not child:
        made = create(wish)
        open(made.path + "/a", "w").write("a")
        remove(made, by_force=True)
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(flush=True)
"""
"For each line a process that makes and removes scratch, and is killed after so many seconds."
DEATHS = 40


@pytest.fixture(autouse=True)
def _with_program() -> None:
    require_program()


@pytest.fixture
def dying(storage: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that starts others which die."""
    words = [sys.executable, "-c", DIES, str(storage)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_who_dies_at_any_moment_leaves_nothing(storage: Path, dying: subprocess.Popen[str]) -> None:
    """Its program dies with it in every other turn. Then somebody starts: what they left goes."""
    assert dying.stdin is not None
    assert dying.stdout is not None
    for turn in range(DEATHS):
        dying.stdin.write(f"{turn / 1000}\n")
        dying.stdin.flush()
        assert dying.stdout.readline()
        if turn % 2:
            kill_programs()
        with registry.locked():
            removing.sweep()
        await_that(f"nothing left after {turn} ms: {left(storage)}", lambda: not left(storage))


def kill_programs() -> None:
    for scratch in registry.recorded():
        for pid in program.processes_of(scratch):
            os.kill(pid, signal.SIGKILL)


def left(storage: Path) -> list[str]:
    """What there is of scratch: files, records, mounts, and processes."""
    place = str(registry.folder())
    files = [*os.listdir(storage), *set(os.listdir(place)) - {"lock"}]
    mounted = [one.mount_point for one in mounts() if one.mount_point.startswith(place)]
    return files + mounted + programs(storage)


def programs(storage: Path) -> list[str]:
    """Numbers of processes that are programs of scratch on a storage."""
    return [pid for pid in os.listdir("/proc") if serves(pid, storage)]


def serves(pid: str, storage: Path) -> bool:
    """Whether a process is a program of scratch on a storage."""
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(storage) in words and b"mount" in words


WAITS = """
import sys, hyperslab
with hyperslab.scratch(sys.argv[1], 16 << 20, sys.argv[2]) as folder:
    (folder / "a").write_text("a")
    print(folder, flush=True)
    sys.stdin.read()
"""


def waiting(storage: Path, way: str) -> subprocess.Popen[str]:
    """A process that has scratch."""
    process = begun(storage, way)
    assert place_of(process)
    return process


def begun(storage: Path, way: str) -> subprocess.Popen[str]:
    """A process that makes scratch."""
    return subprocess.Popen(
        [sys.executable, "-c", WAITS, storage, way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def place_of(process: subprocess.Popen[str]) -> str:
    """The directory that it has made."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def others() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("way", "killed"),
    [
        ("fuse", "owner"),
        ("fuse", "program"),
        ("fuse", "both"),
        pytest.param("tmpfs", "owner", marks=needs_root),
        ("directory", "owner"),
        pytest.param("loop", "owner", marks=needs_root),
        pytest.param("fuse2fs", "owner", marks=needs_root),
        pytest.param("fuse2fs", "program", marks=needs_root),
    ],
)
def test_nothing_stays_whoever_is_killed(
    storage: Path, way: str, killed: str, others: list[subprocess.Popen[str]]
) -> None:
    if way in ("loop", "fuse2fs") and shutil.which("mkfs.ext4", path="/usr/sbin:/sbin") is None:
        pytest.skip("there is no mkfs.ext4: install the Debian package e2fsprogs")
    if way == "fuse2fs" and shutil.which("fuse2fs") is None:
        pytest.skip("there is no fuse2fs: install the Debian package of that name")
    owner = waiting(storage, way)
    others.append(owner)
    [scratch] = registry.recorded()
    victims = program.processes_of(scratch)
    assert bool(victims) == (way in ("fuse", "fuse2fs"))
    if killed != "owner":
        kill(victims)
    if killed != "program":
        kill([owner.pid])
        owner.wait()
    succeed("scratch", "list")
    await_gone(scratch, storage)


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() and not _is_dead(pid) for pid in pids):
        time.sleep(0.01)


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_program_ends_with_its_owner(storage: Path, others: list[subprocess.Popen[str]]) -> None:
    owner = waiting(storage, "fuse")
    others.append(owner)
    [scratch] = registry.recorded()
    owner.kill()
    owner.wait()
    await_that("the end of its program", lambda: not program.processes_of(scratch))
    assert not any(mount.source == scratch.source for mount in mounts())


@pytest.mark.parametrize("way", ["fuse", "directory"])
def test_a_command_goes_on_in_its_scratch_where_who_has_started_it_is_killed(
    storage: Path, way: str
) -> None:
    """What it writes goes nowhere else, and all is removed when it has ended."""
    script = (
        'echo "$TMPDIR"; read line; echo more > "$TMPDIR/more" && cat "$TMPDIR/more"; read line'
    )
    words = hyperslab("scratch", "exec", "--on", storage, "--way", way, "--", "sh", "-c", script)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        place = place_of(process)
        process.kill()
        process.wait()
        [scratch] = registry.recorded()
        with registry.locked():
            assert removing.sweep() == []
        with pytest.raises(ScratchInUse, match="a command runs in it"):
            removing.remove(scratch)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "more\n"
        assert os.listdir(place) == ["more"]
        process.stdin.close()
        await_that("the end of the command", lambda: not registry.is_in_use(scratch))
    await_that("the end of its program", lambda: not program.processes_of(scratch))
    assert way == "directory" or os.listdir(place) == [], "nothing is beneath the mount"
    with registry.locked():
        assert [one.name for one in removing.sweep()] == [scratch.name]
    assert is_gone(scratch, storage)


def test_scratch_whose_making_was_killed_is_swept(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is that of a maker who died before it knew the program."""
    kept = made(storage, is_kept=True)
    assert kept.owner is None
    registry.record(Scratch(**{**kept.as_json(), "pid": None, "owner": 2**22, "owner_started": 1}))
    with registry.locked():
        assert [one.name for one in removing.sweep()] == [kept.name]
    assert is_gone(kept, storage)


def test_processes_are_looked_at_once_however_much_scratch_there_is(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one for each rank of a host, and each of them looks when it makes its own."""
    kept = [made(storage, is_kept=True) for _ in range(3)]
    looked: list[Path] = []
    entries = Path.iterdir

    def counted(place: Path) -> Iterator[Path]:
        looked.append(place)
        return iter(entries(place))

    monkeypatch.setattr(Path, "iterdir", counted)
    with registry.locked():
        assert removing.sweep() == []
    assert looked == [Path("/proc")]
    monkeypatch.undo()
    for scratch in kept:
        removing.remove(scratch)


@needs_root
def test_what_cannot_be_removed_keeps_nobody_from_going_on(storage: Path) -> None:
    """Something is mounted in a directory whose process is dead."""
    scratch = made(storage, way="directory")
    inside = Path(scratch.folder, "inside")
    inside.mkdir()
    with small_disk(inside, "size=1m"):
        (inside / "kept").touch()
        registry.record(replace(scratch, owner=2**22, owner_started=1))
        assert f"scratch remove {scratch.name}' says more" in succeed("scratch", "list")
        refused = call("scratch", "remove", scratch.name)
        assert refused.code == 1
        assert f"{scratch.folder} remains: something is mounted at {inside}, " in refused.err
        assert os.listdir(inside) == ["kept"]
        removing.remove(made(storage))
        assert [one.name for one in registry.recorded()] == [scratch.name]
    assert succeed("scratch", "remove", scratch.name) == f"removed {scratch.name}\n"
    assert is_gone(scratch, storage)


@needs_root
def test_what_is_mounted_over_scratch_is_not_unmounted_in_its_place(storage: Path) -> None:
    for way in ("directory", "fuse"):
        scratch = made(storage, way=way)
        with small_disk(Path(scratch.folder), "size=1m"):
            Path(scratch.folder, "kept").touch()
            with pytest.raises(removing.ScratchLeft, match="something is mounted at"):
                removing.remove(scratch, by_force=True)
            assert os.listdir(scratch.folder) == ["kept"]
        removing.remove(scratch, by_force=True)
        assert is_gone(scratch, storage)


def test_a_program_that_does_not_end_is_not_waited_for(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends none that waits for a storage which does not answer."""
    scratch = made(storage)
    with Path(scratch.path, "a").open("w"):
        with monkeypatch.context() as patch:
            patch.setattr(removing, "_signal", lambda *_: None)
            patch.setattr(removing, "_END_S", 0.1)
            patch.setattr(program, "let_go", lambda _: None)
            with pytest.raises(removing.ScratchLeft, match=rf"does not end .* for {storage}"):
                removing.remove(scratch, by_force=True)
        assert [one.name for one in registry.recorded()] == [scratch.name]
    removing.remove(scratch, by_force=True)
    assert is_gone(scratch, storage)


def test_a_storage_that_does_not_answer_keeps_nobody_else_waiting(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what was left there, nor what somebody asks for there, nor a program that waits."""
    place = tmp_path / "tier"
    place.mkdir()
    with mounted(place, Settings()) as emulation:
        dead = made(place, way="directory")
        registry.record(replace(dead, owner=2**22, owner_started=1))
        assert emulation.pid is not None
        os.kill(emulation.pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(removing, "ANSWER_S", 0.2)
                patch.setattr(sizing, "ANSWER_S", 0.2)
                patch.setattr(program, "_READY_S", 0.2)
                other = made(storage)
                assert {one.name for one in registry.recorded()} == {dead.name, other.name}
                removing.remove(other)
                with pytest.raises(UsageError, match=f"--on {place} does not answer"):
                    made(place)
                for asked in (f"{place}", f"image:{place}"):
                    with pytest.raises(UsageError, match=f"--scratch {place} does not answer"):
                        create(wish_for_run(asked, 0))
                with pytest.raises(ScratchFailed, match="was not ready in"):
                    program.start(replace(other, on=str(place)))
                registry.forget(other)
        finally:
            os.kill(emulation.pid, signal.SIGCONT)
        with registry.locked():
            assert [one.name for one in removing.sweep()] == [dead.name]
        assert is_gone(dead, place)


def test_scratch_of_another_host_is_left_alone(storage: Path) -> None:
    """Which keeps its records in the same folder, as in one of a shared file system."""
    kept = made(storage, is_kept=True)
    elsewhere = {**kept.as_json(), "host": "elsewhere", "owner": 2**22, "owner_started": 1}
    registry.record(Scratch(**elsewhere))
    with registry.locked():
        assert removing.sweep() == []
    registry.record(kept)
    removing.remove(kept)


def test_a_program_that_mounts_while_it_is_removed_leaves_nothing(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is mounted where one looks first; then its program mounts, and is killed."""
    scratch = made(storage)
    not_yet: Iterator[list[Any]] = iter([[]])
    monkeypatch.setattr(removing, "mounts", lambda: next(not_yet, mounts()))
    removing.remove(scratch, by_force=True)
    assert is_gone(scratch, storage)


@needs_root
def test_an_image_that_was_never_mounted_is_swept(storage: Path) -> None:
    """Its maker has died in between."""
    left = Scratch("0123abcd", LOOP, str(storage), 1 << 20, str(registry.folder() / "0123abcd"))
    (storage / plain_name(left.name)).write_bytes(b"image")
    registry.record(replace(left, owner=2**22, owner_started=1))
    with registry.locked():
        assert [one.name for one in removing.sweep()] == [left.name]
    assert is_gone(left, storage)


def test_an_image_that_still_had_a_name_is_swept(storage: Path, tmp_path: Path) -> None:
    """Where a storage makes no file without a name, its program gives it one for a moment; it was
    stopped there, and killed.
    """
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")
    dead = Scratch("0123abcd", "fuse", str(storage), 1 << 20, str(registry.folder() / "0123abcd"))
    dead = replace(dead, fallback=str(tmp_path), fallback_nbytes=1 << 20)
    registry.record(replace(dead, owner=2**22, owner_started=1))
    name = ".hyperslab-scratch-0123abcd"
    words = ["strace", f"--trace-path={storage}", f"--trace-path={storage / name}"]
    words += ["--inject=openat:error=EOPNOTSUPP:when=1"]
    words += ["--inject=unlink,unlinkat:error=EIO:signal=SIGKILL"]
    told = subprocess.run([*words, *program.command(dead)], capture_output=True, check=False)
    assert os.listdir(storage) == [name], told.stderr
    (tmp_path / name).touch()
    with registry.locked():
        assert [one.name for one in removing.sweep()] == [dead.name]
    assert is_gone(dead, storage)
    assert os.listdir(tmp_path) == []


KILLED = {
    "mkfs.ext4": "timeout --signal=KILL 0.001 /sbin/mkfs.ext4",
    "mount": "/bin/mount",
}
"Commands by which an image is made: one that is killed at its work, and one that has done it."


@needs_root
@pytest.mark.parametrize("name", KILLED)
def test_a_command_that_is_killed_while_an_image_is_made_leaves_nothing(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin") is None:
        pytest.skip("there is no mkfs.ext4 here")
    script = tmp_path / name
    script.write_text(f'#!/bin/sh\n{KILLED[name]} "$@"\nkill -9 $$\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ScratchFailed, match=f"{name}: (Killed|exit status -9)"):
        made(storage, way=LOOP)
    assert left(storage) == []
    assert not any(str(storage) in file.read_text() for file in loop_files())


def loop_files() -> Iterator[Path]:
    """Files that say what loop devices are of."""
    return Path("/sys/block").glob("loop*/loop/backing_file")


def test_two_drivers_at_once_do_not_meet(
    storage: Path, others: list[subprocess.Popen[str]]
) -> None:
    """They begin at once; one dies, and what the other one has stays."""
    others += [begun(storage, "fuse"), begun(storage, "fuse")]
    one, other = map(place_of, others)
    assert one != other
    others[0].kill()
    others[0].wait()
    assert "removed" in succeed("scratch", "list")
    assert not Path(one).exists()
    assert Path(other, "a").read_text() == "a"


@needs_root
def test_nothing_of_a_namespace_stays(
    storage: Path, runtime: Path, nobody: Callable[..., subprocess.Popen[str]]
) -> None:
    words = [sys.executable, "-c", WAITS, str(storage), "namespace"]
    with nobody(words, stdin=subprocess.PIPE) as owner:
        assert place_of(owner).startswith("/proc/")
        owner.kill()
    await_that("the end of its program", lambda: not programs(storage))
    assert os.listdir(storage) == []
    with nobody(hyperslab("scratch", "list")) as listing:
        said, _ = listing.communicate()
    assert "whose process has died" in said
    assert os.listdir(runtime / "nobody" / "hyperslab-scratch") == ["lock"]
