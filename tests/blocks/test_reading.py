"""blockio: what the operating system is asked for, and what is said when it does not give that."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array, byteranges
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.blocks import positioned, reading, writing
from hyperslab.errors import FormatError, SourceChanged, UsageError
from hyperslab.formats import nifti
from hyperslab.testing.formats import slabs, traced_memory
from hyperslab.trace import recording
from tests.examples import examples
from tests.system_calls import Calls

VALUES = np.random.default_rng(0).integers(0, 2**15, (30, 20, 10), dtype=np.int16)
FULL = Hyperslab.full(VALUES.shape)


@pytest.fixture
def image(tmp_path: Path) -> ArraySource:
    """A contiguous int16 image whose real values are halves."""
    sink = nifti.sink(
        str(tmp_path / "image.nii"), VALUES.shape, VALUES.dtype, Header(), Scaling(0.5, 0)
    )
    writing.write(sink, VALUES)
    return formats.open_source(sink.path)


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
    reading.read(image, slab)
    assert calls.made == ["open", *["preadv"] * reads, "fstat"]


def test_short_reads_are_continued(image: ArraySource, calls: Calls) -> None:
    calls.most = 1000
    np.testing.assert_array_equal(reading.read(image, FULL, values="stored"), VALUES)
    assert calls.made.count("preadv") == 12


def test_reads_are_as_large_as_they_say(image: ArraySource) -> None:
    with recording() as phases:
        reading.read(image, FULL)
    assert [(phase.kind, phase.nbytes) for phase in phases] == [
        ("open", 0),
        ("read", VALUES.nbytes),
    ]


def test_a_region_is_read_into_the_array_given(image: ArraySource) -> None:
    out = np.zeros((20, 30, 10)).transpose(1, 0, 2)
    with traced_memory() as peak:
        assert reading.read(image, FULL, out) is out
    np.testing.assert_array_equal(out, VALUES * 0.5)
    assert peak[0] < reading.read_peak(image, FULL)


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((30, 20, 9)),
        np.zeros(VALUES.shape, "i2"),
        np.broadcast_to(np.zeros(1), VALUES.shape),
    ],
)
def test_an_unfit_out_is_refused(image: ArraySource, out: Array) -> None:
    with pytest.raises(
        UsageError, match=r"writable array of shape \(30, 20, 10\) and dtype float64"
    ):
        reading.read(image, FULL, out)


def test_a_region_beyond_the_array_is_refused(image: ArraySource) -> None:
    for slab in (
        Hyperslab((0, 0, 5), (1, 1, 6)),
        Hyperslab((0, 0), (1, 1)),
        Hyperslab((30, 0, 0), (1, 1, 1)),
    ):
        with pytest.raises(UsageError, match="beyond the array's shape"):
            reading.read(image, slab)
    with pytest.raises(UsageError, match="'real' or 'stored'"):
        reading.read(image, FULL, values="raw")  # type: ignore[arg-type]


def test_a_file_cut_while_it_is_read_is_a_format_error(
    image: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: Any) -> int:
        return 0

    monkeypatch.setattr(os, "preadv", nothing)
    with pytest.raises(FormatError, match=r"image\.nii ends at byte 352, 12,000 bytes too early"):
        reading.read(image, FULL)


def test_an_input_error_is_a_format_error(
    image: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(
        FormatError, match=r"image\.nii: reading at byte 352 failed: Input/output error"
    ):
        reading.read(image, FULL)


def test_a_file_written_to_after_planning_is_noticed(image: ArraySource) -> None:
    os.utime(image.url, ns=(0, image.mtime_ns + 100))
    with pytest.raises(SourceChanged, match=r"image\.nii.*--resume"):
        reading.read(image, FULL)


@given(data=st.data(), shape=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple))
@settings(max_examples=examples(200), deadline=None)
def test_spans_hold_every_element_once_whatever_the_costs(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    slab = byteranges.ascending(data.draw(slabs(shape).filter(lambda slab: slab.size > 0)))
    limit, cost = data.draw(st.integers(8, 4000)), data.draw(st.integers(0, 4000))
    array, found = (
        np.arange(np.prod(shape), dtype="<i4").reshape(shape),
        np.full(slab.count, -1, "<i4"),
    )
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
        part[...] = np.ndarray(
            part.shape, "<i4", raw[offset : offset + nbytes], 0, plan.step_nbytes[plan.level :]
        )
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
        positioned.read_region(
            positioned.OpenFile(fd, "raw"),
            0,
            values.shape,
            Hyperslab.full(values.shape),
            room[..., ::2],
        )
    finally:
        os.close(fd)
    np.testing.assert_array_equal(room[..., ::2], values)
    assert not room[..., 1::2].any()


@pytest.mark.parametrize("threads", [-1, 0, 4097, 10**30])
def test_a_number_of_threads_that_cannot_be_meant_is_refused(
    image: ArraySource, threads: int
) -> None:
    with pytest.raises(UsageError, match=f"threads is {threads}; it can be 1 to 4096"):
        reading.read(image, FULL, threads=threads)
