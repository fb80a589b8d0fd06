"""Outputs that somebody changes after the run: verify says so, and --resume never passes over one
that is not there.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import h5py

from tests.campaign import content
from tests.campaign.commands import call
from tests.campaign.judgement import (
    expect_the_result,
    expect_verdict,
    finished,
    resume,
    resume_to_the_end,
)
from tests.campaign.rounds import Round

DEEDS = ("a voxel", "a voxel", "a header", "cut", "removed", "an older copy")
SLOPE = slice(112, 116)
"Where a NIfTI-1 header has scl_slope."
TWO = b"\x00\x00\x00\x40"
"As a float of little-endian byte order."


def play(this: Round) -> None:
    """Change an output of a finished run, ask verify, and resume."""
    finished(this)
    name = this.chance.choice(sorted(content.entries(this.seen)))
    path = this.seen / name
    deed = _fitting(path, this.chance.choice(DEEDS))
    _tamper(this.chance, path, deed)
    this.inject(f"{deed}: {path.suffix or 'a chunk'}")
    if this.job.is_reduction:  # its result is in no manifest
        call(this, "verify", str(this.place()))
    else:
        expect_verdict(this, 1)
    if deed == "removed":
        resume_to_the_end(this)
        return
    ended = resume(
        this
    )  # what is as long as it was counts as done: whatever it says, it says in a sentence
    if deed == "cut" and ended.code == 0:
        expect_the_result(this)


def _fitting(path: Path, deed: str) -> str:
    """A document of a store has no voxels, and only that of NIfTI is a header that is known
    here.
    """
    if path.suffix == ".json" and deed == "a voxel":
        return "a header"
    return "a voxel" if deed == "a header" and path.suffix not in (".nii", ".json") else deed


def _tamper(chance: random.Random, path: Path, deed: str) -> None:
    about = path.stat()
    if deed == "removed":
        path.unlink()
        return
    if deed == "a voxel" and h5py.is_hdf5(path):
        _change_a_voxel(path)
    else:
        path.write_bytes(_changed(chance, path, deed))
    if deed == "an older copy" or chance.random() < 0.5:
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def _change_a_voxel(path: Path) -> None:
    with h5py.File(path, "r+", locking=False) as file:
        data = max(
            (item for item in file.values() if isinstance(item, h5py.Dataset)),
            key=lambda item: item.size,
        )
        last = tuple(n - 1 for n in data.shape)
        data[last] = data[last] ^ 1


def _changed(chance: random.Random, path: Path, deed: str) -> bytes:
    raw = path.read_bytes()
    half, at = len(raw) // 2, chance.randrange(len(raw) * 3 // 4, len(raw))
    if deed == "cut":
        return raw[: chance.randrange(len(raw))]
    if deed == "an older copy":
        return raw[:half] + bytes(byte ^ 1 for byte in raw[half:])
    if deed == "a header" and path.suffix == ".nii":
        return raw[: SLOPE.start] + TWO + raw[SLOPE.stop :]
    return raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :]
