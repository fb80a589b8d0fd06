"""Chunks through the native core: exactly the planned reads, faults by name, interruption, and life
without it.
"""

from __future__ import annotations

import collections
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from hyperslab import formats, native
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks import reading
from hyperslab.blocks.reading import decoding, gzipindex
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways import way_of
from hyperslab.errors import FormatError
from hyperslab.testing.formats import assert_same
from hyperslab.trace import recording
from tests.system.clusters.required import required
from tests.system.end_to_end.command import INTERRUPTIBLE

VALUES = np.random.default_rng(5).integers(0, 900, (40, 30, 20)).astype("<u2")
FULL = Hyperslab.full(VALUES.shape)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deflate": {"compression": "gzip", "shuffle": True},
    "checked": {"compression": "gzip", "fletcher32": True},
}


@pytest.fixture(params=KINDS)
def source(tmp_path: Path, request: pytest.FixtureRequest) -> ArraySource:
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=VALUES, chunks=(10, 8, 20), **KINDS[request.param])
    return formats.open_source(str(path))


def test_the_core_is_installed() -> None:
    assert native.core is not None, (
        "the tests are of a hyperslab with its native core: pip install ."
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(source: ArraySource, threads: int) -> None:
    assert way_of(source).name == "chunks"
    slab = Hyperslab((38, 1, 3), (13, 10, 9), (-3, 2, 1))
    assert_same(reading.read(source, FULL, threads=threads), VALUES)
    assert_same(reading.read(source, slab, threads=threads), VALUES[slab.slices()])


def unaligned(column: Any) -> Any:
    """As an array can come over a network: its first element at an odd place of the memory."""
    raw = np.empty(column.nbytes + 9, np.uint8)
    first = 1 if raw.ctypes.data % 2 == 0 else 2
    moved = raw[first : first + column.nbytes].view(column.dtype).reshape(column.shape)
    moved[...] = column
    assert not moved.flags.aligned
    return moved


def test_a_table_may_come_unaligned(source: ArraySource) -> None:
    table = source.chunks
    assert table is not None
    columns = (
        unaligned(column) for column in (table.start, table.offset, table.nbytes, table.mask)
    )
    moved = replace(source, chunks=ChunkTable(table.chunk_shape, *columns))
    assert_same(reading.read(moved, FULL), VALUES)
    assert_same(reading.read(moved, FULL, reader=Reader(moved)), VALUES)


def test_an_index_of_a_gzip_file_may_come_unaligned(tmp_path: Path) -> None:
    path, values = tmp_path / "a.nii.gz", np.tile(VALUES.astype(np.int16), (4, 4, 8))
    nib.save(nib.Nifti1Image(values, np.eye(4)), path)  # type: ignore[no-untyped-call]
    source = gzipindex.index(formats.open_source(str(path)))
    assert source.gzip is not None
    assert len(source.gzip) > 2
    moved = replace(source, gzip=replace(source.gzip, points=unaligned(source.gzip.points)))
    assert_same(reading.read(moved, Hyperslab.full(values.shape)), values)


def test_a_task_is_one_open_one_fstat_and_a_read_per_chunk(
    source: ArraySource, tmp_path: Path
) -> None:
    required("" if shutil.which("strace") else "strace is not installed (Debian package strace)")
    slab = Hyperslab((5, 0, 0), (10, 30, 20))  # two layers of four chunks
    code = (
        "import pickle, sys; from hyperslab.blocks import reading; source, slab ="
        " pickle.load(open(sys.argv[1], 'rb'));block = reading.read(source, slab);"
        " print(block.sum())"
    )
    order, log = tmp_path / "order.pickle", tmp_path / "calls"
    order.write_bytes(pickle.dumps((source, slab)))
    command = [
        "strace",
        "-f",
        "-y",
        "-e",
        "trace=%file,%desc",
        "-o",
        str(log),
        sys.executable,
        "-c",
        code,
        str(order),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == int(VALUES[5:15].sum())
    calls = collections.Counter(
        match[1]
        for line in log.read_text().splitlines()
        if source.url in line and (match := re.search(r"(\w+)\(", line))
    )
    opened = calls.pop("openat", 0) + calls.pop("open", 0)
    stats = calls.pop("fstat", 0) + calls.pop("newfstatat", 0)
    assert (opened, stats, calls.pop("pread64")) == (1, 1, 8)
    assert calls == {"close": 1}


@pytest.mark.parametrize("source", ["deflate", "checked"], indirect=True)
def test_damage_names_the_chunk(source: ArraySource) -> None:
    assert source.chunks is not None
    offset = int(source.chunks.offset[5])
    with Path(source.url).open("r+b") as file:
        file.seek(offset + 20)
        file.write(b"damaged by a test")
    os.utime(source.url, ns=(source.mtime_ns, source.mtime_ns))
    good = Hyperslab((0, 0, 0), (10, 8, 20))
    assert_same(reading.read(source, good), VALUES[good.slices()])
    with pytest.raises(
        FormatError, match=rf"chunks\.h5::/data: the chunk at byte {offset}: .*copy the file again"
    ):
        reading.read(source, FULL)


def test_without_the_core_libraries_read(
    source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "core", None)
    assert way_of(source).uses_library == bool(source.codecs)
    slab = Hyperslab((38, 1, 3), (13, 10, 9), (-3, 2, 1))
    assert_same(reading.read(source, slab), VALUES[slab.slices()])
    assert reading.read_nbytes(source, slab) > 0


@pytest.mark.parametrize("threads", [-1, 0, 4097, 10**30])
def test_a_number_of_threads_that_makes_no_sense_is_refused(
    source: ArraySource, threads: int
) -> None:
    _, chunks, buffers = stored(source)
    assert native.core is not None
    with pytest.raises(ValueError, match=rf"1 to 4096, not {threads}"):
        native.core.decode_chunks(
            buffers,
            chunks,
            (FULL.start, FULL.count, FULL.stride),
            np.zeros(FULL.count, "<u2"),
            threads,
        )


def test_buffers_are_decoded_as_a_file_is_read(source: ArraySource) -> None:
    table, chunks, buffers = stored(source)
    assert native.core is not None
    for slab in (
        FULL,
        Hyperslab((5, 0, 3), (10, 30, 9), (1, 1, 1)),
        Hyperslab((1, 2, 0), (5, 4, 7), (8, 7, 3)),
    ):
        box = (slab.start, slab.count, slab.stride)
        of_file, of_buffers = np.zeros((2, *slab.count), "<u2")
        with Path(source.url).open("rb") as file:
            read = native.core.read_chunks(file.fileno(), chunks, box, of_file, 1, 1)
        touched = table.overlapping(slab).nbytes.sum()
        assert read <= touched
        for threads in (1, 3):
            of_buffers[...] = 0
            taken = native.core.decode_chunks(buffers, chunks, box, of_buffers, threads)
            assert taken == touched, "chunks that share nothing with the region are not touched"
            assert_same(of_buffers, of_file)
            assert_same(of_buffers, VALUES[slab.slices()])


def test_wrong_buffers_are_refused(source: ArraySource) -> None:
    table, chunks, buffers = stored(source)
    assert native.core is not None
    out, box = np.zeros(VALUES.shape, "<u2"), (FULL.start, FULL.count, FULL.stride)
    short = [*buffers[:3], buffers[3][:-1], *buffers[4:]]
    with pytest.raises(native.core.ChunkError) as raised:
        native.core.decode_chunks(short, chunks, box, out, 1)
    error: Any = raised.value
    assert (error.row, error.kind) == (3, "corrupt")
    assert error.text == f"came as {len(short[3])} bytes instead of {table.nbytes[3]}"
    assert error.args == (error.row, error.text)
    with pytest.raises(ValueError, match="as many buffers as rows"):
        native.core.decode_chunks(buffers[1:], chunks, box, out, 1)
    with pytest.raises(ValueError, match="writable array of the region's shape"):
        native.core.decode_chunks(buffers, chunks, box, out[1:], 1)
    with pytest.raises(TypeError):
        native.core.decode_chunks([*buffers[:-1], 7], chunks, box, out, 1)
    with pytest.raises(ValueError, match="1 to 4096, not 0"):
        native.core.decode_chunks(buffers, chunks, box, out, 0)
    if source.codecs:
        damaged = [bytes(reversed(buffer)) for buffer in buffers]
        with pytest.raises(native.core.ChunkError):
            native.core.decode_chunks(damaged, chunks, box, out, 2)


def test_faults_come_with_row_kind_and_text(tmp_path: Path) -> None:
    core: Any = native.core
    path, out = tmp_path / "short", np.zeros(8, "u1")
    path.write_bytes(b"12345")
    with path.open("rb") as file, pytest.raises(core.ChunkError) as short:
        core.read_bytes(file.fileno(), 3, out, 1)
    assert (short.value.row, short.value.kind) == (0, "short")
    assert short.value.text == "is cut off: the file ends at byte 5, 6 bytes too early"
    with pytest.raises(core.ChunkError) as unreadable:
        core.read_bytes(-1, 0, out, 1)
    assert unreadable.value.kind == "unreadable"
    number = np.zeros(2, np.int64)
    with pytest.raises(core.ChunkError) as misplaced:
        core.ChunkCache((number, number, number, number), (4,), (8,), (), 0)
    assert misplaced.value.kind == "misplaced"
    assert pickle.loads(pickle.dumps(short.value)).text == short.value.text


def stored(source: ArraySource) -> tuple[ChunkTable, tuple[Any, ...], list[bytes]]:
    """The table of a source, what the core is told of its chunks, and their stored bytes."""
    table = source.chunks
    assert table is not None
    columns, data = decoding.columns_of(table), Path(source.url).read_bytes()
    buffers = [
        data[first : first + count] for first, count in zip(table.offset, table.nbytes, strict=True)
    ]
    return table, (columns, table.chunk_shape, decoding.filters_of(source)), buffers


INTERRUPTED = f"""{INTERRUPTIBLE}
import os
import sys
import threading

import numpy as np

from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading

source = formats.open_source(sys.argv[1])
out = np.empty(source.shape, "u1")
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
reading.read(source, Hyperslab.full(source.shape), out, "stored", int(sys.argv[2]))
"""
"A read in which Ctrl-C comes after a tenth of a second, whatever other processes do."


def test_a_long_read_is_interrupted_at_once(tmp_path: Path) -> None:
    """Zeros, deflated to little, take a second or more to inflate."""
    path = tmp_path / "long.h5"
    plane = np.zeros((64, 1024, 1024), "u1")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "data",
            (3200, 1024, 1024),
            "u1",
            chunks=(4, 1024, 1024),
            compression="gzip",
            compression_opts=1,
        )
        dataset[:64] = plane
        stored = dataset.id.read_direct_chunk((0, 0, 0))[1]
        for first in range(64, 3200, 4):
            dataset.id.write_direct_chunk((first, 0, 0), stored)
    for threads in ("1", "2"):
        command = [sys.executable, "-c", INTERRUPTED, str(path), threads]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert "KeyboardInterrupt" in done.stderr, "the read was over before it was interrupted"


def test_a_read_counts_the_processor_time_of_all_its_threads(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 99, (64, 256, 256)).astype("u2")
    with h5py.File(tmp_path / "long.h5", "w") as file:
        file.create_dataset(
            "data", data=values, chunks=(4, 256, 256), compression="gzip", compression_opts=1
        )
    source = formats.open_source(str(tmp_path / "long.h5"))
    native.helped_ns()
    with recording() as phases:
        before = time.process_time_ns()
        reading.read(source, Hyperslab.full(source.shape), threads=2)
        used = time.process_time_ns() - before
    (read,) = [phase for phase in phases if phase.kind == "read"]
    assert used / 2 < read.cpu_ns <= used * 1.01
