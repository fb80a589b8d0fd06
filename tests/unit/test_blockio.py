"""blockio: what the operating system is asked for, and that a failed write leaves nothing behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import blockio, byteranges, formats, positioned, sinkio
from hyperslab.array import Array, ArraySink, ArraySource, Header, Scaling
from hyperslab.errors import BlockError, FormatError, SourceChanged, UsageError
from hyperslab.formats import hdf5, nifti
from hyperslab.slab import Hyperslab
from hyperslab.span import recording
from hyperslab.testing.formats import slabs, traced_memory

VALUES = np.random.default_rng(0).integers(0, 2**15, (30, 20, 10), dtype=np.int16)
FULL = Hyperslab.full(VALUES.shape)


@pytest.fixture
def image(tmp_path: Path) -> ArraySource:
    """A contiguous int16 image whose real values are halves."""
    sink = nifti.sink(str(tmp_path / "image.nii"), VALUES.shape, VALUES.dtype, Header(), Scaling(0.5, 0))
    sinkio.write(sink, VALUES)
    return formats.open_source(sink.path)


@pytest.fixture
def volume(tmp_path: Path) -> ArraySink:
    return nifti.sink(str(tmp_path / "volume.nii"), VALUES.shape, VALUES.dtype, Header())


class Calls:
    """Counts system calls, and makes reads and writes as short as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.most = 0
        for name in ("open", "fstat", "preadv", "pwritev", "pread", "pwrite", "read", "write"):
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, plain: Any) -> Any:
        def call(*args: Any) -> Any:
            self.made.append(name)
            if name not in ("preadv", "pwritev"):
                return plain(*args)
            fd, buffers, offset = args
            return plain(fd, [buffers[0][: self.most]] if self.most else buffers, offset)

        return call


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    with monkeypatch.context() as patch:
        yield Calls(patch)


@pytest.mark.parametrize(
    ("slab", "reads"),
    [
        (FULL, 1),
        (Hyperslab((0, 0, 3), (30, 20, 4)), 1),
        (Hyperslab((0, 5, 0), (30, 5, 10)), 1),
        (Hyperslab((29, 19, 9), (30, 20, 10), (-1, -1, -1)), 1),
        (Hyperslab((1, 1, 1), (9, 9, 4), (3, 2, 2)), 1),
    ],
)
def test_a_read_is_one_open_one_fstat_and_few_preads(
    image: ArraySource, calls: Calls, slab: Hyperslab, reads: int
) -> None:
    calls.made.clear()
    blockio.read(image, slab)
    assert calls.made == ["open", *["preadv"] * reads, "fstat"]


def test_short_reads_are_continued(image: ArraySource, calls: Calls) -> None:
    calls.most = 1000
    np.testing.assert_array_equal(blockio.read(image, FULL, values="stored"), VALUES)
    assert calls.made.count("preadv") == 12


def test_short_writes_are_continued(volume: ArraySink, calls: Calls) -> None:
    calls.most = 1000
    written = sinkio.write(volume, VALUES)
    assert calls.made.count("pwritev") >= 12
    assert written.checksum == sinkio.file_checksum(volume.path)
    np.testing.assert_array_equal(blockio.read(formats.open_source(volume.path), FULL), VALUES)


def test_a_fortran_block_is_written_in_one_call_without_a_copy(volume: ArraySink, calls: Calls) -> None:
    block = np.asfortranarray(VALUES)
    with traced_memory() as peak:
        sinkio.write(volume, block)
    assert calls.made.count("pwritev") == 1
    assert peak[0] < block.nbytes


def test_reads_are_as_large_as_they_say(image: ArraySource) -> None:
    with recording() as phases:
        blockio.read(image, FULL)
    assert [(phase.kind, phase.nbytes) for phase in phases] == [("open", 0), ("read", VALUES.nbytes)]


def test_a_region_is_read_into_the_array_given(image: ArraySource) -> None:
    out = np.zeros((20, 30, 10)).transpose(1, 0, 2)
    with traced_memory() as peak:
        assert blockio.read(image, FULL, out) is out
    np.testing.assert_array_equal(out, VALUES * 0.5)
    assert peak[0] < blockio.read_peak(image, FULL)


