"""Damaged and dishonest HDF5 files: a FormatError, soon, and never a crash, a hang, or a value that
is nobody's.

libhdf5 itself does not always survive damage: parts that are read through it ('library') may end
their process, as they would with h5py alone (seen with version 2.0: szip with damaged parameters).
They never take for ever.
"""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats.hdf5 import listing
from tests.examples import examples
from tests.formats.files import DATA, EXTRA
from tests.formats.hdf5_damage import SOUND, Reading, make_lists
from tests.formats.hdf5_made import make

CORRUPT = sorted((Path(EXTRA) if EXTRA else DATA).glob("hdf5/corrupt/*"))
LARGEST_FILE = 2**16
MADE: dict[str, Any] = {
    "v1-btree.h5": {"chunks": (5, 4), "filters": ["shuffle", "deflate"]},
    "plain.h5": {"chunks": (5, 4), "kind": ">f4"},
    "contiguous.h5": {},
    "checked.h5": {"chunks": (5, 4), "filters": ["lzf", "fletcher32"], "libver": "latest"},
    "v2-btree.h5": {
        "chunks": (2, 3),
        "filters": ["deflate"],
        "libver": "latest",
        "maxshape": (None, None),
    },
    "extensible.h5": {
        "chunks": (2, 3),
        "libver": "latest",
        "maxshape": (None, 10),
        "fill": 3,
        "parts": (np.s_[:3],),
    },
    "fixed.h5": {"chunks": (2, 3), "libver": "latest", "filters": ["zstd"]},
    "single.h5": {"chunks": (12, 10), "libver": "latest", "filters": ["lz4"]},
}
LISTS = {"lists.h5": "earliest", "latest-lists.h5": "latest"}
MARKS = (
    b"GCOL",
    b"DIMENSION_LIST",
    b"DIMENSION_LABELS",
    b"vl\0",
    b"list\0",
    b"text\0",
    b"CLASS\0",
    b"NAME\0",
    b"lists\0",
)
"What the heap and the messages that lead to it begin with, or nearly so."


