"""Gzip files entered through an index: the conformance suite, files of every kind of maker, damage,
runs and views.
"""

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
from hyperslab import formats, native
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import FormatError, SourceChanged
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, count_calls, slabs
from tests.examples import examples
from tests.formats.files import unlike_real_files
from tests.formats.nifti_made import member, random_values, save, smooth_values
from tests.formats.test_nifti import DTYPES, whole
from tests.repetitions import few
from tests.system.clusters.required import required

nib: Any = nibabel
"Its functions carry no types."

SHAPE = (40, 30, 50)
"Of images of int16: 120,000 bytes."
SPACING = 8192
KEPT = ["in memory", "in a file"]
"Where an index is; tests of runs and of views have it in a file."


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gzip")


class TestIndexedNifti(FormatTests):
    @pytest.fixture(
        params=[p for p in unlike_real_files("nifti") if p.values[0].suffix == ".gz" or p.marks]
    )
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)

    @pytest.fixture(autouse=True, params=few(["in memory"], KEPT, "an index finds every region"))
    def _indexed(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
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

    def test_a_region_takes_one_open(
        self, urls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for source in map(formats.open_source, urls):
            calls = count_calls(monkeypatch, source.url)
            reading.read(
                source,
                Hyperslab((0,) * source.ndim, tuple(min(n, 9) for n in source.shape)),
                values="stored",
            )
            assert calls == ["open", "fstat"]


def image_bytes(tmp_path: Path, values: Array, order: str = "<", slope: float = 1) -> bytes:
    return save(tmp_path / "plain.nii", values, 1, order, slope).read_bytes()


def open_at(path: Path, stored: bytes, spacing: int = SPACING) -> ArraySource:
    path.write_bytes(stored)
    return gzipindex.index(formats.open_source(str(path)), spacing=spacing)


def volume(shape: tuple[int, ...] = SHAPE) -> Array:
    """Values that deflate to about half, with an empty part."""
    return smooth_values(shape, np.dtype("i2"))


@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from("<>"),
    slope=st.sampled_from([1, 0.5]),
    spacing=st.integers(1, 9000),
)
@settings(max_examples=examples(120), deadline=None)
def test_any_file_reads_as_nibabel_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    shape: tuple[int, ...],
    dtype: str,
    order: str,
    slope: float,
    spacing: int,
) -> None:
    values = random_values(shape, np.dtype(dtype))
    folder = tmp_path_factory.mktemp("image")
    plain = image_bytes(folder, values, order, slope)
    cuts = sorted(data.draw(st.lists(st.integers(348, len(plain)), max_size=6)))
    parts = [plain[a:b] for a, b in zip([0, *cuts], [*cuts, len(plain)], strict=True)]
    kinds = data.draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 4)),
            min_size=len(parts),
            max_size=len(parts),
        )
    )
    padding = data.draw(st.sampled_from([b"", b"\0", bytes(513)]))
    stored = padding.join(
        member(part, *kind, b"n" * len(kinds)) for part, kind in zip(parts, kinds, strict=True)
    )
    source = open_at(folder / "image.nii.gz", stored + padding, spacing)
    image, slab = nib.load(source.url), data.draw(slabs(shape))
    assert_same(reading.read(source, slab, values="stored"), values[slab.slices()])
    assert_same(
        reading.read(source, slab, values="real", threads=2),
        np.asanyarray(image.dataobj)[slab.slices()],
    )


@pytest.mark.parametrize("level", range(10))
def test_every_level_has_points(tmp_path: Path, level: int) -> None:
    values = volume((40, 30, 200))
    source = open_at(tmp_path / "image.nii.gz", member(image_bytes(tmp_path, values), level))
    assert source.gzip is not None
    assert len(source.gzip) >= 5
    assert_same(reading.read(source, Hyperslab.full(values.shape)), values)
    for z in range(0, 200, 17):
        slab = Hyperslab((1, 2, z), (38, 9, 1), (1, 3, 1))
        assert_same(reading.read(source, slab), values[slab.slices()])


