"""Paths of this machine: what is looked at, what does not answer, and what is mounted for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hyperslab.storage.tiers import looking
from hyperslab.storage.tiers.looking import has_dax_flag, look
from hyperslab.storage.tiers.tier import Tier, share_a_medium
from hyperslab.storage.tiers.words import kind_words, meaning
from tests.storage.tiers.trees import Tree
from tests.system.clusters.required import required

AS_ROOT = "run as root: only root may mount"


def test_a_path_that_is_there_and_one_that_is_not(tmp_path: Path) -> None:
    here, new = look(tmp_path), look(tmp_path / "new" / "out.nii")
    assert here.exists is True
    assert new.exists is False
    assert new.looked_at == str(tmp_path.resolve())
    assert share_a_medium(here, new) is True
    assert meaning(new).startswith(f"does not exist: what {tmp_path.resolve()} is made of; ")
    space = os.statvfs(tmp_path)
    assert here.total_nbytes == space.f_blocks * space.f_frsize
    assert here.free_nbytes == pytest.approx(space.f_bavail * space.f_frsize, rel=0.1)
    assert here.writable is True
    assert here.read_only is False


def test_links(tmp_path: Path) -> None:
    (tmp_path / "broken").symlink_to("/dev/shm/nothing/there")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    broken, loop = look(tmp_path / "broken"), look(tmp_path / "loop")
    assert (broken.kind, broken.exists) == ("dram", False)
    assert "it is a link to /dev/shm/nothing/there" in meaning(broken)
    assert (loop.kind, loop.exists, loop.mount_point) == ("unknown", None, None)
    assert "Too many levels of symbolic links" in meaning(loop)


def test_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may enter all, so the refusal is made up."""
    plain = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path.name == "private":
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    tier = look(tmp_path / "private")
    assert tier.kind == "unknown"
    assert meaning(tier) == f"{tmp_path}/private cannot be looked at: Permission denied"


def test_memory() -> None:
    tier = look("/dev/shm")
    assert (tier.kind, tier.write_back, tier.shared, tier.dax) == ("dram", False, False, False)
    assert tier.file_system == "tmpfs"
    assert "nothing outlives the machine's power" in meaning(tier)


def test_views_of_the_kernel_keep_no_files() -> None:
    tier = look("/proc/self")
    assert tier.kind == "unknown"
    assert meaning(tier) == "the kernel keeps no files there"


@pytest.mark.parametrize(
    ("url", "source", "read_only"),
    [
        ("s3://bucket/a/b?secret=hush", "s3://bucket", None),
        ("https://me:hush@example.org/x", "https://***@example.org", True),
    ],
)
def test_urls_are_not_asked(url: str, source: str, read_only: bool | None) -> None:
    tier = look(url)
    assert (tier.kind, tier.source, tier.shared, tier.read_only) == (
        "object",
        source,
        True,
        read_only,
    )
    assert tier.exists is None
    assert "hush" not in json.dumps(tier.as_json())


def test_a_url_of_this_machine_is_a_path() -> None:
    assert look("file:///dev/shm").kind == "dram"


