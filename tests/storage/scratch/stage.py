"""What tests of scratch stand on: users with few rights, and file systems that are small."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nobody import NOBODY
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.mounts import mounts
from hyperslab.storage.scratch import program, registry
from hyperslab.storage.scratch.making import create
from hyperslab.storage.scratch.program import PROGRAM
from hyperslab.storage.scratch.registry import Scratch
from tests.storage.emulation.tiers import require_mounting
from tests.system.end_to_end.command import AS_INSTALLED
from tests.system.faults.command import await_that

SIZE = 16 << 20

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="mounts, or plays another user: run as root"
)


def require_program() -> None:
    """Build the program of scratch if nobody has; skip the test where none can be mounted."""
    require_mounting(PROGRAM)


@contextmanager
def free_for_all() -> Iterator[Path]:
    """A directory that every user may reach, and in which nobody may write."""
    place = Path(tempfile.mkdtemp(prefix="hyperslab-test-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def hyperslab(*words: object) -> list[str]:
    """The command of such words."""
    return [*AS_INSTALLED, *map(str, words)]


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[None]:
    """A file system of so much room in a directory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def thin_disk(image: Path, place: Path) -> Iterator[None]:
    """A file system of 64 MB in a directory, in an image that takes what is written there; the test
    is skipped without e2fsprogs.
    """
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4 here")
    with image.open("xb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    shutil.rmtree(place / "lost+found")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def made(storage: Path, **more: Any) -> Scratch:
    """Scratch on a storage."""
    return create(wish_of(storage, SIZE, **more))


def is_gone(scratch: Scratch, storage: Path) -> bool:
    """Whether nothing is left: no file, no mount, no device, no process, no record."""
    is_mounted = any(mount.source == scratch.source for mount in mounts())
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    is_held = any(scratch.name in file.read_text() for file in files)
    left = [*os.listdir(storage), *set(os.listdir(registry.folder())) - {"lock"}]
    return not (is_mounted or is_held or left or program.processes_of(scratch))


def await_gone(scratch: Scratch, storage: Path) -> None:
    """Return when nothing is left."""
    await_that("the end of scratch", lambda: is_gone(scratch, storage))