@pytest.mark.parametrize(
    "out", [np.zeros((30, 20, 9)), np.zeros(VALUES.shape, "i2"), np.broadcast_to(np.zeros(1), VALUES.shape)]
)
def test_an_unfit_out_is_refused(image: ArraySource, out: Array) -> None:
    with pytest.raises(UsageError, match=r"writable array of shape \(30, 20, 10\) and dtype float64"):
        blockio.read(image, FULL, out)


def test_a_region_beyond_the_array_is_refused(image: ArraySource) -> None:
    for slab in (Hyperslab((0, 0, 5), (1, 1, 6)), Hyperslab((0, 0), (1, 1)), Hyperslab((30, 0, 0), (1, 1, 1))):
        with pytest.raises(UsageError, match="beyond the array's shape"):
            blockio.read(image, slab)
    with pytest.raises(UsageError, match="'real' or 'stored'"):
        blockio.read(image, FULL, values="raw")  # type: ignore[arg-type]


def test_a_file_cut_while_it_is_read_is_a_format_error(image: ArraySource, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> int:
        return 0

    monkeypatch.setattr(os, "preadv", nothing)
    with pytest.raises(FormatError, match=r"image\.nii: ends at byte 352, 12000 bytes too early"):
        blockio.read(image, FULL)


def test_an_input_error_is_a_format_error(image: ArraySource, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(FormatError, match=r"image\.nii: reading at byte 352 failed: Input/output error"):
        blockio.read(image, FULL)


def test_a_file_written_to_after_planning_is_noticed(image: ArraySource) -> None:
    os.utime(image.url, ns=(0, image.mtime_ns + 100))
    with pytest.raises(SourceChanged, match=r"image\.nii.*--resume"):
        blockio.read(image, FULL)


@pytest.mark.parametrize("name", ["block.nii", "block.nii.gz", "block.h5"])
def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = formats.module(formats.format_of_name(name)).sink(
        str(tmp_path / name), VALUES.shape, VALUES.dtype, Header(), None
    )
    sinkio.write(sink, VALUES)
    before = sinkio.file_checksum(sink.path)

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(sinkio, "file_checksum", full)
        with pytest.raises(OSError, match="No space left") as raised:
            sinkio.write(sink, VALUES)
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert sinkio.file_checksum(sink.path) == before, "the file of the earlier attempt stays"


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    sink = nifti.sink(str(tmp_path / "gone" / "block.nii"), VALUES.shape, VALUES.dtype, Header())
    with pytest.raises(FileNotFoundError):
        sinkio.write(sink, VALUES)


@pytest.mark.parametrize("block", [VALUES[1:], VALUES.astype("i4")])
def test_an_unfit_block_is_refused(volume: ArraySink, block: Array) -> None:
    with pytest.raises(BlockError, match=r"volume\.nii: the block is .* where \(30, 20, 10\) int16 was planned"):
        sinkio.write(volume, block)


def test_a_volume_appears_when_all_its_regions_are_written(tmp_path: Path, volume: ArraySink) -> None:
    partial = str(tmp_path / ".volume.part")
    sinkio.allocate(volume, partial)
    assert Path(partial).stat().st_size == volume.nbytes
    regions = [Hyperslab((x, y, 0), (10, 10, 10)) for x in (20, 0, 10) for y in (10, 0)]
    written = {slab: sinkio.write_region(volume, partial, slab, VALUES[slab.slices()]) for slab in regions}
    for slab, done in written.items():
        assert done.nbytes == 2000
        assert done.checksum == xxhash.xxh3_128_hexdigest(VALUES[slab.slices()].tobytes(order="F"))
        assert done.checksum == sinkio.region_checksum(volume, partial, slab)
    assert not Path(volume.path).exists()
    sinkio.commit(volume, partial, list(written.values()))
    assert not Path(partial).exists()
    np.testing.assert_array_equal(blockio.read(formats.open_source(volume.path), FULL), VALUES)


def test_a_damaged_region_has_another_checksum(tmp_path: Path, volume: ArraySink) -> None:
    partial = str(tmp_path / ".volume.part")
    sinkio.allocate(volume, partial)
    slab = Hyperslab((0, 0, 2), (30, 20, 3))
    written = sinkio.write_region(volume, partial, slab, VALUES[slab.slices()])
    with Path(partial).open("r+b") as file:
        file.seek(352 + 2 * 30 * 20 * 3)
        file.write(b"\xff")
    assert sinkio.region_checksum(volume, partial, slab) != written.checksum


@given(slab=slabs(VALUES.shape))
@settings(max_examples=60, deadline=None)
def test_any_region_is_written_to_its_place(tmp_path_factory: pytest.TempPathFactory, slab: Hyperslab) -> None:
    folder = tmp_path_factory.mktemp("region")
    sink = nifti.sink(str(folder / "volume.nii"), VALUES.shape, VALUES.dtype, Header())
    sinkio.allocate(sink, str(folder / "part"))
    written = sinkio.write_region(sink, str(folder / "part"), slab, VALUES[slab.slices()])
    assert written.checksum == sinkio.region_checksum(sink, str(folder / "part"), slab)
    sinkio.commit(sink, str(folder / "part"), [written])
    expected = np.zeros_like(VALUES)
    expected[slab.slices()] = VALUES[slab.slices()]
    np.testing.assert_array_equal(blockio.read(formats.open_source(sink.path), FULL), expected)


def test_space_that_cannot_be_reserved_is_given_back(
    tmp_path: Path, volume: ArraySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left.*\.part"):
        sinkio.allocate(volume, str(tmp_path / ".part"))
    assert list(tmp_path.iterdir()) == []


@given(data=st.data(), shape=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple))
@settings(max_examples=200, deadline=None)
def test_spans_hold_every_element_once_whatever_the_costs(data: st.DataObject, shape: tuple[int, ...]) -> None:
    slab = byteranges.ascending(data.draw(slabs(shape).filter(lambda slab: slab.size > 0)))
    limit, cost = data.draw(st.integers(8, 4000)), data.draw(st.integers(0, 4000))
    array, found = np.arange(np.prod(shape), dtype="<i4").reshape(shape), np.full(slab.count, -1, "<i4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byteranges, "BUFFER_NBYTES", limit)
        patch.setattr(byteranges, "PREAD_COST_NBYTES", cost)
        plan = byteranges.plan_spans(shape, slab, 4)
        spans = list(byteranges.span_offsets(plan, shape, slab, 4))
    raw, total = array.tobytes(), 0
    for offset, index in spans:
        part = found[index]
        nbytes = plan.span_nbytes(len(part))
        total += nbytes
        assert nbytes <= limit or nbytes == part.nbytes or len(part) == 1
        assert (part == -1).all()
        part[...] = np.ndarray(part.shape, "<i4", raw[offset : offset + nbytes], 0, plan.step_nbytes[plan.level :])
    np.testing.assert_array_equal(found, array[slab.slices()])
    assert (plan.spans, plan.nbytes) == (len(spans), total)


def test_gaps_are_read_through_when_that_is_cheaper() -> None:
    near = byteranges.plan_spans((1000, 1000), Hyperslab((0, 0), (100, 900)), 4)
    far = byteranges.plan_spans((1000, 10**6), Hyperslab((0, 0), (100, 900)), 4)
    assert (near.spans, far.spans) == (1, 100)
    assert far.nbytes == 100 * 900 * 4


def test_large_dense_reads_into_scattered_memory_stay_within_the_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positioned, "BUFFER_NBYTES", 999)
    values = np.arange(20000, dtype="<f4").reshape(20, 10, 100)
    (tmp_path / "raw").write_bytes(values.tobytes())
    fd = os.open(tmp_path / "raw", os.O_RDONLY)
    room = np.zeros((20, 10, 200), "<f4")
    try:
        positioned.gather(positioned.OpenFile(fd, "raw"), 0, values.shape, Hyperslab.full(values.shape), room[..., ::2])
    finally:
        os.close(fd)
    np.testing.assert_array_equal(room[..., ::2], values)
    assert not room[..., 1::2].any()


def test_an_h5_block_is_checked_by_the_bytes_on_disk(tmp_path: Path) -> None:
    sink = hdf5.sink(str(tmp_path / "block.h5"), VALUES.shape, VALUES.dtype, Header())
    written = sinkio.write(sink, VALUES)
    assert written.checksum == xxhash.xxh3_128_hexdigest(Path(sink.path).read_bytes())
    assert written.nbytes == Path(sink.path).stat().st_size


@pytest.mark.parametrize("threads", [-1, 0, 4097, 10**30])
def test_a_number_of_threads_that_cannot_be_meant_is_refused(image: ArraySource, threads: int) -> None:
    with pytest.raises(UsageError, match=f"threads is {threads}; it can be 1 to 4096"):
        blockio.read(image, FULL, threads=threads)
