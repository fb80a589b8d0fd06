"""Damaged gzip files: no value of one is returned, whoever reads it, and its index notices what
happens to it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab import formats, native
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, GzipIndex
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import FormatError
from hyperslab.testing.formats import assert_same
from tests.formats.nifti_made import member, save
from tests.formats.test_gzip import SHAPE, SPACING, image_bytes, nib, open_at, volume
from tests.repetitions import each_value


def silent_damage(stored: bytes, places: int) -> list[bytes]:
    """A file of one member with one bit changed, at places spread over it, so that nothing but the
    checksum can tell: it inflates to as many bytes, of which some are others.
    """
    plain, found = zlib.decompress(stored, 31), []
    for at in np.linspace(400, len(stored) - 20, places).astype(int):
        for bit in range(8 * at, 8 * at + 64):
            mutated = bytearray(stored)
            mutated[bit // 8] ^= 1 << bit % 8
            if plain != (inflated := _inflated(mutated)) and len(inflated) == len(plain):
                found.append(bytes(mutated))
                break
    return found


def _inflated(stored: bytearray) -> bytes:
    """What a member holds, whatever its checksum says; nothing if that cannot be told."""
    inflate = zlib.decompressobj(-15)
    with contextlib.suppress(zlib.error):
        plain = inflate.decompress(memoryview(stored)[10:])
        return plain if len(inflate.unused_data) == 8 else b""
    return b""


@pytest.fixture(scope="module", params=[(40, 30, 50), (200, 200, 53)], ids=["small", "large"])
def damaged(request: pytest.FixtureRequest) -> tuple[tuple[int, ...], list[bytes]]:
    """The shape of an image and files of it that are silently damaged at several places."""
    plain = nib.Nifti1Image(volume(request.param), np.eye(4)).to_bytes()
    found = silent_damage(gzip.compress(plain, 1), 3)
    assert len(found) >= 2
    return request.param, found[:2]


@each_value("every way of reading, and every file")
@pytest.mark.parametrize("way", ["view", "task", "without the core", "cannot be entered"])
def test_no_value_of_a_damaged_file_is_returned(
    damaged: tuple[tuple[int, ...], list[bytes]],
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape, files = damaged
    path, slabs = tmp_path / "image.nii.gz", regions(shape)
    if way == "without the core":
        monkeypatch.setattr(native, "core", None)
    for stored in files:
        path.write_bytes(stored)
        source = formats.open_source(str(path))
        if way == "cannot be entered":
            source = replace(source, gzip=GzipIndex(np.empty((0, 8), np.int64), 352))
        for slab in slabs:
            with pytest.raises(
                FormatError, match=r"image\.nii\.gz: .*corrupt.*; fetch or copy the file again"
            ):
                (
                    hyperslab.open(str(path)).read(slab)
                    if way == "view"
                    else reading.read(source, slab)
                )


def regions(shape: tuple[int, ...]) -> list[Hyperslab]:
    """The first voxel, the last one, a plane, every other voxel from behind."""
    last = tuple(n - 1 for n in shape)
    return [
        Hyperslab((0, 0, 0), (1, 1, 1)),
        Hyperslab(last, (1, 1, 1)),
        Hyperslab((0, 0, shape[2] // 2), (*shape[:2], 1)),
        Hyperslab(last, tuple(n // 2 for n in shape), (-2, -2, -2)),
    ]


def test_no_result_is_made_of_a_damaged_file(
    damaged: tuple[tuple[int, ...], list[bytes]], tmp_path: Path
) -> None:
    (shape, files), path = damaged, tmp_path / "image.nii.gz"
    path.write_bytes(files[-1])
    pipeline = hyperslab.Pipeline(str(path)).write(tmp_path / "out")
    for tasks in (1, 4):
        rule = hyperslab.Rule("block-shape", (shape[0], shape[1], -(-shape[2] // tasks)))
        result = hyperslab.run(pipeline, engine="serial", rule=rule, retries=0, check=False)
        assert (result.state, result.outputs, len(result.failures)) == ("failed", [], tasks)
        assert all("image.nii.gz: " in f.message for f in result.failures)
        shutil.rmtree(tmp_path / "out")


def test_damage_of_the_header_shows_before_a_value_is_returned(tmp_path: Path) -> None:
    path = save(tmp_path / "image.nii.gz", volume((20, 30, 40)), slope=0.3)
    stored, opened = path.read_bytes(), 0
    plain = gzip.decompress(stored)
    for bit in range(8 * 60, 8 * 260):
        mutated = bytearray(stored)
        mutated[bit // 8] ^= 1 << bit % 8
        inflated = _inflated(mutated)
        if inflated[352:] == plain[352:] and inflated != plain:
            path.write_bytes(mutated)
            with contextlib.suppress(FormatError):
                source = formats.open_source(str(path))
                opened += source.size > 0
                for way in (
                    lambda s: reading.read(s, Hyperslab((0,) * s.ndim, (1,) * s.ndim)),
                    gzipindex.index,
                ):
                    with pytest.raises(FormatError, match="; fetch or copy the file again"):
                        way(source)
    assert opened >= 3


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    values, path = volume(), tmp_path / "image.nii.gz"
    stored = member(image_bytes(tmp_path, values))
    for keep in (len(stored) - 1, len(stored) - 8, len(stored) - 9, len(stored) // 2, 2000):
        with pytest.raises(FormatError, match=r"image\.nii\.gz.*end too early.*again"):
            open_at(path, stored[:keep])
    with pytest.raises(FormatError, match="inflates to 120351 bytes where 120352 are needed"):
        open_at(path, member(image_bytes(tmp_path, values)[:-1]))


def test_damage_is_noticed_when_a_file_is_indexed(tmp_path: Path) -> None:
    values, path = volume(), tmp_path / "image.nii.gz"
    stored = member(image_bytes(tmp_path, values))
    path.write_bytes(stored)
    described = formats.open_source(str(path))
    for at in [*range(10, 60), *np.linspace(60, len(stored) - 1, 400).astype(int)]:
        mutated = bytearray(stored)
        mutated[at] ^= 1 << at % 8
        _overwrite(path, mutated, described)
        with pytest.raises(
            FormatError, match=r"image\.nii\.gz: .*; fetch or copy the file again"
        ) as raised:
            gzipindex.index(described, spacing=SPACING)
        assert "call" not in str(raised.value), "what zlib-rs says of itself is not about the file"


def test_damage_after_that_is_noticed_by_who_reads_it(tmp_path: Path) -> None:
    values, path = volume(), tmp_path / "image.nii.gz"
    stored = member(image_bytes(tmp_path, values))
    source = open_at(path, stored)
    full, noticed = Hyperslab.full(SHAPE), 0
    for at in np.linspace(0, len(stored) - 1, 300).astype(int):
        mutated = bytearray(stored)
        mutated[at] ^= 1 << at % 8
        _overwrite(path, mutated, source)
        if (message := _refusal(source)) is None:
            assert_same(reading.read(source, full), values)
        else:
            noticed += 1
            assert re.search(
                r"image\.nii\.gz: the gzip data that begin at byte \d+ .*; fetch or copy", message
            )
    assert noticed >= 290, "all but the fields of the header that nobody reads, and the trailer"


def _refusal(source: ArraySource) -> str | None:
    """What a read of everything says is wrong."""
    try:
        reading.read(source, Hyperslab.full(source.shape))
    except FormatError as error:
        return str(error)
    return None


def _overwrite(path: Path, data: bytes | bytearray, source: ArraySource) -> None:
    """Change a file behind the back of who looks at its size and time."""
    path.write_bytes(data)
    os.utime(path, ns=(source.mtime_ns, source.mtime_ns))


def test_a_damaged_index_is_an_error_where_a_task_reads_through_it(tmp_path: Path) -> None:
    values, kept = volume(), tmp_path / "kept.gzipindex"
    path = save(tmp_path / "image.nii.gz", values)
    source, full = (
        gzipindex.index(formats.open_source(str(path)), kept, spacing=SPACING),
        Hyperslab.full(SHAPE),
    )
    assert source.gzip is not None
    good, windows_nbytes = kept.read_bytes(), int(source.gzip.points[:-1, 4].sum())
    assert windows_nbytes > 1000
    for at in np.linspace(0, windows_nbytes - 1, 50).astype(int):
        kept.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(
            FormatError, match=r"image\.nii\.gz: .* damaged gzip index; run again with --resume"
        ):
            reading.read(source, full)
    kept.unlink()
    with pytest.raises(FormatError, match=r"kept\.gzipindex is gone; run again with --resume"):
        reading.read(source, full)
