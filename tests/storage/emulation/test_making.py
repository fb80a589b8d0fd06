"""Tiers are made where nothing is in the way, measured, and removed whatever has died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.emulation import making, measuring, program, registry, removing
from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.program import EmulationFailed
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.probing.space import require_directory
from tests.storage.emulation.tiers import mounted, require_program, status
from tests.storage.scratch.stage import small_disk
from tests.system.faults.command import await_that

MB = 1_000_000
ROOT = Path(__file__).parents[3]
NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="mounts, or plays another user: run as root"
)
SLOW = Settings(bandwidth=50 * MB)
QUICK = Settings(metadata_s=1e-4)
"A tier of which little is measured, and that quickly."


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    require_program()
    yield
    for emulation in registry.known():
        removing.remove(emulation, by_force=True)


def make(directory: Path, settings: Settings = QUICK) -> Emulation:
    """A tier of which nothing is worth being measured."""
    return making.emulate("metadata", directory, settings, tolerance=1e9)


def test_a_tier_is_made_measured_and_removed(in_memory: Path) -> None:
    place = in_memory / "tier"
    emulation = making.emulate("throttled", place, SLOW, tolerance=9.0)
    assert {one.what for one in emulation.measured} == {"read", "write"}
    assert registry.state_of(emulation) == "mounted"
    assert registry.known() == [emulation]
    assert os.listdir(place) == []
    assert removing.remove(emulation) == 0
    assert not place.exists()
    assert not registry.is_alive(emulation)
    assert registry.known() == []
    assert os.listdir(registry.folder()) == ["lock"]


@pytest.mark.parametrize("memory", ["fast_nbytes", "write_back_nbytes"])
def test_memory_that_is_as_slow_as_its_device_is_told(in_memory: Path, memory: str) -> None:
    """Here the program is given none, whatever it is measured for."""
    with mounted(in_memory, Settings(bandwidth=20 * MB)):
        asked: dict[str, Any] = {memory: 4 * MB}
        fast = Settings(bandwidth=20 * MB, **asked)
        told = {one.what: one for one in measuring.measure(in_memory, fast, None)}
    assert told["write to memory"].deviation > making.TOLERANCE
    assert "instead of at least 40.0 MB/s" in told["write to memory"].sentence()


def test_files_stay_where_they_lie(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    (place / "kept").write_text("kept")
    assert removing.remove(emulation) == 1
    assert (place / "kept").read_text() == "kept"


def test_files_of_another_directory_are_shown(tmp_path: Path) -> None:
    backing = tmp_path / "real"
    backing.mkdir()
    (backing / "a").write_text("a")
    emulation = making.emulate("metadata", tmp_path / "tier", QUICK, backing, tolerance=1e9)
    assert (tmp_path / "tier" / "a").read_text() == "a"
    (tmp_path / "tier" / "b").write_text("b")
    removing.remove(emulation)
    assert sorted(os.listdir(backing)) == ["a", "b"]


def test_a_tier_that_is_not_what_was_asked_for_is_removed(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "LARGEST_NBYTES", 1 << 26)
    place = in_memory / "tier"
    with pytest.raises(EmulationFailed, match=r"not the tier.* instead of 1\.00 TB/s.*--tolerance"):
        making.emulate("throttled", place, Settings(bandwidth=1e12))
    assert not place.exists()
    assert registry.known() == []


@needs_root
def test_a_disk_that_fills_up_meanwhile_is_said(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    with small_disk(tmp_path, "size=1m"):
        with pytest.raises(
            EmulationFailed, match=r"could not be measured.*No space left on device"
        ):
            making.emulate("throttled", place, SLOW)
        assert os.listdir(tmp_path) == []
    assert registry.known() == []


@needs_root
def test_a_read_only_disk_is_said(tmp_path: Path) -> None:
    with small_disk(tmp_path, "ro"):
        with pytest.raises(UsageError, match=r"tier cannot be made: Read-only file system"):
            make(tmp_path / "tier")
        with pytest.raises(UsageError, match=r"is on a file system that is mounted read-only"):
            make(tmp_path)


def test_a_program_that_dies_while_it_is_measured_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(place: Path, settings: Settings, count: measuring.Count | None) -> list[Measured]:
        [emulation] = registry.known()
        assert emulation.pid is not None
        os.kill(emulation.pid, signal.SIGKILL)
        return measuring.measure(place, settings, count)

    monkeypatch.setattr(making, "measure", killed)
    with pytest.raises(EmulationFailed, match=r"could not be measured, and was removed: .*connec"):
        making.emulate("throttled", tmp_path / "tier", SLOW)
    assert registry.known() == []
    assert os.listdir(tmp_path) == []


def test_two_tiers_in_one_directory_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    make(place)
    with pytest.raises(UsageError, match=r"emulated already, as a metadata tier.*remove"):
        make(place)
    with pytest.raises(UsageError, match=r"lie in each other"):
        make(place / "inside")
    with pytest.raises(UsageError, match=r"lie in each other"):
        make(tmp_path)


def test_files_that_would_hold_their_tier_are_refused(tmp_path: Path) -> None:
    """Whoever looked through it would wait for it in itself."""
    for place in (tmp_path / "tier", tmp_path / "sub" / "tier"):
        with pytest.raises(UsageError, match=r"--backing .* holds the tier"):
            making.emulate("metadata", place, QUICK, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(UsageError, match=r"is not empty.*--backing"):
        make(tmp_path)
    with pytest.raises(UsageError, match=r"cannot be a tier: Not a directory"):
        make(tmp_path / "data")
    with pytest.raises(UsageError, match=r"cannot be made: No such file"):
        make(tmp_path / "no" / "parent")


def test_a_program_that_was_killed_leaves_a_tier_that_can_be_removed(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    assert emulation.pid is not None
    (place / "kept").write_text("kept")
    os.kill(emulation.pid, signal.SIGKILL)
    _await_end(emulation)
    with pytest.raises(OSError, match=r"not connected|connection abort"):
        os.listdir(place)
    assert registry.state_of(emulation) == "stale"
    with pytest.raises(UsageError, match=r"not connected; 'hyperslab tiers list' says whether"):
        require_directory(place)
    with pytest.raises(UsageError, match=r"whose program has died.*remove"):
        make(place)
    assert removing.remove(emulation) == 1
    assert (place / "kept").read_text() == "kept"


def test_a_maker_that_was_killed_leaves_a_tier_that_can_be_removed(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    code = f"""
import json
import os
from hyperslab.storage.emulation import making, program
from hyperslab.storage.emulation.settings import Settings
start = program.start
program.start = lambda emulation, _: (start(emulation), os.kill(os.getpid(), 9))
making.emulate("metadata", making.Path({str(place)!r}), Settings(metadata_s=1e-3))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    [emulation] = registry.known()
    assert emulation.pid is None
    assert registry.state_of(emulation) == "mounted"
    removing.remove(emulation)
    assert not place.exists()


