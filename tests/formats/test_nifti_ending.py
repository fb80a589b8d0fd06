"""A compressed image that is cut short is told when it is opened, and no sound file is refused."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from hyperslab.formats.nifti import ending
from tests.formats.nifti_made import save
from tests.system.end_to_end.command import call

SHAPE = (30, 20, 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).integers(0, 2000, SHAPE, "i2")
    return save(tmp_path / "image.nii.gz", values)


def bgzip_block(plain: bytes) -> bytes:
    """A member with its size in a field of its header, as bgzip writes it (SAM specification)."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    stored = deflate.compress(plain) + deflate.flush()
    extra = struct.pack("<BBHH", 66, 67, 2, 18 + len(stored) + 8 - 1)
    head = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x00\xff" + struct.pack("<H", len(extra)) + extra
    return head + stored + struct.pack("<II", zlib.crc32(plain), len(plain))


def members(plain: bytes, size: int) -> list[bytes]:
    return [gzip.compress(plain[at : at + size], 1) for at in range(0, len(plain), size)]


def sound(plain: bytes) -> dict[str, bytes]:
    """The same image as programs write it."""
    blocks = [bgzip_block(plain[at : at + 4000]) for at in range(0, len(plain), 4000)]
    return {
        "one member": gzip.compress(plain, 9),
        "one member with a name": b"\x1f\x8b\x08\x08"
        + gzip.compress(plain)[4:10]
        + b"a\0"
        + gzip.compress(plain)[10:],
        "stored": gzip.compress(plain, 0),
        "two members": b"".join(members(plain, 7000)),
        "many members": b"".join(members(plain, 500)),
        "an empty member at its end": gzip.compress(plain) + gzip.compress(b""),
        "bgzip": b"".join([*blocks, bgzip_block(b"")]),
        "bgzip without its empty block": b"".join(blocks),
        "zeros behind it": gzip.compress(plain) + bytes(3000),
        "more than the image": gzip.compress(plain + b"more"),
        "more in a member of its own": gzip.compress(plain) + gzip.compress(b"more"),
    }


@pytest.mark.parametrize("how", list(sound(b"")))
def test_no_sound_file_is_refused(path: Path, how: str) -> None:
    before = reading.read(formats.open_source(str(path)), Hyperslab.full(SHAPE))
    path.write_bytes(sound(gzip.decompress(path.read_bytes()))[how])
    source = formats.open_source(str(path))
    assert np.array_equal(reading.read(source, Hyperslab.full(SHAPE)), before)


@pytest.mark.parametrize("lost", [1, 4, 8, 9, 100, 5000])
@pytest.mark.parametrize("how", ["one member", "two members", "stored"])
def test_a_file_that_is_cut_short_is_told_at_once(path: Path, how: str, lost: int) -> None:
    path.write_bytes(sound(gzip.decompress(path.read_bytes()))[how][:-lost])
    with pytest.raises(FormatError, match=r"image.nii.gz: truncated: the data end too early.*;"):
        formats.open_source(str(path))


def test_a_whole_member_that_lacks_values_is_told(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-10]))
    with pytest.raises(
        FormatError, match="too early: it inflates to 12342 bytes where 12352 are needed"
    ):
        formats.open_source(str(path))


def test_a_sound_file_is_not_inflated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> tuple[int, bool]:
        raise AssertionError("inflated")

    monkeypatch.setattr(ending, "_inflated", refused)
    formats.open_source(str(path))
    stored = path.read_bytes()
    monkeypatch.setattr(ending, "MOST_NBYTES", 1000)
    path.write_bytes(stored[:-1])
    formats.open_source(str(path))


@pytest.mark.parametrize(
    "line", [("info",), ("run", "stats", "-o", "out"), ("convert", "new.h5")], ids=lambda x: x[0]
)
def test_commands_say_so_before_anything_starts(
    path: Path, line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    path.write_bytes(path.read_bytes()[:-3000])
    verb, *rest = line
    arguments = {"run": [rest[:1], path, rest[1:]], "convert": [[path], rest]}.get(verb, [[path]])
    flat = [one for part in arguments for one in (part if isinstance(part, list) else [part])]
    began = time.monotonic()
    done = call(verb, *flat)
    assert done.code != 0
    assert "image.nii.gz: truncated: the data end too early, after " in done.err
    assert sorted(each.name for each in path.parent.iterdir()) == ["image.nii.gz"]
    assert time.monotonic() - began < 100


def test_a_run_over_many_names_those_that_cannot_be_read_before_it_begins(path: Path) -> None:
    stored = path.read_bytes()
    for name in ("a", "c", "d"):
        (path.parent / f"{name}.nii.gz").write_bytes(stored)
    path.write_bytes(stored[:-3000])
    (path.parent / "d.nii.gz").write_bytes(stored[:-1])
    files = sorted(path.parent.glob("*.nii.gz"))
    line = ("run", "increment", *files, "--engine", "serial", "--no-report", "-o")
    done = call(*line, path.parent / "out", "--keep-going")
    told = "2 of 4 files cannot be read, and what needs them will fail; the first: "
    assert done.code == 1
    assert told + str(files[2]) in done.err.splitlines()[0]
    assert f"failed: {path}: truncated: " in done.err, "its name once"
    dry = call(*line, path.parent / "dry", "--dry-run")
    assert f"note       {told}" in dry.out