def test_what_follows_the_image_is_treated_as_the_gzip_module_does(tmp_path: Path) -> None:
    values, path = volume(), tmp_path / "image.nii.gz"
    stored = member(image_bytes(tmp_path, values))
    for after in (
        b"",
        bytes(100),
        member(b""),
        member(b"more"),
        bytes(3) + member(bytes(10**7)) + bytes(9),
    ):
        assert_same(reading.read(open_at(path, stored + after), Hyperslab.full(SHAPE)), values)
    for after in (
        b"x",
        b"\x1f",
        b"\x1f\x8b",
        b"\0\x1f\x8b\x07",
        member(b"more")[:-1],
        member(bytes(10**7)) + b"x",
    ):
        with pytest.raises((OSError, EOFError)):
            gzip.GzipFile(fileobj=io.BytesIO(stored + after)).read()
        with pytest.raises(FormatError, match=r"image\.nii\.gz"):
            open_at(path, stored + after)


def test_an_index_in_a_file_is_loaded_or_not_at_all(tmp_path: Path) -> None:
    values, kept = volume(), tmp_path / "kept.gzipindex"
    path = save(tmp_path / "image.nii.gz", values)
    described = formats.open_source(str(path))
    gzipindex.index(described, kept, spacing=SPACING)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
    loaded = gzipindex.load(described, kept)
    assert loaded is not None
    assert_same(reading.read(pickle.loads(pickle.dumps(loaded)), Hyperslab.full(SHAPE)), values)
    good = kept.read_bytes()
    for at in np.linspace(0, len(good) - 1, 200).astype(int):
        kept.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert gzipindex.load(described, kept) is None
    for cut in (b"", good[:8], good[:-1]):
        kept.write_bytes(cut)
        assert gzipindex.load(described, kept) is None
    kept.write_bytes(good)
    os.utime(path, ns=(described.mtime_ns, described.mtime_ns + 1))
    assert gzipindex.load(formats.open_source(str(path)), kept) is None, (
        "the file was written to since"
    )
    kept.unlink()
    assert gzipindex.load(described, kept) is None


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
    assert_same(reading.read(source, slab), values[slab.slices()])
    assert reading.read_nbytes(source, slab) > 0.9 * source.file_size
    assert not gzipindex.can_be_indexed(formats.open_source(source.url))


def test_a_task_takes_few_system_calls(tmp_path: Path) -> None:
    required("" if shutil.which("strace") else "strace is not installed (Debian package strace)")
    path = save(tmp_path / "image.nii.gz", volume((40, 30, 200)))
    source = gzipindex.index(formats.open_source(str(path)), tmp_path / "kept", spacing=SPACING)
    slab = Hyperslab((0, 0, 150), (40, 30, 20))
    (tmp_path / "task").write_bytes(pickle.dumps((source, slab)))
    code = (
        "import pickle, sys; from hyperslab.blocks import reading;"
        " reading.read(*pickle.load(open(sys.argv[1], 'rb')))"
    )
    command = [
        "strace",
        "-f",
        "-y",
        "-o",
        str(tmp_path / "calls"),
        sys.executable,
        "-c",
        code,
        str(tmp_path / "task"),
    ]
    subprocess.run(command, check=True, timeout=200)
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

    def watched(
        source: ArraySource, path: Path | None = None, watch: gzipindex.Watch = lambda _: None
    ) -> ArraySource:
        names.append(Path(source.url).name)
        return plain(source, path, watch, SPACING)

    monkeypatch.setattr(gzipindex, "index", watched)
    monkeypatch.setattr(gzipindex, "LEAST_INDEXED_NBYTES", 30_000)
    return names


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_run_indexes_what_several_tasks_read(
    tmp_path: Path, engine: str, indexed: list[str]
) -> None:
    values = volume((40, 30, 200))
    path = save(tmp_path / "image.nii.gz", values)
    pipeline = hyperslab.Pipeline(str(path)).write(tmp_path / "out")
    result = hyperslab.run(
        pipeline, engine=engine, workers=2, rule=hyperslab.Rule("block-shape", (40, 30, 10))
    )
    assert result.ok
    assert len(result.outputs) == result.tasks == 20
    for block in result.outputs:
        z = int(block.stem.split("_")[-1])
        assert_same(np.asanyarray(nib.load(block).dataobj), values[:, :, z : z + 10])
    from_the_start = sum(path.stat().st_size * k / 20 for k in range(1, 21))
    assert result.summary.read_nbytes < from_the_start / 2
    assert indexed == ["image.nii.gz"]
    assert not (tmp_path / "out" / ".hyperslab" / "gzip").exists(), (
        "nobody will go on with this run"
    )