def test_what_gives_no_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a hard mount of a server that is gone does; the thread would wait for ever."""
    goes_on = threading.Event()

    def hang(_: str) -> Path:
        goes_on.wait(30)
        return Path("/")

    monkeypatch.setattr(looking, "nearest", hang)
    try:
        tier = look("/dev/shm/x", limit_s=0.05)
    finally:
        goes_on.set()
    assert tier.kind == "unknown"
    assert (tier.mount_point, tier.file_system) == ("/dev/shm", "tmpfs")
    assert meaning(tier) == "no answer within 0.05 s: its server or device may be gone"


def test_a_fault_of_our_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "nearest", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        look("/")


def test_tiers_as_json_and_back(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.disk("sda", "8:0", {"queue/rotational": "0"}, partitions=[("sda1", "8:1")])
    tree.mounted()
    for tier in (look("/dev/shm"), look(tmp_path), look("s3://bucket/x"), tree.tier("/x")):
        assert Tier.from_json(json.loads(json.dumps(tier.as_json()))) == tier


def test_the_flag_of_dax_is_asked(tmp_path: Path) -> None:
    """No file of a disk has it; a file system without flags says so."""
    with suppress(OSError):  # of a tmpfs that does not know them
        assert has_dax_flag(tmp_path) is False
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        has_dax_flag(Path("/proc/self"))


def test_two_exports_of_one_server(tmp_path: Path) -> None:
    """They may be on the same disks: nobody here knows."""
    tree = Tree(tmp_path)
    tree.mounted(
        "40 1 0:40 / /a rw - nfs4 server:/a rw",
        "41 1 0:41 / /b rw - nfs4 server:/b rw",
        "42 1 0:42 / /c rw - nfs4 other:/a rw",
        "43 1 0:43 / /d rw - fuse.sshfs me@server:/a rw",
    )
    a, b, c, d = (tree.tier(path) for path in ("/a", "/b", "/c", "/d"))
    assert [share_a_medium(a, other) for other in (a, b, c, d)] == [True, None, False, True]
    assert "other hosts see the same files" in meaning(a)


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """Mount something for the time of the block."""
    if os.geteuid():
        required(AS_ROOT)
    place.mkdir()
    line = ["mount", *options, str(place)]
    done = subprocess.run(line, capture_output=True, check=False, text=True)
    if done.returncode:
        required(f"{' '.join(line)} does not work here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_an_overlay_is_on_its_upper_layer(tmp_path: Path) -> None:
    for name in ("upper", "work", "lower"):
        (tmp_path / name).mkdir()
    with mounted(tmp_path / "memory", "-t", "tmpfs", "none") as memory:
        for name in ("upper", "work"):
            (memory / name).mkdir()
        layers = f"lowerdir={tmp_path}/lower,upperdir={memory}/upper,workdir={memory}/work"
        with mounted(tmp_path / "seen", "-t", "overlay", "-o", layers, "none") as seen:
            tier = look(seen / "x")
            below = look(memory)
    assert kind_words(tier) == "overlay on dram"
    assert (tier.medium, tier.write_back, tier.shared) == ("dram", False, False)
    assert share_a_medium(tier, below) is True
    assert f"new files go to {memory}/upper, over one lower layer" in tier.notes


def test_an_overlay_of_a_container_does_not_show_its_layers(tmp_path: Path) -> None:
    """A folder of the same name that has other space is another one."""
    tree = Tree(tmp_path)
    options = "rw,lowerdir=/a:/b,upperdir=/dev/shm,workdir=/c"
    tree.mounted(f"40 1 0:40 / /proc rw - overlay overlay {options}")
    tier = tree.tier("/proc")
    assert (tier.kind, tier.backing, tier.device, tier.write_back) == ("overlay", None, None, None)
    assert "upper layer /dev/shm is not seen from here" in meaning(tier)


def test_a_file_as_a_disk_is_on_the_disk_of_the_file(tmp_path: Path) -> None:
    if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin") is None:
        required("there is no mkfs.ext4 here: install the Debian package e2fsprogs")
    image = tmp_path / "image file"
    with image.open("wb") as file:
        file.truncate(4 * 2**20)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-F", str(image)], check=True)
    with mounted(tmp_path / "loop", "-o", "loop,sync", str(image)) as place:
        tier = look(place)
    below = look(image)
    assert kind_words(tier) == f"loop on {kind_words(below)}"
    assert share_a_medium(tier, below) is True
    assert tier.write_back is False
    assert any(note.endswith(f"is the file {image}") for note in tier.notes)
    assert tier.free_nbytes is not None
    assert tier.free_nbytes < 4 * 2**20


def test_a_read_only_mount(tmp_path: Path) -> None:
    with mounted(tmp_path / "memory", "-t", "tmpfs", "-o", "ro,nr_inodes=5", "none") as memory:
        tier = look(memory)
    assert tier.read_only is True
    assert "read-only" in meaning(tier)
