"""Gzip files entered through an index: the conformance suite, files of every kind of maker, damage, runs and views."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab
import hyperslab.testing.formats as suite
from hyperslab import blockio, formats, gzipindex, native
from hyperslab.array import Array, ArraySource, Values
from hyperslab.errors import FormatError, SourceChanged
from hyperslab.slab import Hyperslab
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, count_calls, slabs
from tests.clusters.required import required
from tests.formats.files import real_files
from tests.formats.test_nifti import DTYPES, random_values, save, whole

nib: Any = nibabel
"Its functions carry no types."

SHAPE = (40, 30, 50)
"Of images of int16: 120,000 bytes."
SPACING = 8192


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gzip")


class TestIndexedNifti(FormatTests):
    @pytest.fixture(params=[p for p in real_files("nifti") if p.values[0].suffix == ".gz" or p.marks])
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)

    @pytest.fixture(autouse=True, params=["in memory", "in a file"])
    def _indexed(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Every source that the suite opens has an index of many points."""
        plain, known = formats.open_source, dict[str, ArraySource]()

        def indexed(url: str) -> ArraySource:
            if url not in known:
                kept = folder / f"{len(known)}.gzipindex" if request.param == "in a file" else None
                known[url] = gzipindex.index(plain(url), kept, spacing=SPACING)
            return known[url]

        monkeypatch.setattr(formats, "open_source", indexed)
        monkeypatch.setattr(suite, "_open_source", indexed)

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        block: Array = whole(url, values)[slab.slices()]
        return block

    def test_a_region_takes_one_open(self, urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        for source in map(formats.open_source, urls):
            calls = count_calls(monkeypatch, source.url)
            blockio.read(source, Hyperslab((0,) * source.ndim, tuple(min(n, 9) for n in source.shape)), values="stored")
            assert calls == ["open", "fstat"]


def image_bytes(tmp_path: Path, values: Array, order: str = "<", slope: float = 1) -> bytes:
    return save(tmp_path / "plain.nii", values, 1, order, slope).read_bytes()


def member(data: bytes, level: int = 6, strategy: int = 0, name: bytes = b"") -> bytes:
    """A gzip member as this level and strategy of zlib makes it, with a name in its header if there is one."""
    pack = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
    deflated = pack.compress(data) + pack.flush()
    head = b"\x1f\x8b\x08" + (b"\x08" if name else b"\0") + bytes(6) + (name + b"\0" if name else b"")
    return head + deflated + (zlib.crc32(data)).to_bytes(4, "little") + (len(data) % 2**32).to_bytes(4, "little")


def open_at(path: Path, stored: bytes, spacing: int = SPACING) -> ArraySource:
    path.write_bytes(stored)
    return gzipindex.index(formats.open_source(str(path)), spacing=spacing)


def volume(shape: tuple[int, ...] = SHAPE) -> Array:
    """Values that deflate to about half, with an empty part."""
    rng = np.random.default_rng(5)
    values = (1000 * np.sin(np.arange(np.prod(shape)) / 500) + rng.normal(size=int(np.prod(shape))) * 9).astype("i2")
    values[: len(values) // 5] = 0
    return values.reshape(shape, order="F")


@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from("<>"),
    slope=st.sampled_from([1, 0.5]),
    spacing=st.integers(1, 9000),
)
@settings(max_examples=120, deadline=None)
def test_any_file_reads_as_nibabel_reads_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, shape: tuple[int, ...], dtype: str, order: str,
    slope: float, spacing: int,
) -> None:  # fmt: skip
    values = random_values(shape, np.dtype(dtype))
    folder = tmp_path_factory.mktemp("image")
    plain = image_bytes(folder, values, order, slope)
    cuts = sorted(data.draw(st.lists(st.integers(348, len(plain)), max_size=6)))
    parts = [plain[a:b] for a, b in zip([0, *cuts], [*cuts, len(plain)], strict=True)]
    kinds = data.draw(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=len(parts), max_size=len(parts))
    )
    padding = data.draw(st.sampled_from([b"", b"\0", bytes(513)]))
    stored = padding.join(member(part, *kind, b"n" * len(kinds)) for part, kind in zip(parts, kinds, strict=True))
    source = open_at(folder / "image.nii.gz", stored + padding, spacing)
    image, slab = nib.load(source.url), data.draw(slabs(shape))
    assert_same(blockio.read(source, slab, values="stored"), values[slab.slices()])
    assert_same(blockio.read(source, slab, values="real", threads=2), np.asanyarray(image.dataobj)[slab.slices()])


