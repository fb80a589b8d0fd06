"""A small file system of its own for a test, in a mount namespace of its own: nothing is mounted on
the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import pytest

from tests.system.faults.command import await_that

HOW = (
    "install util-linux and mount, and run as root or where users may make namespaces (unshare -rm"
    " true)"
)


@dataclass(frozen=True)
class Disk:
    """A tmpfs that only commands with `inside` before them see under `path`; from here it is
    `seen`.
    """

    path: Path
    seen: Path
    inside: tuple[str, ...]

    def remount(self, options: str) -> None:
        line = [*self.inside, "mount", "-o", f"remount,{options}", str(self.path)]
        subprocess.run(line, check=True, capture_output=True)

    def fill(self) -> None:
        """Leave no byte free."""
        with (
            (self.seen / "filler").open("ab", buffering=0) as file,
            pytest.raises(OSError, match="No space left"),
        ):
            _write_for_ever(file)


def _write_for_ever(file: FileIO) -> None:
    while True:
        file.write(bytes(2**16))


def namespace() -> list[str]:
    """Flags of unshare for mounts of a test's own; skips the test, loudly, where there are none."""
    flags = ["-r", "-m"]
    if os.geteuid() == 0:
        flags = ["-m"]
    tools = all(shutil.which(tool) for tool in ("unshare", "nsenter", "mount"))
    if not tools or _status("unshare", *flags, "true"):
        pytest.skip(f"nothing can be mounted here; {HOW}")
    return [*flags, "--propagation", "private"]


def _status(*command: str) -> int:
    return subprocess.run(command, capture_output=True, check=False).returncode


def on_a_mount_of_its_own(folder: Path) -> tuple[str, ...]:
    """What is before a command that sees a folder on another mount of its device: no file can be
    renamed from there.
    """
    mount = f"mount --bind '{folder}' '{folder}' && exec \"$@\""
    return ("unshare", *namespace(), "sh", "-c", mount, "sh")


@contextmanager
def small_disk(folder: Path, nbytes: int, options: str = "") -> Iterator[Disk]:
    """Mount a tmpfs of this size and with these options; skips the test, loudly, where that is not
    possible.
    """
    flags = namespace()
    folder.mkdir()
    mount = (
        f"mount -t tmpfs -o size={nbytes}{options} none '{folder}' && touch '{folder}/mounted' &&"
        " exec sleep 600"
    )
    holder = subprocess.Popen(["unshare", *flags, "sh", "-c", mount])
    try:
        seen = Path(f"/proc/{holder.pid}/root{folder}")
        await_that(
            "the mount of a small disk",
            lambda: (seen / "mounted").exists() or holder.poll() is not None,
        )
        assert holder.poll() is None, "the tmpfs could not be mounted"
        users = ["-U", "--preserve-credentials"] if "-r" in flags else []
        yield Disk(folder, seen, ("nsenter", *users, "-m", "-t", str(holder.pid)))
    finally:
        holder.kill()
        holder.wait()