def test_a_tier_without_its_record_is_known_by_its_mount_and_removed_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be that of another session of the user, which has records elsewhere."""
    place = tmp_path / "tier"
    made = make(place)
    registry.forget(made)
    [emulation] = registry.known()
    assert (emulation.kind, emulation.directory) == ("unknown", str(place))
    assert status(["tiers", "list"]) == 0
    assert f"{place}: not in the records here (" in capsys.readouterr().out
    assert status(["tiers", "remove", "--all"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"left {place}: it answers, and is not in the records here")
    assert status(["tiers", "remove", str(place)]) == 0
    _await_end(made)
    assert os.listdir(place) == []


def test_a_program_that_does_not_answer_is_said_and_removed_by_force_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    assert emulation.pid is not None
    _stop(emulation.pid)
    monkeypatch.setattr(registry, "ANSWER_LIMIT_S", 0.1)
    assert status(["tiers", "list"]) == 0
    assert f"silent: its program does not answer; 'hyperslab tiers remove --force {place}'" in (
        capsys.readouterr().out
    )
    with pytest.raises(removing.TierInUse, match=r"does not answer: wait, or give --force"):
        removing.remove(emulation)
    removing.remove(emulation, by_force=True)
    assert not place.exists()
    assert not registry.is_alive(emulation)


def _stop(pid: int) -> None:
    """Stop a process, and wait until none of its threads answers any more."""
    os.kill(pid, signal.SIGSTOP)

    def is_stopped() -> bool:
        told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        return {text.rpartition(")")[2].split()[0] for text in told} == {"T"}

    await_that("its stop", is_stopped)


def test_a_tier_in_use_is_removed_by_force_alone(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    with (place / "a").open("w"):
        with pytest.raises(removing.TierInUse, match=r"in use.*--force"):
            removing.remove(emulation)
        assert registry.state_of(emulation) == "mounted"
        removing.remove(emulation, by_force=True)
    assert registry.known() == []


@needs_root
def test_what_is_mounted_over_a_tier_is_left_there(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    with small_disk(place, "size=1m"):
        for by_force in (False, True):
            with pytest.raises(removing.TierInUse, match=r"small \(tmpfs\) is mounted over it"):
                removing.remove(emulation, by_force)
        assert os.path.ismount(place)
    assert registry.state_of(emulation) == "mounted"
    removing.remove(emulation)
    assert not place.exists()


def test_a_program_that_cannot_be_killed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a medium that does not answer: here, what waits for a tier."""
    monkeypatch.setattr(removing, "_KILLED_S", 0.1)
    with mounted(tmp_path, Settings(latency_s=5)) as tier:
        assert tier.pid is not None
        waiting = subprocess.Popen(["stat", tmp_path / "missing"], stderr=subprocess.DEVNULL)
        while not program.counters(tier)["operations"]["lookup"]:
            time.sleep(0.01)
        other = registry.with_process(replace(tier, name="other"), waiting.pid)
        with pytest.raises(removing.TierInUse, match=r"does not end though it was killed"):
            removing._end_program(other, 0.0)
        os.kill(tier.pid, signal.SIGKILL)
        assert waiting.wait(100) == -signal.SIGKILL


