"""FormatTests: what every format has to keep, tested on real files against the format's own
library.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading.ways import library
from hyperslab.errors import FormatError, SourceChanged, UsageError
from hyperslab.formats.table import known, supported
from hyperslab.trace import recording

LARGEST_WHOLE_NBYTES = 64 * 1024**2
LARGEST_BLOCK_SIZE = 2**15
SHARE = 5
"Part of hypothesis's examples that is drawn for every file."
ARRAYS_PER_FILE = 40
_open_source = cache(formats.open_source)
_either_value = st.sampled_from(["stored", "real"])
_unhurried = settings(
    deadline=None,
    max_examples=max(1, settings().max_examples // SHARE),
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)


class FormatTests(ABC):
    """Conformance of a format. A subclass gives a fixture `path` (each real file in turn) and
    `reference`.
    """

    reference_errors: ClassVar[tuple[type[Exception], ...]] = (OSError, RuntimeError, ValueError)
    """What the library raises for data that it cannot read; hyperslab's answer is then a
    FormatError.
    """

    @abstractmethod
    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        """The region as the format's own library reads it."""

    def companions(self, path: Path) -> list[Path]:  # for subclasses
        """Other files that a copy of the file needs beside it."""
        return []

    @pytest.fixture
    def urls(self, path: Path) -> list[str]:
        """The arrays of the file that hold numbers, up to 40 spread over the file."""
        return [url for url in array_urls(path) if is_readable(url)]

    @pytest.fixture
    def whole_urls(self, path: Path, urls: list[str]) -> list[str]:
        """URLs of the arrays that the library can read here."""
        read = [
            url for url in urls if self._library_reads(url, Hyperslab.full(_open_source(url).shape))
        ]
        if not read:
            pytest.skip(
                f"{path.name}: its library reads none of its arrays here; install the filters it"
                " needs"
            )
        return read

    def test_contents_agree_with_sources(self, path: Path, urls: list[str]) -> None:
        assert urls
        contents = {info.name: info for info in formats.arrays(str(path))}
        for url in urls:
            source = _open_source(url)
            assert contents[source.name].shape == source.shape
            assert len(source.dims) == source.ndim
            assert sorted(source.axes) == list(range(source.ndim))
            assert source.reason

    def test_the_facts_agree_with_the_files(self, path: Path, urls: list[str]) -> None:
        facts = formats.facts_of(formats.detect(str(path)))
        assert facts.name in known()
        assert facts.supported in supported()
        for url in urls:
            source = _open_source(url)
            assert source.format == facts.name
            assert not (facts.is_one_array and source.name)
            assert bool(facts.documents) == bool(source.document)

    @pytest.mark.parametrize("values", ["stored", "real"])
    def test_whole_arrays(self, urls: list[str], values: Values) -> None:
        assert urls
        for url in urls:
            source = _open_source(url)
            slab = Hyperslab.full(source.shape)
            if source.nbytes > LARGEST_WHOLE_NBYTES:
                slab = _corner(source)
            self._compare(url, slab, values)

    @given(data=st.data(), values=_either_value)
    @_unhurried
    def test_regions(self, urls: list[str], data: st.DataObject, values: Values) -> None:
        url = data.draw(st.sampled_from(urls))
        self._compare(url, data.draw(slabs(_open_source(url).shape)), values)

    @given(data=st.data(), values=_either_value)
    @_unhurried
    def test_regions_into_strided_memory(
        self, whole_urls: list[str], data: st.DataObject, values: Values
    ) -> None:
        source, slab = _draw(whole_urls, data)
        values = _known(source, values)
        step = data.draw(st.sampled_from([2, -1, -2]))
        room: Array = np.zeros(tuple(2 * n for n in slab.count), source.dtype(values))
        spread: tuple[Any, ...] = (..., *[slice(None, None, step)] * source.ndim)
        corner: tuple[Any, ...] = (..., *map(slice, slab.count))
        out = room[spread][corner]
        assert reading.read(source, slab, out, values) is out
        assert_same(out, reading.read(source, slab, values=values))
        out[...] = np.zeros((), out.dtype)
        assert not np.frombuffer(room.tobytes(), np.uint8).any(), (
            "reading wrote outside the region's own elements"
        )

    @given(data=st.data(), values=_either_value)
    @_unhurried
    def test_bytes_and_memory_are_as_planned(
        self, whole_urls: list[str], data: st.DataObject, values: Values
    ) -> None:
        source, slab = _draw(whole_urls, data)
        values = _known(source, values)
        with recording() as phases, traced_memory() as peak:
            reading.read(source, slab, values=values)
        assert sum(phase.nbytes for phase in phases if phase.kind == "read") == reading.read_nbytes(
            source, slab
        )
        assert peak[0] <= reading.read_peak(source, slab, values) + 2**16
        assert {phase.kind for phase in phases} == ({"open", "read"} if slab.size else set())

    def test_the_chunk_table_takes_one_open(
        self, urls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for source in [source for source in map(_open_source, urls) if source.chunks is not None]:
            calls = count_calls(monkeypatch, source.url)
            reading.read(
                source,
                Hyperslab((0,) * source.ndim, tuple(min(n, 9) for n in source.shape)),
                values="stored",
            )
            assert (
                calls in ([], ["open", "fstat"]) if source.size == 0 else calls == ["open", "fstat"]
            )

    def test_descriptions_travel(self, whole_urls: list[str]) -> None:
        for source in map(_open_source, whole_urls):
            sent = pickle.loads(pickle.dumps(source))
            corner = _corner(source)
            assert_same(
                reading.read(sent, corner, values="stored"),
                reading.read(source, corner, values="stored"),
            )
            assert sent.version == source.version

    def test_a_changed_file_is_noticed(
        self, path: Path, whole_urls: list[str], tmp_path: Path
    ) -> None:
        copy = tmp_path / path.name
        for needed in (path, *self.companions(path)):
            shutil.copyfile(needed, tmp_path / needed.name)
        source = formats.open_source(str(copy) + whole_urls[0].removeprefix(str(path)))
        assert source.version == _open_source(whole_urls[0]).version, (
            "an untouched copy has the same version"
        )
        os.utime(copy, ns=(source.mtime_ns, source.mtime_ns + 10**9))
        self._is_refused(source, "written to")
        os.utime(copy, ns=(source.mtime_ns, source.mtime_ns))
        reading.read(source, _corner(source), values="stored")
        with copy.open("ab") as file:
            file.write(b"more")
        self._is_refused(source, "bytes when")
        copy.unlink()
        self._is_refused(source, "no longer there")

    @given(data=st.data())
    @_unhurried
    def test_affines_follow_regions(self, urls: list[str], data: st.DataObject) -> None:
        source = _open_source(data.draw(st.sampled_from(urls)))
        slab = data.draw(slabs(source.shape))
        header = source.header.for_slab(slab)
        if source.header.affine is None or header.affine is None:
            assert header.affine is source.header.affine
            return
        voxel, index = np.array([1.0, 2.0, 3.0, 1.0]), np.array([1.0, 2.0, 3.0, 1.0])
        for column, axis in enumerate(source.header.space):
            if axis < source.ndim:
                index[column] = slab.start[axis] + slab.stride[axis] * voxel[column]
        np.testing.assert_allclose(
            header.affine @ voxel, source.header.affine @ index, rtol=1e-12, atol=1e-9
        )

    def _compare(self, url: str, slab: Hyperslab, values: Values) -> None:
        source = _open_source(url)
        if source.unscalable and values == "real":
            with pytest.raises(UsageError, match="--values stored"):
                reading.read(source, slab, values=values)
            return
        try:
            expected = self.reference(url, slab, values)
        except self.reference_errors:
            with pytest.raises(FormatError):
                reading.read(source, slab, values=values)
            return
        block = reading.read(source, slab, values=values)
        assert block.dtype == source.dtype(values)
        assert block.flags.writeable
        assert_same(block, expected)

    def _library_reads(self, url: str, slab: Hyperslab) -> bool:
        if slab.size > LARGEST_WHOLE_NBYTES:
            slab = _corner(_open_source(url))
        try:
            self.reference(url, slab, "stored")
        except self.reference_errors:
            return False
        return True

    def _is_refused(self, source: ArraySource, why: str) -> None:
        with pytest.raises(SourceChanged, match=why) as raised:
            reading.read(source, _corner(source), values="stored")
        assert source.url in str(raised.value)
        assert "--resume" in str(raised.value)


def _known(source: ArraySource, values: Values) -> Values:
    """The kind of value asked for, where the source can give it."""
    return "stored" if source.unscalable else values


@st.composite
def slabs(draw: st.DrawFn, shape: Sequence[int]) -> Hyperslab:
    """Any hyperslab of an array of this shape with up to 32768 elements: strided, flipped,
    empty.
    """
    largest = max(1, int(LARGEST_BLOCK_SIZE ** (1 / max(1, len(shape)))))
    axes = [draw(_axes(extent, largest)) for extent in shape]
    start, count, stride = (tuple(axis[i] for axis in axes) for i in range(3))
    return Hyperslab(start, count, stride)


@st.composite
def _axes(draw: st.DrawFn, extent: int, largest: int) -> tuple[int, int, int]:
    stride = draw(st.sampled_from([1, 1, 2, 3, 7, max(1, extent // 2)]))
    most = min(largest, -(-extent // stride))
    count = draw(
        st.integers(0, most) if draw(st.integers(0, 19)) == 0 else st.integers(min(1, most), most)
    )
    if count == 0:
        return 0, 0, 1
    reach = (count - 1) * stride
    low = draw(st.integers(0, extent - 1 - reach))
    return (low, count, stride) if draw(st.booleans()) else (low + reach, count, -stride)


def array_urls(path: Path) -> list[str]:
    """The URLs of up to 40 arrays of a file, spread over it, with the first and the last of
    them.
    """
    names = [info.name for info in formats.arrays(str(path))]
    if len(names) > ARRAYS_PER_FILE:
        names = [names[i] for i in np.linspace(0, len(names) - 1, ARRAYS_PER_FILE).astype(int)]
    return [f"{path}::{name}" if name else str(path) for name in names]


@cache
def is_readable(url: str) -> bool:
    """False for an array whose elements are of any length, or whose description is corrupt."""
    try:
        return not _open_source(url).stored.hasobject
    except FormatError:
        return False


@cache
def format_of_numbers(path: Path) -> str:
    """The format of a file that holds arrays of numbers; '' for all others, and corrupt ones."""
    try:
        found = formats.detect(str(path))
        if any(map(is_readable, array_urls(path))):
            return found
    except FormatError:
        pass
    return ""


def assert_same(block: Array, expected: Array) -> None:
    """Equal shape, dtype but for its byte order, and values; NaN equals NaN."""
    assert block.shape == expected.shape
    assert block.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(block, expected, strict=False)


def count_calls(monkeypatch: pytest.MonkeyPatch, path: str) -> list[str]:
    """Record each open and fstat of a file from now on; any read that is not positioned fails."""
    calls: list[str] = []
    opened: set[int] = set()
    plain_open = getattr(os.open, "plain", os.open)
    plain_fstat = getattr(os.fstat, "plain", os.fstat)

    def counted_open(name: Any, *args: Any, **options: Any) -> int:
        fd: int = plain_open(name, *args, **options)
        if os.fspath(name) == path:
            calls.append("open")
            opened.add(fd)
        return fd

    def counted_fstat(fd: int) -> os.stat_result:
        if fd in opened:
            calls.append("fstat")
        result: os.stat_result = plain_fstat(fd)
        return result

    counted_open.plain, counted_fstat.plain = plain_open, plain_fstat  # type: ignore[attr-defined]
    monkeypatch.setattr(os, "open", counted_open)
    monkeypatch.setattr(os, "fstat", counted_fstat)
    monkeypatch.setattr(library, "module", _no_library)
    return calls


@contextmanager
def traced_memory() -> Iterator[list[int]]:
    """Measure the peak of what Python and NumPy allocate in a block, in bytes: the one element of
    the list.
    """
    peak = [0]
    tracemalloc.start()
    try:
        yield peak
        peak[0] = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _no_library(name: str) -> Any:
    raise AssertionError(f"the library of {name} was asked although there is a chunk table")


def _draw(urls: Sequence[str], data: st.DataObject) -> tuple[ArraySource, Hyperslab]:
    source = _open_source(data.draw(st.sampled_from(urls)))
    return source, data.draw(slabs(source.shape))


def _corner(source: ArraySource) -> Hyperslab:
    return Hyperslab((0,) * source.ndim, tuple(min(n, 3) for n in source.shape))