@pytest.fixture(scope="module")
def read_apart() -> Iterator[Reading]:
    found = Reading()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Real files and made ones, each of another layout."""
    folder = tmp_path_factory.mktemp("sound")
    for name, options in MADE.items():
        make(folder / name, **options)
    real = [
        path
        for path in (DATA / "hdf5" / "layout").glob("*.h5")
        if path.stat().st_size < LARGEST_FILE
    ]
    for name, libver in LISTS.items():
        make_lists(folder / name, libver=libver)
    return [*(folder / name for name in (*MADE, *LISTS)), *sorted(real)]


@st.composite
def damages(draw: st.DrawFn) -> tuple[int, str, int, bytes]:
    """Which file, what happens to it, where, and the bytes that are put there."""
    what = draw(st.sampled_from(["overwrite", "overwrite", "flip", "insert", "delete", "cut"]))
    junk = draw(
        st.sampled_from([b"\xff\xff\xff\x7f", bytes(8)]) | st.binary(min_size=1, max_size=8)
    )
    return draw(st.integers(0, 2**10)), what, draw(st.integers(0, LARGEST_FILE)), junk


def damaged(raw: bytes, what: str, place: int, junk: bytes) -> bytes:
    """A file of the same length, which HDF5 checks first, unless it is cut."""
    at = place % len(raw)
    after = {"insert": at, "delete": at + len(junk)}.get(what, at + len(junk))
    if what == "cut":
        return raw[: max(at, 9)]
    if what == "flip":
        junk = bytes([raw[at] ^ 1 << junk[0] % 8])
        after = at + 1
    middle = b"" if what == "delete" else junk
    return (raw[:at] + middle + raw[after:] + bytes(8))[: len(raw)]


@given(damage=damages())
@settings(
    deadline=None,
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_damage_is_an_error_or_not_seen(
    damage: tuple[int, str, int, bytes], sound: list[Path], read_apart: Reading, tmp_path: Path
) -> None:
    number, what, place, junk = damage
    whole, path = sound[number % len(sound)], tmp_path / "damaged.h5"
    path.write_bytes(damaged(whole.read_bytes(), what, place, junk))
    check(read_apart(path, whole))


@given(mark=st.sampled_from(MARKS), place=st.integers(-24, 300), damage=damages())
@settings(
    deadline=None,
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_damage_of_the_heap_and_of_attributes(
    mark: bytes,
    place: int,
    damage: tuple[int, str, int, bytes],
    sound: list[Path],
    read_apart: Reading,
    tmp_path: Path,
) -> None:
    """Damage where lists of any length lie, and where attributes say so, and how long they are."""
    whole, path = sound[len(MADE)], tmp_path / "damaged.h5"
    raw, (number, what, _, junk) = whole.read_bytes(), damage
    marks = [at for at in range(len(raw)) if raw.startswith(mark, at)]
    path.write_bytes(damaged(raw, what, marks[number % len(marks)] + place, junk))
    check(read_apart(path, whole))


@pytest.mark.parametrize("path", CORRUPT, ids=lambda path: path.name)
def test_files_that_were_made_to_do_harm(path: Path, read_apart: Reading) -> None:
    check(read_apart(path, path))


def check(found: list[tuple[str, str]]) -> None:
    """Nothing but our errors, no end of the process outside of the library, no element that is
    nobody's.
    """
    for (_, before), (stage, result) in zip([("", ""), *found], found, strict=False):
        kind, name = stage.split(" ")[0], result.split(":")[0]
        if kind in ("list", "open", "read", "library"):
            assert name in ("begun", "fine", *SOUND), found
        elif kind == "compare":
            assert name in ("begun", "same"), found
        assert kind != "end" or before == "begun", found
    if found[-1][0] == "end":
        assert found[-2][0].split(" ")[0] in (
            ("h5py",) if found[-1][1] == "hung" else ("library", "h5py")
        ), found


def test_the_watch_sees_crashes_hangs_and_wrong_values(tmp_path: Path, sound: list[Path]) -> None:
    read_apart = Reading()
    try:
        assert read_apart(sound[0], sound[0])[-1] == ("compare /data", "same")
        assert read_apart(sound[0], sound[0], seconds=0)[-1] == ("end", "hung")
        with pytest.raises(AssertionError):
            check([("list", "begun"), ("end", "died: -11")])
        with pytest.raises(AssertionError):
            check([("library /data", "begun"), ("end", "hung")])
        with pytest.raises(AssertionError):
            check([("open /data", "begun"), ("open /data", "MemoryError: ")])
        with pytest.raises(AssertionError):
            check([("compare /data", "begun"), ("compare /data", "different: [1]")])
    finally:
        read_apart.stop()


@pytest.mark.parametrize("name", ["deflate", "zstd", "lz4", "lzf"])
def test_chunks_too_short_for_their_elements_take_no_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.h5"
    make(path, (2**28,), "<f8", chunks=(2**28,), filters=[name], parts=())
    with h5py.File(path, "r+") as file:
        file["data"].id.write_direct_chunk((0,), b"x" * 100)
    tracemalloc.start()
    try:
        with pytest.raises(
            FormatError, match=r"chunk at byte \d+ \(100 bytes\) cannot hold 268435456 elements"
        ):
            formats.open_source(str(path))
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (3, 0, 3, "names chunks outside of it"),
        (3, 0, 12, "names chunks outside of it"),
        (3, 1, 2**62, "more chunks than there can be, or impossible ones"),
        (3, 3, 2**64 - 1, "more chunks than there can be, or impossible ones"),
        (3, 3, 5, "names places where no chunk can be"),
        (3, 4, 0, "names places where no chunk can be"),
        (3, 4, 2**63, "more chunks than there can be, or impossible ones"),
        (3, 4, 81, "names places that overlap"),
        (8, 4, 79, "the size of a chunk is not that of its elements"),
    ],
)
@pytest.mark.parametrize("kind", ["<i4", "S4"])
def test_an_index_that_lies_is_corrupt(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: int,
    column: int,
    value: int,
    words: str,
    kind: str,
) -> None:
    """Of 9 chunks of (5, 4) in (12, 10): columns are two starts, filter mask, place and size. Text
    is read by h5py.
    """
    path = tmp_path / "lies.h5"
    make(path, chunks=(5, 4), kind=kind)
    assert (formats.open_source(f"{path}::data").chunks is None) == (kind == "S4")
    true = listing._index

    def lies(dataset: Any, most: int) -> Any:
        found = true(dataset, most).copy()
        found[row, column] = value
        return found

    monkeypatch.setattr(listing, "_index", lies)
    with pytest.raises(FormatError, match=f"lies.h5::/data: corrupt: .*{words}.*; copy it again"):
        formats.open_source(f"{path}::data")


@pytest.mark.parametrize("kind", ["<i4", "S4"])
def test_a_chunk_with_a_damaged_corner_is_corrupt(tmp_path: Path, kind: str) -> None:
    """Of the 9 keys of a B-tree, each with a corner of two numbers: h5py gives fill values for most
    such chunks.
    """
    path = tmp_path / "corner.h5"
    make(path, chunks=(5, 4), kind=kind, filters=["deflate"])
    raw = path.read_bytes()
    node, key, child = raw.index(b"TREE\1") + 24, 8 + 3 * 8, 8
    for number, axis, bit in itertools.product(range(9), range(2), (1, 4, 128)):
        damaged_file = bytearray(raw)
        damaged_file[node + number * (key + child) + 8 + 8 * axis] ^= bit
        path.write_bytes(damaged_file)
        with pytest.raises(
            FormatError, match=r"corner.h5::/?data: (corrupt: its chunk index|HDF5 cannot read it)"
        ):
            formats.open_source(f"{path}::data")


def test_a_contiguous_dataset_of_another_size_is_corrupt(tmp_path: Path) -> None:
    """h5py gives elements in rows of the wrong length."""
    path = tmp_path / "rows.h5"
    make(path)
    path.write_bytes(
        path.read_bytes().replace(struct.pack("<QQ", 12, 10), struct.pack("<QQ", 12, 8))
    )
    with h5py.File(path) as file:
        assert file["data"][...].shape == (12, 8)
    with pytest.raises(
        FormatError, match=r"rows.h5::/data: corrupt: its stored size is not that of its elements"
    ):
        formats.open_source(str(path))


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([*range(9), 8], "more chunks than there can be"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 7], "a chunk twice"),
        ([1, 0, *range(2, 9)], "out of order"),
    ],
)
def test_an_index_that_repeats_or_jumps_is_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: list[int], words: str
) -> None:
    path = tmp_path / "lies.h5"
    make(path, chunks=(5, 4))
    true = listing._index

    def lies(dataset: Any, cells: int) -> Any:
        found = true(dataset, cells)[order]
        found[:, -2] = 96 + 80 * np.arange(len(found))
        return found

    monkeypatch.setattr(listing, "_index", lies)
    with pytest.raises(FormatError, match=f"lies.h5::/data: corrupt: .*{words}.*; copy it again"):
        formats.open_source(str(path))


def test_an_endless_index_is_cut_off() -> None:
    class Endless:
        @staticmethod
        def chunk_iter(take: Any) -> None:
            while take(((0,), 0, 4096, 8)) is None:
                pass

    dataset = SimpleNamespace(ndim=1, id=Endless)
    assert len(listing._index(dataset, 10)) == 11


def test_a_chunk_beyond_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "short.h5"
    make(path, chunks=(5, 4))
    true = listing._index
    monkeypatch.setattr(
        listing, "_index", lambda *given: true(*given) + np.array([0, 0, 0, 2**40, 0], "u8")
    )
    with pytest.raises(
        FormatError, match=r"short.h5::/data: truncated: the chunk at byte 10995\d+ \(80 bytes\)"
    ):
        formats.open_source(str(path))


def test_links_in_circles_come_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "circles.h5"
    with h5py.File(path, "w") as file:
        file["a/b/data"] = np.arange(3)
        file["a/b/again"] = file["a"]
        file["a/root"] = file["/"]
        file["second"] = file["a/b/data"]
        file["soft"], file["softer"] = h5py.SoftLink("/softer"), h5py.SoftLink("/soft")
        file["out"] = h5py.ExternalLink("circles.h5", "/out")
        file["gone"] = h5py.ExternalLink("gone.h5", "/data")
    assert [info.name for info in formats.arrays(str(path))] == ["/a/b/data"]
    for name in ("soft", "out", "gone"):
        with pytest.raises((FormatError, UsageError), match=r"HDF5 cannot read it|holds no"):
            formats.open_source(f"{path}::{name}")
    source = formats.open_source(f"{path}::a/b/again/b/again/b/data")
    np.testing.assert_array_equal(reading.read(source, Hyperslab.full((3,))), np.arange(3))


HOLD = """
import fcntl, h5py, sys
file = h5py.File(sys.argv[1], "r+") if sys.argv[2] == "h5py" else open(sys.argv[1], "r+b")
if sys.argv[2] != "h5py":
    getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["h5py", "flock", "lockf"])