def test_a_record_of_another_version_is_no_tier(tmp_path: Path) -> None:
    emulation = make(tmp_path / "tier")
    record = emulation.as_json()
    for name, other in (("newer", {**record, "colour": "red"}), ("odd", [record])):
        (registry.folder() / f"{name}.json").write_text(json.dumps(other))
    assert registry.recorded() == [emulation]


def test_what_somebody_else_unmounted_is_forgotten(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = make(place)
    subprocess.run(["umount", place], check=True)
    _await_end(emulation)
    assert registry.state_of(emulation) == "gone"
    assert registry.state_of(make(place)) == "mounted"
    assert len(registry.known()) == 1


def test_a_program_that_is_told_to_end_unmounts(tmp_path: Path) -> None:
    emulation = make(tmp_path / "tier")
    assert emulation.pid is not None
    os.kill(emulation.pid, signal.SIGTERM)
    _await_end(emulation)
    assert registry.mount_here(emulation) is None


def _await_end(emulation: Emulation) -> None:
    await_that("the end of its program", lambda: not registry.is_alive(emulation))


def test_no_program_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after the installation of a wheel."""
    monkeypatch.delenv(program.PROGRAM.variable, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    argv = ["tiers", "emulate", "metadata", str(tmp_path / "tier"), "--metadata", "1ms"]
    assert status(argv) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        "hyperslab: an emulated tier needs the program hyperslab-tierfs, which is not here, as"
        " wheels do not have it: run 'make tierfs' in a clone of hyperslab's repository (Rust 1.88"
        " or newer), and name what it makes, .venv/bin/hyperslab-tierfs, in HYPERSLAB_TIERFS"
    )
    assert not (tmp_path / "tier").exists()
    makefile = (ROOT / "Makefile").read_text()
    assert "\nVENV := .venv\n" in makefile
    assert f"\ntierfs: $(VENV)/bin/{program.PROGRAM.name} " in makefile
    assert 'rust-version = "1.88"' in (ROOT / "rust" / "Cargo.toml").read_text()


def test_no_fuse_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "DEVICE", tmp_path / "fuse")
    with pytest.raises(UsageError, match=r"there is no .*modprobe fuse"):
        make(tmp_path / "tier")
    assert not (tmp_path / "tier").exists()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that nobody owns and reaches, with the program in it."""
    folder = Path("/tmp") / f"hyperslab-nobody-{os.getpid()}"
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY, NOBODY)
    shutil.copy(program.PROGRAM.find(), folder / program.PROGRAM.name)
    yield folder
    shutil.rmtree(folder)