@pytest.mark.parametrize("level", range(10))
def test_every_level_has_points(tmp_path: Path, level: int) -> None:
    values = volume((40, 30, 200))
    source = open_at(tmp_path / "image.nii.gz", member(image_bytes(tmp_path, values), level))
    assert source.gzip is not None
    assert len(source.gzip) >= 5
    assert_same(blockio.read(source, Hyperslab.full(values.shape)), values)
    for z in range(0, 200, 17):
        slab = Hyperslab((1, 2, z), (38, 9, 1), (1, 3, 1))
        assert_same(blockio.read(source, slab), values[slab.slices()])


def test_what_follows_the_image_is_treated_as_the_gzip_module_does(tmp_path: Path) -> None:
    values, path = volume(), tmp_path / "image.nii.gz"
    stored = member(image_bytes(tmp_path, values))
    for after in (b"", bytes(100), member(b""), member(b"more"), bytes(3) + member(bytes(10**7)) + b"far behind"):
        assert_same(blockio.read(open_at(path, stored + after), Hyperslab.full(SHAPE)), values)
    for after in (b"x", b"\x1f", b"\x1f\x8b", b"\0\x1f\x8b\x07", member(b"more")[:-1], member(b"more")[:12]):
        with pytest.raises((OSError, EOFError)):
            gzip.GzipFile(fileobj=io.BytesIO(stored + after)).read()
        with pytest.raises(FormatError, match=r"image\.nii\.gz"):
            open_at(path, stored + after)


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
        with pytest.raises(FormatError, match=r"image\.nii\.gz: .*; fetch or copy the file again"):
            gzipindex.index(described, spacing=SPACING)


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
            assert_same(blockio.read(source, full), values)
        else:
            noticed += 1
            assert re.search(r"image\.nii\.gz: the gzip data that begin at byte \d+ .*; fetch or copy", message)
    assert noticed >= 290, "all but the fields of the header that nobody reads, and the trailer"


def _refusal(source: ArraySource) -> str | None:
    """What a read of everything says is wrong."""
    try:
        blockio.read(source, Hyperslab.full(source.shape))
    except FormatError as error:
        return str(error)
    return None


def _overwrite(path: Path, data: bytes | bytearray, source: ArraySource) -> None:
    """Change a file behind the back of who looks at its size and time."""
    path.write_bytes(data)
    os.utime(path, ns=(source.mtime_ns, source.mtime_ns))


def test_an_index_in_a_file_is_loaded_or_not_at_all(tmp_path: Path) -> None:
    values, kept = volume(), tmp_path / "kept.gzipindex"
    path = save(tmp_path / "image.nii.gz", values)
    described = formats.open_source(str(path))
    gzipindex.index(described, kept, spacing=SPACING)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
    loaded = gzipindex.load(described, kept)
    assert loaded is not None
    assert_same(blockio.read(pickle.loads(pickle.dumps(loaded)), Hyperslab.full(SHAPE)), values)
    good = kept.read_bytes()
    for at in np.linspace(0, len(good) - 1, 200).astype(int):
        kept.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert gzipindex.load(described, kept) is None
    for cut in (b"", good[:8], good[:-1]):
        kept.write_bytes(cut)
        assert gzipindex.load(described, kept) is None
    kept.write_bytes(good)
    os.utime(path, ns=(described.mtime_ns, described.mtime_ns + 1))
    assert gzipindex.load(formats.open_source(str(path)), kept) is None, "the file was written to since"
    kept.unlink()
    assert gzipindex.load(described, kept) is None


