"""Images: ext4 in a file that has no name once it is mounted, by fuse2fs or by a loop device."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hyperslab.machine.asking import asked, last_line
from hyperslab.storage.scratch.program import ScratchFailed
from hyperslab.storage.scratch.registry import Scratch, plain_name

_SBIN = ("/usr/sbin", "/sbin")
_MKFS = ("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0")
"Scratch survives no crash, and has nobody to keep blocks for."


def mount_by_fuse2fs(scratch: Scratch) -> Scratch:
    """Scratch as ext4 that a program of e2fsprogs serves. Raises ScratchFailed."""
    options = f"fsname={scratch.source},noatime"
    return _mounted(scratch, ["fuse2fs", "-o", options])


def mount_by_loop(scratch: Scratch) -> Scratch:
    """Scratch as ext4 on a loop device, which takes root. Raises ScratchFailed."""
    if os.geteuid() != 0:
        raise ScratchFailed("a loop device takes root")
    return _mounted(scratch, ["mount", "-t", "ext4", "-o", "loop,noatime"])


def _mounted(scratch: Scratch, way: Sequence[str]) -> Scratch:
    image = Path(scratch.on) / plain_name(scratch.name)
    try:
        with image.open("xb") as file:
            file.truncate(scratch.nbytes)
        _run([*_MKFS, "-E", f"root_owner={os.geteuid()}:{os.getegid()}", str(image)])
        _run([*way, str(image), scratch.folder])
    except OSError as error:
        raise ScratchFailed(f"{image}: {error.strerror}") from error
    finally:
        image.unlink(missing_ok=True)
    return replace(scratch, fallback="", fallback_nbytes=0)


def _run(words: Sequence[str]) -> None:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))
    program = shutil.which(words[0], path=path)
    if program is None:
        raise ScratchFailed(f"there is no {words[0]} here")
    done = asked([program, *words[1:]])
    if done.returncode:
        raise ScratchFailed(f"{words[0]}: {last_line(done)}")