def test_a_file_that_another_process_has_locked_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.delenv("HDF5_USE_FILE_LOCKING", raising=False)
    path = tmp_path / "locked.h5"
    make(path, chunks=(5, 4), filters=["deflate"])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        if how != "lockf":
            with pytest.raises(OSError, match="unable to lock"):
                h5py.File(path, "r")
        source = formats.open_source(str(path))
        block = reading.read(source, Hyperslab.full(source.shape))
        holder.communicate()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(block, file["data"][()])
    assert "HDF5_USE_FILE_LOCKING" not in os.environ


def test_a_file_that_is_open_in_this_process_is_read(tmp_path: Path) -> None:
    path = tmp_path / "open.h5"
    make(path)
    for locking in (True, False, None):
        with h5py.File(path, "r", locking=locking) as file:
            source = formats.open_source(str(path))
            np.testing.assert_array_equal(
                reading.read(source, Hyperslab.full((12, 10))), file["data"][()]
            )


def test_a_user_block_is_counted_where_hdf5_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "block.h5"
    make(path, chunks=(5, 4), user_block=2048)
    counted = formats.open_source(str(path)).chunks
    monkeypatch.setattr(listing, "_index", partial(_uncounted, listing._index))
    monkeypatch.setattr(listing, "_counts_user_blocks", lambda: False)
    added = formats.open_source(str(path)).chunks
    assert counted is not None
    assert added is not None
    np.testing.assert_array_equal(counted.offset, added.offset)


def _uncounted(true: Any, dataset: Any, cells: int) -> Any:
    return true(dataset, cells) - np.array([0, 0, 0, 2048, 0], "u8")