def test_a_damaged_index_is_an_error_where_a_task_reads_through_it(tmp_path: Path) -> None:
    values, kept = volume(), tmp_path / "kept.gzipindex"
    path = save(tmp_path / "image.nii.gz", values)
    source, full = gzipindex.index(formats.open_source(str(path)), kept, spacing=SPACING), Hyperslab.full(SHAPE)
    assert source.gzip is not None
    good, windows_nbytes = kept.read_bytes(), int(source.gzip.points[:-1, 4].sum())
    assert windows_nbytes > 1000
    for at in np.linspace(0, windows_nbytes - 1, 50).astype(int):
        kept.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(FormatError, match=r"image\.nii\.gz: .* damaged gzip index; run again with --resume"):
            blockio.read(source, full)
    kept.unlink()
    with pytest.raises(FormatError, match=r"kept\.gzipindex is gone; run again with --resume"):
        blockio.read(source, full)


def test_a_file_that_is_written_to_is_not_indexed(tmp_path: Path) -> None:
    path = save(tmp_path / "image.nii.gz", volume())
    described = formats.open_source(str(path))
    os.utime(path, ns=(0, 0))
    with pytest.raises(SourceChanged, match="written to"):
        gzipindex.index(described)
    path.unlink()
    with pytest.raises(SourceChanged, match="no longer there"):
        gzipindex.index(described)


def test_indexing_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "image.nii.gz", volume())
    monkeypatch.setattr(gzipindex._Writing, "add", lambda *_: time.sleep(0.06))

    def stop(position: int) -> None:
        assert 0 < position <= path.stat().st_size
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gzipindex.index(formats.open_source(str(path)), tmp_path / "kept", stop, SPACING)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_without_the_core_nibabel_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = volume()
    source = open_at(tmp_path / "image.nii.gz", member(image_bytes(tmp_path, values)))
    monkeypatch.setattr(native, "core", None)
    slab = Hyperslab((3, 2, 40), (9, 9, 9), (1, 1, 1))
    assert_same(blockio.read(source, slab), values[slab.slices()])
    assert blockio.read_nbytes(source, slab) > 0.9 * source.file_size
    assert not gzipindex.can_be_indexed(formats.open_source(source.url))


def test_a_task_takes_few_system_calls(tmp_path: Path) -> None:
    required("" if shutil.which("strace") else "strace is not installed (Debian package strace)")
    path = save(tmp_path / "image.nii.gz", volume((40, 30, 200)))
    source = gzipindex.index(formats.open_source(str(path)), tmp_path / "kept", spacing=SPACING)
    slab = Hyperslab((0, 0, 150), (40, 30, 20))
    (tmp_path / "task").write_bytes(pickle.dumps((source, slab)))
    code = "import pickle, sys; from hyperslab import blockio; blockio.read(*pickle.load(open(sys.argv[1], 'rb')))"
    command = ["strace", "-f", "-y", "-o", str(tmp_path / "calls"), sys.executable, "-c", code, str(tmp_path / "task")]
    subprocess.run(command, check=True, timeout=60)
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if path.name in line]
    names = [found[1] for line in calls if (found := re.match(r"\d+ +(\w+)\(", line))]
    assert source.gzip is not None
    reads = [name for name in names if name.startswith("pread")]
    others = [name.replace("newfstatat", "fstat") for name in names if name not in reads]
    assert others == ["openat", "fstat", "close"]
    assert 1 <= len(reads) <= 4 < len(source.gzip), "one read per interval that the slab touches"


def _total(block: Array) -> int:
    return int(block.sum(dtype=np.int64))