def test_what_one_task_reads_is_not_indexed(tmp_path: Path, indexed: list[str]) -> None:
    for name in "ab":
        save(tmp_path / f"{name}.nii.gz", volume())
    fold = hyperslab.Fold(lift=_total, merge=_sum)
    rule = hyperslab.Rule("block-shape", SHAPE)
    result = hyperslab.run(
        hyperslab.Pipeline(str(tmp_path)).reduce(fold), engine="serial", rule=rule
    )
    assert (result.value, indexed) == (2 * _total(volume()), [])


def test_a_corrupt_file_fails_its_tasks_only_and_an_index_outlives_a_failed_run(
    tmp_path: Path, indexed: list[str]
) -> None:
    values = volume()
    good, bad = (save(tmp_path / f"{name}.nii.gz", values) for name in ("good", "bad"))
    right = bad.read_bytes()
    bad.write_bytes(right[:-8] + bytes(4) + right[-4:])
    settings: dict[str, Any] = {
        "engine": "serial",
        "rule": hyperslab.Rule("block-shape", (40, 30, 10)),
        "retries": 0,
    }
    result = hyperslab.run(
        hyperslab.Pipeline([str(good), str(bad)]).write(tmp_path / "out"), check=False, **settings
    )
    assert result.state == "failed"
    assert len(result.outputs) == len(result.failures) == 5
    assert all(
        "bad.nii.gz: has corrupt gzip data: the checksum" in f.message for f in result.failures
    )
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


def test_a_view_indexes_a_file_once(tmp_path: Path, indexed: list[str]) -> None:
    values = volume()
    view = hyperslab.open(str(save(tmp_path / "image.nii.gz", values)))
    assert view[:, :0].size == 0
    assert indexed == [], "no values are read for an empty region"
    assert_same(view[:, :, :3], values[:, :, :3])
    assert_same(np.asarray(view), values)
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda z: view[::-1, 3:9, z], range(20, 50)))
    assert_same(np.stack(blocks, axis=-1), values[::-1, 3:9, 20:])
    assert indexed == ["image.nii.gz"]
    assert_same(pickle.loads(pickle.dumps(view))[5, ..., 30], values[5, :, 30])
    assert indexed == ["image.nii.gz"]


def test_what_reading_will_cost_is_known_before_there_is_an_index(tmp_path: Path) -> None:
    small = formats.open_source(str(save(tmp_path / "small.nii.gz", volume())))
    assert gzipindex.expected(small) is small
    source = formats.open_source(str(save(tmp_path / "image.nii.gz", volume((200, 200, 150)))))
    expected, exact = gzipindex.expected(source), gzipindex.index(source, tmp_path / "kept")
    assert gzipindex.expected(exact) is exact
    for regions in (
        [Hyperslab((0, 0, z), (200, 200, 30)) for z in range(0, 150, 30)],
        [Hyperslab((0, y, 0), (200, 1, 150)) for y in range(0, 200, 50)],
        [Hyperslab((9, 9, z), (1, 1, 1)) for z in range(0, 150, 10)],
    ):
        estimate, truth = (
            sum(reading.read_nbytes(s, slab) for slab in regions) for s in (expected, exact)
        )
        assert 0.7 * truth <= estimate <= 1.4 * truth


def test_what_is_read_and_why_is_told(tmp_path: Path) -> None:
    described = formats.open_source(str(save(tmp_path / "image.nii.gz", volume())))
    assert described.reason.startswith("one gzip stream, small enough")
    assert (
        "indexed: a task starts at the nearest of"
        in gzipindex.index(described, spacing=SPACING).reason
    )
    large = formats.open_source(
        str(save(tmp_path / "large.nii.gz", np.zeros((200, 200, 60), "i2")))
    )
    assert large.reason.startswith("one gzip stream: indexed once")
    assert (gzipindex.can_be_indexed(large), gzipindex.can_be_indexed(described)) == (True, False)
