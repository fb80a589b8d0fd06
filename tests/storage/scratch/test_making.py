"""Scratch is made in the best way that there is, and goes on elsewhere when it is full."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hyperslab
from hyperslab.apps.scratch import run_in_scratch, wish_of
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.scratch import program, registry, removing
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.removing import remove
from hyperslab.storage.scratch.sizing import BLOCK_NBYTES, LEAST_NBYTES, shuffled_nbytes
from tests.storage.emulation.tiers import mounted
from tests.storage.emulation.tiers import require_program as require_tiers
from tests.storage.scratch.stage import (
    SIZE,
    await_gone,
    is_gone,
    made,
    needs_root,
    require_program,
    small_disk,
    thin_disk,
)
from tests.storage.scratch.stage import (
    hyperslab as command,
)
from tests.system.end_to_end.command import call, succeed
from tests.system.faults.command import PATIENCE_S

MB = 1 << 20
Nobody = Callable[..., subprocess.Popen[str]]
"Starts a command of nobody."


@pytest.fixture(autouse=True)
def _with_program() -> None:
    require_program()


def test_a_block_of_python_has_scratch(storage: Path) -> None:
    with hyperslab.scratch(on=storage, size="16MB") as folder:
        assert os.path.ismount(folder)
        (folder / "a").write_bytes(b"a")
        assert os.listdir(storage) == []
        [scratch] = registry.recorded()
    await_gone(scratch, storage)
    assert not folder.exists()


def test_a_command_has_scratch(storage: Path) -> None:
    code = "import tempfile; open(tempfile.mkstemp()[0], 'w').write('x'); print(tempfile.tempdir)"
    wish = wish_of(storage, SIZE)
    told: list[str] = []
    assert run_in_scratch(wish, [sys.executable, "-c", code], told.append) == 0
    assert registry.recorded() == []
    assert run_in_scratch(wish, ["sh", "-c", "exit 3"], told.append) == 3
    with pytest.raises(UsageError, match="no-such-program: there is no such program"):
        run_in_scratch(wish, ["no-such-program"], told.append)
    assert registry.recorded() == []
    assert os.listdir(storage) == told == []


def test_the_terminal_makes_lists_and_removes(storage: Path) -> None:
    told = json.loads(succeed("scratch", "create", "--on", storage, "--size", "16MB", "--json"))
    (Path(told["path"]) / "a").write_text("a")
    assert told["way"] == "fuse"
    assert told["variables"]["TMPDIR"] == told["path"]
    listed = succeed("scratch", "list")
    assert f"{told['name']}  {told['path']}" in listed
    assert f"one file, by a program of this project, on {storage}; " in listed
    with (Path(told["path"]) / "b").open("w"):
        refused = call("scratch", "remove", told["name"])
        assert refused.code == 1
        assert "is in use: leave it and close its files, or give --force" in refused.err
    assert succeed("scratch", "remove", told["path"]) == f"removed {told['name']}\n"
    assert succeed("scratch", "list") == "there is no scratch of yours here\n"
    assert "is no scratch of yours" in call("scratch", "remove", "abc").err


def test_two_at_once_do_not_meet(storage: Path) -> None:
    with hyperslab.scratch(storage, SIZE) as one, hyperslab.scratch(storage, SIZE) as other:
        (one / "a").write_text("one")
        (other / "a").write_text("other")
        assert ((one / "a").read_text(), (other / "a").read_text()) == ("one", "other")


def test_what_cannot_be_is_refused(storage: Path) -> None:
    for wrong, why in (
        ({"on": storage / "none"}, "there is no such directory"),
        ({"on": storage, "size": "900TB"}, r"has .* free, and not the 900 TB"),
        ({"on": storage, "way": "fuze"}, r"no such way.*fuse"),
        ({"on": storage, "fallback": storage / "none"}, "no such directory"),
    ):
        with pytest.raises(UsageError, match=why), hyperslab.scratch(**wrong):
            pass
    assert "give one of them" in call("scratch", "create", "--size", "1MB", "--bytes", "1MB").err


@needs_root
def test_a_directory_that_is_read_only_is_refused(storage: Path) -> None:
    with (
        small_disk(storage, "ro"),
        pytest.raises(UsageError, match="mounted read-only"),
        hyperslab.scratch(storage, SIZE),
    ):
        pass


def test_a_shuffle_is_planned() -> None:
    assert shuffled_nbytes(1000, 1, 1) == LEAST_NBYTES
    assert shuffled_nbytes(10**9, 50, 50) == 2 * 10**9 + (2500 + 150) * BLOCK_NBYTES


def fill(folder: str, number: int, nbytes: int) -> None:
    for one in range(number):
        (Path(folder) / str(one)).write_bytes(bytes([one + 1]) * nbytes)


def check(folder: str, number: int, nbytes: int) -> None:
    for one in range(number):
        assert (Path(folder) / str(one)).read_bytes() == bytes([one + 1]) * nbytes


def test_files_go_on_elsewhere_when_the_image_is_full(storage: Path, tmp_path: Path) -> None:
    full = made(storage)
    with pytest.raises(OSError, match="No space left"):
        fill(full.path, 20, MB)
    [said] = program.notes(full)
    assert said.startswith(f"no room was left in scratch on {storage}, and programs were told")
    remove(full, by_force=True)
    scratch = made(storage, fallback=tmp_path)
    fill(scratch.path, 20, MB)
    check(scratch.path, 20, MB)
    assert program.notes(scratch) == [f"the image in {storage} is full: files go on in {tmp_path}"]
    remove(scratch, by_force=True)
    assert is_gone(scratch, storage)


def test_a_block_of_python_is_warned_of_files_that_went_on_elsewhere(
    storage: Path, tmp_path: Path
) -> None:
    with (
        pytest.warns(UserWarning, match="is full: files go on in") as told,
        hyperslab.scratch(storage, SIZE, fallback=tmp_path) as folder,
    ):
        fill(str(folder), 20, MB)
    assert [one.filename for one in told] == [__file__]
    assert registry.recorded() == []


def test_a_sentence_that_is_being_said_is_not_told_yet(storage: Path) -> None:
    scratch = made(storage)
    with scratch.log.open("a") as log:
        log.write("overflow: files go on\noverflow: files go o")
    assert program.notes(scratch) == ["files go on"]
    remove(scratch, by_force=True)


@needs_root
def test_files_go_on_elsewhere_when_the_storage_is_full(storage: Path, tmp_path: Path) -> None:
    with small_disk(storage, "size=32m"):
        alone = made(storage)
        (storage / "other").write_bytes(bytes(24 * MB))
        with pytest.raises(OSError, match="No space left"):
            fill(alone.path, 12, MB)
        check(alone.path, 4, MB)
        remove(alone, by_force=True)
        (storage / "other").unlink()
        scratch = made(storage, fallback=tmp_path)
        (storage / "other").write_bytes(bytes(24 * MB))
        fill(scratch.path, 12, MB)
        check(scratch.path, 12, MB)
        assert len(program.notes(scratch)) == 1
        remove(scratch, by_force=True)


@needs_root
def test_a_fallback_that_is_full_is_not_needed_yet(storage: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path, "size=4k"):
        scratch = made(storage, fallback=tmp_path)
        assert (scratch.way, scratch.fallback) == ("fuse", "")
        remove(scratch, by_force=True)


@needs_root
def test_nobody_reads_what_the_storage_has_taken_and_lost(storage: Path, tmp_path: Path) -> None:
    """A file system that is larger than what it lies on takes data, and cannot write them later."""
    beneath, elsewhere = tmp_path / "beneath", tmp_path / "elsewhere"
    beneath.mkdir()
    elsewhere.mkdir()
    with small_disk(beneath, "size=8m"), thin_disk(beneath / "image", storage):
        scratch = made(storage, fallback=elsewhere)
        fill(scratch.path, 12, MB)
        subprocess.run(["sync", "--file-system", storage], check=False)
        assert [lost(Path(scratch.path) / str(one)) for one in range(12)] == [True] * 12
        assert "has refused data that it had taken" in program.notes(scratch)[0]
        fill(scratch.path, 1, MB)
        check(scratch.path, 1, MB)
        remove(scratch, by_force=True)


def lost(path: Path) -> bool:
    """Whether a file cannot be read, once the kernel has no copy of its own."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            file.read()
        except OSError as error:
            return error.errno == errno.EIO
    return False


