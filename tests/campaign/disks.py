"""Disks that fill up, run out of files or become read-only under a run, and are mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.campaign.commands import await_end, await_moment, begin
from tests.campaign.deaths import slower
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round
from tests.system.faults.disk import Disk, small_disk

MIB = 2**20
LEAST_NBYTES, MOST_NBYTES = 6 * MIB, 14 * MIB
AMPLE = "size=256m,nr_inodes=0"
ATTEMPTS = 20
TROUBLES = ("full", "no files left", "read-only")


def play(this: Round) -> None:
    """Let a disk fail at any moment, mend it, and resume."""
    nbytes = this.chance.randint(LEAST_NBYTES, MOST_NBYTES)
    with small_disk(this.folder / "disk", nbytes) as disk:
        this.inside = disk.inside
        this.elsewhere = (disk.path / "out", disk.seen / "out")
        command = begin(this, *this.line(), environment=slower(this))
        await_moment(this, command)
        trouble = this.chance.choice(TROUBLES)
        if not command.has_ended:
            this.inject(trouble)
            _cause(disk, trouble)
        ended = await_end(this, command)
        if ended.code == 0:
            expect_the_result(this)
        else:
            expect_nothing_torn(this)
        _mend(disk)
        resume_to_the_end(this)
        _keep(disk.seen / "out", this)


def _cause(disk: Disk, trouble: str) -> None:
    if trouble == "full":
        disk.fill()
    elif trouble == "no files left":
        _use_up_inodes(disk)
    else:
        _set_read_only(disk)


def _use_up_inodes(disk: Disk) -> None:
    """Leave no more than there are; it is refused as long as there are more than that by then."""
    for spare in range(ATTEMPTS):
        about = os.statvfs(disk.seen)
        if _remounts(disk, f"nr_inodes={about.f_files - about.f_ffree + spare}"):
            return
    disk.fill()


def _set_read_only(disk: Disk) -> None:
    """Refused while files are open for writing: then a moment later, or it becomes full instead."""
    for _ in range(ATTEMPTS):
        if _remounts(disk, "ro"):
            return
        time.sleep(0.01)
    disk.fill()


def _remounts(disk: Disk, options: str) -> bool:
    try:
        disk.remount(options)
    except subprocess.CalledProcessError:
        return False
    return True


def _mend(disk: Disk) -> None:
    disk.remount(f"rw,{AMPLE}")
    (disk.seen / "filler").unlink(missing_ok=True)


def _keep(seen: Path, this: Round) -> None:
    """The disk is gone with the round: of one that is not right, a copy stays."""
    if this.findings and seen.exists():
        shutil.copytree(seen, this.folder / "disk-as-it-was", symlinks=True)
