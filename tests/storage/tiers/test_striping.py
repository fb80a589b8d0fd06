"""Layouts of Lustre and BeeGFS, from attributes and answers as their clients give them."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from hyperslab.storage.tiers import striping
from hyperslab.storage.tiers.striping import (
    of_beegfs,
    of_lustre,
    parse_entry_info,
    parse_getstripe,
    parse_lov,
)
from hyperslab.storage.tiers.tier import Stripe

MIB = 2**20


def plain(
    count: int, nbytes: int = MIB, pool: str | None = None, pattern: int = 1, objects: int = 0
) -> bytes:
    """Attribute of a layout: magic, pattern, 16 bytes of identity, size, count, generation."""
    magic = 0x0BD10BD0 if pool is None else 0x0BD30BD0
    head = struct.pack("<IIQQIHH", magic, pattern, 7, 9, nbytes, count, 0)
    name = b"" if pool is None else pool.encode().ljust(16, b"\0")
    return head + name + bytes(24 * objects)


def composite(*parts: tuple[int, int, int, bytes]) -> bytes:
    """Attribute of a composite layout of (number, first byte, byte after the last, layout)."""
    entries, blobs = b"", b""
    at = 32 + 48 * len(parts)
    for number, start, end, layout in parts:
        entry = struct.pack("<IIQQIII", number, 0, start, end, at + len(blobs), len(layout), 0)
        entries += entry + bytes(12)
        blobs += layout
    head = struct.pack("<IIIHHH", 0x0BD60BD0, at + len(blobs), 1, 0, len(parts), 0) + bytes(14)
    return head + entries + blobs


@pytest.mark.parametrize(
    ("attribute", "stripe"),
    [
        (plain(4, objects=4), Stripe(4, MIB)),
        (plain(0xFFFF), Stripe(-1, MIB)),
        (plain(8, 4 * MIB, "flash", objects=8), Stripe(8, 4 * MIB, "flash")),
        (composite((1, 0, 2**64 - 1, plain(2))), Stripe(2, MIB)),
        (
            composite(
                (1, 0, MIB, plain(0, MIB, pattern=0x100)),
                (2, MIB, 1024 * MIB, plain(1)),
                (3, 1024 * MIB, 2**64 - 1, plain(0xFFFF, 4 * MIB, "disk")),
            ),
            Stripe(None, 4 * MIB, "disk", ((0, 0), (MIB, 1), (1024 * MIB, -1))),
        ),
        (
            composite((0x10001, 0, 2**64 - 1, plain(2)), (0x20002, 0, 2**64 - 1, plain(6))),
            Stripe(2, MIB),
        ),
    ],
    ids=["v1", "all", "v3", "one component", "progressive", "mirrored"],
)
def test_attributes_of_lustre(attribute: bytes, stripe: Stripe) -> None:
    assert parse_lov(attribute) == stripe


def test_attributes_that_are_none() -> None:
    whole = composite((1, 0, MIB, plain(1)), (2, MIB, 2**64 - 1, plain(4, pool="p")))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"lustre\.lov"):
            parse_lov(whole[:length])
    with pytest.raises(ValueError, match="the form 0xbd70bd0, not known here"):
        parse_lov(struct.pack("<I", 0x0BD70BD0) + bytes(60))
    with pytest.raises(ValueError, match="no component"):
        parse_lov(composite())


PROGRESSIVE = """\
/scratch/new
  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   2
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   268435456
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0

    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 268435456
    lcme_extent.e_end:   EOF
      stripe_count:  -1       stripe_size:   4194304       pool:   flash
"""


def test_what_lfs_prints() -> None:
    folder = "stripe_count:  4 stripe_size:   1048576 pattern: 0 stripe_offset: -1\n"
    file = "/f\nlmm_stripe_count:  2\nlmm_stripe_size:   65536\nlmm_pattern: raid0\n\tobdidx\n"
    assert parse_getstripe(folder) == Stripe(4, MIB)
    assert parse_getstripe(file) == Stripe(2, 65536)
    expected = Stripe(None, 4 * MIB, "flash", ((0, 1), (256 * MIB, -1)))
    assert parse_getstripe(PROGRESSIVE) == expected
    assert parse_getstripe("/f has no stripe info\n") is None


def test_what_beegfs_prints() -> None:
    text = (
        "Entry type: directory\nEntryID: root\nStripe pattern details:\n+ Type: RAID0\n"
        "+ Chunksize: {}\n+ Number of storage targets: desired: 4\n+ Storage Pool: 1 (Default)\n"
    )
    assert parse_entry_info(text.format("512K")) == Stripe(4, 512 * 1024, "Default")
    assert parse_entry_info(text.format("1M")) == Stripe(4, MIB, "Default")
    assert parse_entry_info("Unable to find entry\n") is None


def program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name on the PATH, and no other one of parallel file systems."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_folder_without_a_layout_has_that_of_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's file system has no such attribute: nothing is made up then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    stripe, why = of_lustre(tmp_path)
    assert stripe is None
    assert "lfs is not installed here" in why
    program(tmp_path, "lfs", 'echo "stripe_count:  3 stripe_size:   65536 $*"', monkeypatch)
    assert of_lustre(tmp_path)[0] == Stripe(3, 65536)
    program(tmp_path, "lfs", "echo 'lfs: cannot ask' >&2; exit 5", monkeypatch)
    assert of_lustre(tmp_path) == (
        None,
        "it has the layout of its file system, which 'lfs' tells: lfs: lfs: cannot ask",
    )


def test_an_attribute_that_cannot_be_read_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, name: str) -> bytes:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "getxattr", refuse)
    assert of_lustre(tmp_path) == (
        None,
        "its attribute lustre.lov cannot be read: Permission denied",
    )
    monkeypatch.setattr(os, "getxattr", lambda *_: plain(5, objects=5))
    assert of_lustre(tmp_path) == (Stripe(5, MIB), "")


def test_programs_of_beegfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert of_beegfs(tmp_path)[0] is None
    lines = "echo '+ Chunksize: 512K'; echo '+ Number of storage targets: desired: 4'"
    program(tmp_path, "beegfs", f'[ "$1 $2 $3" = "entry info --retro" ] && {lines}', monkeypatch)
    assert of_beegfs(tmp_path)[0] == Stripe(4, 512 * 1024)
    program(tmp_path, "beegfs-ctl", "sleep 60", monkeypatch)
    monkeypatch.setattr(striping, "_ANSWER_LIMIT_S", 0.05)
    assert of_beegfs(tmp_path)[0] == Stripe(4, 512 * 1024), "the newer program knows it, too"