def _tell_as_nobody(folder: Path, code: str, mode: int = 0o666, path: str = "") -> str:
    """What Python prints as nobody, in a mount namespace of its own: the device that FUSE is asked
    through is open to all there, or not.

    The package is imported before, by root: its sources may lie where nobody gets to.
    """
    device = folder / "device"
    begin = f"""
import os, sys
from pathlib import Path
import hyperslab.storage.emulation.making
from hyperslab.cli import document, emulation
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.mounts import file_system
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
os.chdir({str(folder)!r})
os.environ["XDG_RUNTIME_DIR"] = os.getcwd()
os.environ["{program.PROGRAM.variable}"] = os.path.abspath("{program.PROGRAM.name}")
os.environ["PATH"] = {path or os.environ["PATH"]!r}
emulate = emulation.making.emulate
"""
    mounts = f"mknod -m {mode:o} {device} c 10 229 && mount --bind {device} /dev/fuse"
    script = f'{mounts} && exec "$0" -c "$1" 2>&1'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    done = subprocess.run(
        [*command, sys.executable, begin + code], capture_output=True, text=True, check=False
    )
    device.unlink()
    return done.stdout + done.stderr


@needs_root
def test_users_make_tiers_without_root(as_nobody: Path) -> None:
    code = """
made = emulate("throttled", Path("tier"), Settings(bandwidth=20e6), tolerance=0.5)
Path("tier/a").write_text("x")
print(os.stat("tier/a").st_uid, os.stat("tier").st_dev != os.stat(".").st_dev)
print(file_system("tier"))
emulation.list_()
emulation.remove([Path("tier")])
print(Path("tier/a").read_text())
"""
    told = _tell_as_nobody(as_nobody, code).splitlines()
    owner, kind, listed, served, removed, read = told
    assert kind == "fuse.hyperslab-throttled"
    assert owner == f"{NOBODY} True"
    assert listed == f"{as_nobody}/tier: throttled, bandwidth 20.0 MB/s"
    assert served.startswith("  mounted: served")
    assert removed == f"removed the throttled tier {as_nobody}/tier; 1 name in it stayed"
    assert read == "x"


REFUSED = """
try:
    emulate("metadata", Path("tier"), Settings(metadata_s=1e-3))
except HyperslabError as error:
    print(error)
print(os.path.exists("tier"))
"""


@needs_root
def test_a_device_that_may_not_be_opened_is_said(as_nobody: Path) -> None:
    why, is_left = _tell_as_nobody(as_nobody, REFUSED, mode=0o600).splitlines()
    assert why.startswith("/dev/fuse may not be opened by this user: have root allow it")
    assert is_left == "False"


@needs_root
def test_no_fusermount3_is_said(as_nobody: Path) -> None:
    why, is_left = _tell_as_nobody(as_nobody, REFUSED, path=str(as_nobody)).splitlines()
    assert why.endswith("needs fusermount3: install the Debian package fuse3")
    assert is_left == "False"


@needs_root
def test_a_directory_of_somebody_else_is_refused(as_nobody: Path) -> None:
    (as_nobody / "tier").mkdir()
    why, _ = _tell_as_nobody(as_nobody, REFUSED).splitlines()
    assert why == f"{as_nobody}/tier may not be written by this user: take another directory"


def test_the_command_makes_lists_and_removes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tier"
    argv = ["tiers", "emulate", "metadata", str(place), "--metadata", "1ms", "--tolerance", "300"]
    assert status(argv) == 0
    assert f"{place} is a metadata tier" in capsys.readouterr().out
    assert status(["tiers", "list", "--json"]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["state"], listed["kind"]) == ("mounted", "metadata")
    assert listed["served"]["operations"]["open"] > 4
    assert status(["tiers", "remove", "--all"]) == 0
    assert capsys.readouterr().out == f"removed the metadata tier {place}\n"
    assert status(["tiers", "list"]) == 0
    assert "no emulated tiers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("throttled DIR", "a throttled tier needs --bandwidth"),
        ("slow DIR", "slow is no kind of tier"),
        ("throttled DIR --bandwidth 1kB", "--bandwidth 1.00 kB/s: give 100 kB/s or more"),
        ("metadata DIR --metadata 3600s", "--metadata 1 h 00 min: give 10.0 s or less"),
        ("metadata DIR --metadata soon", "--metadata soon: give a time such as"),
        ("striped DIR --bandwidth 1MB --targets 2 --stripe-count 3", "more than the 2 targets"),
        ("metadata DIR --metadata 1ms --write-back 1MB", "--write-back needs --bandwidth"),
        ("network DIR --bandwidth 1MB --latency 1ms", "--latency cannot be had of a network"),
    ],
)
def test_what_cannot_be_asked_for_is_said(
    words: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tier"
    argv = ["tiers", "emulate", *words.replace("DIR", str(place)).split()]
    assert status(argv) == 2
    assert why in capsys.readouterr().err
    assert not place.exists()