def _sum(first: int, second: int) -> int:
    return first + second


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are indexed from now on; a few kilobytes are enough for that."""
    names: list[str] = []
    plain = gzipindex.index

    def watched(source: ArraySource, path: Path | None = None, watch: gzipindex.Watch = lambda _: None) -> ArraySource:
        names.append(Path(source.url).name)
        return plain(source, path, watch, SPACING)

    monkeypatch.setattr(gzipindex, "index", watched)
    monkeypatch.setattr(gzipindex, "LEAST_INDEXED_NBYTES", 30_000)
    return names


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_run_indexes_what_several_tasks_read(tmp_path: Path, engine: str, indexed: list[str]) -> None:
    values = volume((40, 30, 200))
    path = save(tmp_path / "image.nii.gz", values)
    pipeline = hyperslab.Pipeline(str(path)).write(tmp_path / "out")
    result = hyperslab.run(pipeline, engine=engine, workers=2, rule=hyperslab.Rule("block-shape", (40, 30, 10)))
    assert result.ok
    assert len(result.outputs) == result.tasks == 20
    for block in result.outputs:
        z = int(block.stem.split("_")[-1])
        assert_same(np.asanyarray(nib.load(block).dataobj), values[:, :, z : z + 10])
    from_the_start = sum(path.stat().st_size * k / 20 for k in range(1, 21))
    assert result.summary.read_nbytes < from_the_start / 2
    assert indexed == ["image.nii.gz"]
    assert not (tmp_path / "out" / ".hyperslab" / "gzip").exists(), "nobody will go on with this run"


def test_what_one_task_reads_is_not_indexed(tmp_path: Path, indexed: list[str]) -> None:
    for name in "ab":
        save(tmp_path / f"{name}.nii.gz", volume())
    fold = hyperslab.Fold(lift=_total, merge=_sum)
    rule = hyperslab.Rule("block-shape", SHAPE)
    result = hyperslab.run(hyperslab.Pipeline(str(tmp_path)).reduce(fold), engine="serial", rule=rule)
    assert (result.value, indexed) == (2 * _total(volume()), [])


def test_a_corrupt_file_fails_its_tasks_only_and_an_index_outlives_a_failed_run(
    tmp_path: Path, indexed: list[str]
) -> None:
    values = volume()
    good, bad = (save(tmp_path / f"{name}.nii.gz", values) for name in ("good", "bad"))
    right = bad.read_bytes()
    bad.write_bytes(right[:-8] + bytes(4) + right[-4:])
    settings: dict[str, Any] = {"engine": "serial", "rule": hyperslab.Rule("block-shape", (40, 30, 10)), "retries": 0}
    result = hyperslab.run(hyperslab.Pipeline([str(good), str(bad)]).write(tmp_path / "out"), **settings)
    assert result.state == "failed"
    assert len(result.outputs) == len(result.failures) == 5
    assert all("bad.nii.gz: has corrupt gzip data: the checksum" in f.failure.message for f in result.failures)
    assert len(list((tmp_path / "out" / ".hyperslab" / "gzip").iterdir())) == 1
    good_block = min(result.outputs)
    good_block.unlink()
    min(path for path in result.outputs if path != good_block).unlink()
    bad.write_bytes(right)
    indexed.clear()
    pipeline = hyperslab.Pipeline([str(good), str(bad)]).write(tmp_path / "out")
    result = hyperslab.run(pipeline, resume=True, **settings)
    assert (result.state, len(result.outputs)) == ("done", 10)
    assert indexed == ["bad.nii.gz"], "the other one's index was still there"
    for block in result.outputs:
        z = int(block.stem.split("_")[-1])
        assert_same(np.asanyarray(nib.load(block).dataobj), values[:, :, z : z + 10])


def test_a_view_indexes_once_what_it_enters_in_the_middle(tmp_path: Path, indexed: list[str]) -> None:
    values = volume()
    view = hyperslab.open(str(save(tmp_path / "image.nii.gz", values)))
    assert_same(view[:, :, :3], values[:, :, :3])
    assert_same(np.asarray(view), values)
    assert indexed == [], "from the start it is inflated as fast without"
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda z: view[::-1, 3:9, z], range(20, 50)))
    assert_same(np.stack(blocks, axis=-1), values[::-1, 3:9, 20:])
    assert indexed == ["image.nii.gz"]
    assert_same(pickle.loads(pickle.dumps(view))[5, ..., 30], values[5, :, 30])
    assert indexed == ["image.nii.gz"]


def test_what_is_read_and_why_is_told(tmp_path: Path) -> None:
    described = formats.open_source(str(save(tmp_path / "image.nii.gz", volume())))
    assert described.reason.startswith("one gzip stream, small enough")
    assert "indexed: a task enters it at the nearest of" in gzipindex.index(described, spacing=SPACING).reason
    large = formats.open_source(str(save(tmp_path / "large.nii.gz", np.zeros((200, 200, 60), "i2"))))
    assert large.reason.startswith("one gzip stream: indexed once")
    assert (gzipindex.can_be_indexed(large), gzipindex.can_be_indexed(described)) == (True, False)