@needs_root
def test_who_sees_no_processes_of_others_takes_none_for_dead(storage: Path, runtime: Path) -> None:
    """A container with numbers of processes of its own, in which the folder has another name."""
    inside = ["mount --rbind", str(runtime), str(storage), "&&", f"XDG_RUNTIME_DIR={storage}"]
    script = " ".join([*inside, shlex.join(command("scratch", "list"))])
    with hyperslab.scratch(runtime, SIZE) as folder:
        (folder / "a").write_text("a")
        words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script]
        listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert "removed" not in listed
        assert (folder / "a").read_text() == "a"
        assert len(registry.recorded()) == 1


def test_a_program_of_another_name_is_not_taken_for_dead(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    shutil.copy(program.PROGRAM.find(), other)
    monkeypatch.setenv(program.PROGRAM.variable, str(other))
    scratch = made(storage)
    with registry.locked():
        assert removing.sweep() == []
    remove(scratch)
    assert is_gone(scratch, storage)


def test_a_storage_that_vanishes_is_an_error(tmp_path: Path) -> None:
    require_tiers()
    on = tmp_path / "tier"
    on.mkdir()
    with mounted(on, Settings()) as tier:
        scratch = made(on)
        fill(scratch.path, 2, MB)
        assert tier.pid is not None
        os.kill(tier.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"not connected|Input/output|abort"):
            fill(scratch.path, 2, 2 * MB)
        remove(scratch, by_force=True)
        assert not program.processes_of(scratch)
    assert registry.recorded() == []


def test_files_go_on_elsewhere_when_the_storage_vanishes(tmp_path: Path) -> None:
    require_tiers()
    on, elsewhere = tmp_path / "tier", tmp_path / "elsewhere"
    on.mkdir()
    elsewhere.mkdir()
    with mounted(on, Settings()) as tier:
        scratch = made(on, fallback=elsewhere)
        assert tier.pid is not None
        os.kill(tier.pid, signal.SIGKILL)
        fill(scratch.path, 2, MB)
        check(scratch.path, 2, MB)
        said = [f"the image in {on} fails: files go on in {elsewhere}"]
        assert program.notes(scratch) == said
        remove(scratch, by_force=True)


@needs_root
@pytest.mark.parametrize("way", ["loop", "fuse2fs"])
def test_images_of_other_programs(storage: Path, way: str) -> None:
    try:
        scratch = create(wish_of(storage, 64 * MB, way))
    except HyperslabError as why:
        pytest.skip(str(why))
    assert os.listdir(storage) == []
    fill(scratch.path, 5, MB)
    check(scratch.path, 5, MB)
    remove(scratch)
    assert is_gone(scratch, storage)


@needs_root
def test_memory_has_a_ceiling(storage: Path) -> None:
    with hyperslab.scratch(size=SIZE, way="tmpfs") as folder:
        assert os.path.ismount(folder)
        with pytest.raises(OSError, match="No space left"):
            fill(str(folder), 20, MB)


@needs_root
def test_memory_without_a_ceiling_is_told(storage: Path, nobody: Nobody) -> None:
    told = "nothing keeps it to its size: it is a directory in /dev/shm"
    words = ("scratch", "create", "--way", "tmpfs", "--size", "16MB")
    status, place, err = ended(nobody(command(*words)))
    assert (status, told in err) == (0, True)
    assert ended(nobody(command("scratch", "remove", place.strip())))[0] == 0
    made = call(*words)
    assert told not in made.err
    succeed("scratch", "remove", made.out.strip())


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


LOOKS = (
    'stat -f -c %T "$TMPDIR" && echo x > "$TMPDIR/x" && realpath "$TMPDIR" && ls "$TMPDIR" && id -u'
)


@needs_root
def test_nobody_needs_root(storage: Path, nobody: Nobody) -> None:
    """By a user namespace alone: no mount helper takes part."""
    words = command("scratch", "exec", "--on", storage, "--size", "16MB", "--way", "namespace")
    status, out, err = ended(nobody([*words, "--", "sh", "-c", LOOKS]))
    assert (status, err) == (0, "")
    kind, folder, names, user = out.split()
    assert kind.startswith("fuse")
    assert (names, user) == ("x", "65534")
    assert os.listdir(storage) == []
    assert not Path(folder).exists()


SEES = """
import hyperslab, os, pathlib, sys
with hyperslab.scratch(sys.argv[1], 16 << 20, "namespace") as folder:
    (folder / "a").write_bytes(b"x" * 100000)
    assert (folder / "a").read_bytes() == b"x" * 100000
    try:
        (pathlib.Path(os.path.realpath(folder)) / "lost").touch()
    except PermissionError:
        print(folder)
"""


@needs_root
def test_python_sees_into_a_namespace_and_nothing_goes_beside_it(
    storage: Path, nobody: Nobody
) -> None:
    status, out, err = ended(nobody([sys.executable, "-c", SEES, str(storage)]))
    assert (status, err) == (0, "")
    assert out.startswith("/proc/")
    assert os.listdir(storage) == []


SHARE = """
import os, sys
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.removing import remove
made = [create(wish_of(sys.argv[1], 16 << 20, "namespace")) for _ in range(3)]
for name in ("user", "mnt"):
    print(len({os.readlink(f"/proc/{one.pid}/ns/{name}") for one in made}))
for one in made:
    open(one.path + "/a", "w").write(one.name)
    print(os.listdir(one.path))
    remove(one)
"""
"Scratch three times; how many namespaces there are, and what lies in each."


@needs_root
def test_scratch_of_one_user_shares_a_user_namespace(storage: Path, nobody: Nobody) -> None:
    """The processes of two could not look into one another, as those of MPI do."""
    status, out, err = ended(nobody([sys.executable, "-c", SHARE, str(storage)]))
    assert (status, err) == (0, "")
    assert out.splitlines() == ["1", "3", *["['a']"] * 3]
    assert os.listdir(storage) == []


TELLS = """
import json, sys
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.removing import remove
made = create(wish_of(sys.argv[1], 16 << 20))
open(made.path + "/a", "w").write("a")
remove(made)
print(made.way, *(text.partition(":")[0] for text in made.passed_over))
"""


@needs_root
@pytest.mark.parametrize(
    ("has_device", "tells"),
    [(True, "fuse"), (False, "directory fuse namespace fuse2fs")],
)
def test_the_best_way_that_works_is_taken(
    storage: Path, nobody: Nobody, has_device: bool, tells: str
) -> None:
    """With a mount helper; and without a device that nobody may open."""
    words = [sys.executable, "-c", TELLS, str(storage)]
    assert ended(nobody(words, has_device=has_device)) == (0, f"{tells}\n", "")
    assert os.listdir(storage) == []


@needs_root
def test_without_user_namespaces_it_is_said(storage: Path, nobody: Nobody) -> None:
    words = command("scratch", "create", "--on", storage, "--size", "16MB", "--way", "namespace")
    status, _, err = ended(nobody(words, has_namespaces=False))
    assert status == 1
    assert "namespace: there is no user namespace to be had: " in err
    assert os.listdir(storage) == []
