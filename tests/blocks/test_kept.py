"""A file kept open from read to read: the values of every read, what is kept, and what ends it."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import nibabel as nib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.blocks.reading import kept
from hyperslab.errors import FormatError, SourceChanged
from hyperslab.testing.formats import assert_same, slabs
from hyperslab.trace import recording
from tests.examples import examples

VALUES = np.random.default_rng(8).integers(-900, 900, (30, 26, 17)).astype("<i2")
KINDS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "plain": {"chunks": (7, 26, 5)},
    "deflate": {"chunks": (7, 10, 5), "compression": "gzip", "shuffle": True},
    "sparse": {"chunks": (7, 10, 5), "compression": "gzip", "fillvalue": -7},
    "big-endian": {"chunks": (7, 10, 5), "compression": "gzip", "dtype": ">i2"},
}


@pytest.fixture(params=[*KINDS, "nii"])
def view(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[hyperslab.ArrayView, Array]:
    """A view, and the values that it has to have."""
    if request.param == "nii":
        image = nib.Nifti1Image(VALUES, np.eye(4))  # type: ignore[no-untyped-call]
        image.header.set_slope_inter(0.5, 3)  # type: ignore[no-untyped-call]
        nib.save(image, tmp_path / "a.nii")
        nifti: Any = nib.load(tmp_path / "a.nii")
        return hyperslab.open(str(tmp_path / "a.nii")), np.asarray(nifti.dataobj)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("data", VALUES.shape, **{"dtype": "<i2", **KINDS[request.param]})
        part = VALUES[:15] if request.param == "sparse" else VALUES
        made[: len(part)] = part
        expected = made[()]
    return hyperslab.open(str(tmp_path / "a.h5")), expected


def taken(view: hyperslab.ArrayView, slab: Hyperslab) -> int:
    with recording() as phases:
        view.read(slab)
    return sum(phase.nbytes for phase in phases if phase.kind == "read")


@given(data=st.data())
@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_read_gives_the_values(
    view: tuple[hyperslab.ArrayView, Array], data: st.DataObject
) -> None:
    found, expected = view
    slab = data.draw(slabs(expected.shape))
    assert_same(found.read(slab), expected[slab.slices()])
    out = np.zeros(slab.count, found.dtype)
    assert found.read(slab, out) is out
    assert_same(out, expected[slab.slices()])


def handles(path: str) -> int:
    """How often this process has a file open."""
    return sum(
        os.path.realpath(f"/proc/self/fd/{fd}") == path for fd in os.listdir("/proc/self/fd")
    )


def test_threads_may_share_a_view(view: tuple[hyperslab.ArrayView, Array]) -> None:
    found, expected = view
    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(lambda i: found[i % 30, 3:9], range(300)))
    for number, block in enumerate(blocks):
        assert_same(block, expected[number % 30, 3:9])


def test_a_copy_reads_elsewhere(view: tuple[hyperslab.ArrayView, Array]) -> None:
    found, expected = view
    assert_same(found[3], expected[3])
    assert_same(pickle.loads(pickle.dumps(found))[4], expected[4])


@pytest.mark.parametrize("view", ["deflate"], indirect=True)
def test_a_chunk_decoded_for_a_part_is_kept(view: tuple[hyperslab.ArrayView, Array]) -> None:
    found, _ = view
    corner = Hyperslab((0, 0, 0), (2, 2, 2))
    assert taken(found, corner) == reading.read_nbytes(found.source, corner) > 0
    assert taken(found, corner) == 0
    assert taken(found, Hyperslab((6, 9, 4), (1, 1, 1))) == 0, "another part of the same chunk"
    assert taken(found, Hyperslab((7, 9, 4), (1, 1, 1))) > 0
    whole = Hyperslab((14, 10, 5), (7, 10, 5))
    assert taken(found, whole) == taken(found, whole) > 0, "what was wanted whole is not kept"


@pytest.mark.parametrize("view", ["plain", "deflate", "nii"], indirect=True)
def test_a_file_that_is_written_to_is_noticed(view: tuple[hyperslab.ArrayView, Array]) -> None:
    found, expected = view
    assert_same(found[3], expected[3])
    path = Path(found.source.url)
    os.utime(path, ns=(0, found.source.mtime_ns + 10**9))
    with pytest.raises(SourceChanged, match="written to"):
        found[3]
    os.utime(path, ns=(0, found.source.mtime_ns))
    assert_same(found[3], expected[3])
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(SourceChanged, match="bytes when"):
        found[3]


@pytest.mark.parametrize("view", ["deflate"], indirect=True)
def test_damage_names_the_chunk_and_is_not_kept(view: tuple[hyperslab.ArrayView, Array]) -> None:
    found, _ = view
    table = found.source.chunks
    assert table is not None
    with Path(found.source.url).open("r+b") as file:
        file.seek(int(table.offset[0]) + 10)
        file.write(b"damaged by a test")
    os.utime(found.source.url, ns=(0, found.source.mtime_ns))
    for _ in range(2):
        with pytest.raises(FormatError, match=f"the chunk at byte {table.offset[0]}: .*deflate"):
            found[0, 0]


def test_a_view_closes_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file["data"] = VALUES
    found = hyperslab.open(path)

    assert_same(found[0], VALUES[0])
    assert_same(found[1], VALUES[1])
    assert handles(path) == 1
    del found
    gc.collect()
    assert handles(path) == 0


def test_thousands_of_views_keep_few_files_and_chunks(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=VALUES, chunks=(7, 10, 5), compression="gzip")
    views = [hyperslab.open(path) for _ in range(3 * kept.KEPT)]
    corner = Hyperslab((0, 0, 0), (2, 2, 2))
    for view in views:
        assert_same(view.read(corner), VALUES[:2, :2, :2])
    assert handles(path) == kept.KEPT
    assert taken(views[-kept.KEPT], corner) == 0, "one of those used last"
    assert taken(views[0], corner) > 0, "it had let go of its chunks"
    assert taken(views[-kept.KEPT], corner) == 0, "it was used since"
    assert taken(views[1 - kept.KEPT], corner) > 0, "it made room"
    del views, view
    gc.collect()
    assert handles(path) == 0


def test_views_close_their_files_where_the_process_has_no_more(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.h5") for number in range(8)]
    for path in paths:
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=VALUES, chunks=(7, 10, 5), compression="gzip")
    views = [hyperslab.open(path) for path in paths]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(int(fd) for fd in os.listdir("/proc/self/fd")) + 3, hard)
    )
    held = []
    try:
        for view in views[:2]:
            assert_same(view[3], VALUES[3])
        # the limit is met at some turn
        with pytest.raises(OSError, match="Too many open files"):  # noqa: PT012
            while True:
                held.append(os.open(paths[0], os.O_RDONLY))
        for view in views[2:]:
            assert_same(view[4], VALUES[4])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


def test_a_file_let_go_of_is_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "KEPT", 1)
    made = [tmp_path / f"{number}.h5" for number in range(6)]
    for number, path in enumerate(made):
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=VALUES + number, chunks=(7, 10, 5), compression="gzip")
    views = [hyperslab.open(str(path)) for path in made]
    with ThreadPoolExecutor(6) as pool:
        for number, block in enumerate(pool.map(lambda i: views[i % 6][i % 30, 3:9], range(1200))):
            assert_same(block, (VALUES + number % 6)[number % 30, 3:9])


def test_a_child_of_fork_reads_though_another_thread_was_about_to(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=VALUES, chunks=(7, 10, 5), compression="gzip")
    view = hyperslab.open(path)
    held = threading.Event()

    def hold() -> None:
        with kept._lock:
            held.set()
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        held.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(view[3], VALUES[3]) else 1)
    assert os.waitstatus_to_exitcode(waited(child)) == 0


def test_children_of_fork_read_while_threads_of_the_parent_do(tmp_path: Path) -> None:
    path, values = str(tmp_path / "a.h5"), np.arange(64 * 64, dtype="u2").reshape(64, 64)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=values, chunks=(16, 16), compression="gzip")
    view, ended = hyperslab.open(path), threading.Event()

    def read() -> None:
        while not ended.is_set():
            for first in range(0, 60, 7):
                view[first : first + 3, first : first + 3]

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(read)
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    os._exit(
                        0
                        if all(
                            np.array_equal(view[i : i + 3], values[i : i + 3]) for i in (0, 30, 60)
                        )
                        else 1
                    )
                assert os.waitstatus_to_exitcode(waited(child)) == 0
        finally:
            ended.set()


def waited(child: int) -> int:
    """The status of a child, which is killed if it hangs."""
    until = time.monotonic() + 100
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def test_few_elements_of_a_grid_of_many_cells_are_found_at_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        made = file.create_dataset(
            "data", (2**45,), "i4", chunks=(1,), compression="gzip", fillvalue=5
        )
        made[2**44] = 7
    found = hyperslab.open(str(tmp_path / "wide.h5"))
    assert found[:: 2**44].tolist() == [5, 7]
    assert found[2**44 - 2 : 2**44 + 2].tolist() == [5, 5, 7, 5]
    assert found[:: 2**43].tolist() == [5, 5, 7, 5]


def test_a_stream_that_lies_about_its_length_takes_little_memory(tmp_path: Path) -> None:
    chunk = (2**28,)
    with h5py.File(tmp_path / "liar.h5", "w") as file:
        made = file.create_dataset("data", chunk, "u1", chunks=chunk, compression=hdf5plugin.Zstd())
        made.id.write_direct_chunk((0,), b"\x28\xb5\x2f\xfd" + bytes(range(256)) * 400)
    found = hyperslab.open(str(tmp_path / "liar.h5"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError, match="zstd"):
        found[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16, "64 MiB, in KiB"


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    for name, values in (("a.h5", VALUES), ("b.h5", VALUES[:7])):
        with h5py.File(tmp_path / name, "w") as file:
            file["data"] = values
    found = hyperslab.open(str(tmp_path / "a.h5"))
    assert_same(found[3], VALUES[3])
    (tmp_path / "b.h5").replace(tmp_path / "a.h5")
    with pytest.raises(SourceChanged):
        found[3]
    (tmp_path / "a.h5").unlink()
    with pytest.raises(SourceChanged, match="no longer there"):
        found[3]
