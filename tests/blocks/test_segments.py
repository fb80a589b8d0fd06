"""Segments: what many writers append comes back in order, once, and never damaged."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.arrays.sink import Encoded
from hyperslab.blocks.writing import directio, segments
from hyperslab.blocks.writing.directio import ALIGNMENT
from hyperslab.blocks.writing.segments import Segment, home, pieces, settle
from hyperslab.errors import FormatError
from hyperslab.testing.formats import traced_memory
from tests.blocks.appending import HEAD, SIZES, append, append_many
from tests.descriptors import descriptors_below
from tests.examples import examples

EITHER = pytest.mark.parametrize("is_home", [False, True])
PIECES = st.lists(st.lists(st.binary(max_size=300), max_size=6), max_size=6)


def settled(held: Sequence[Segment], folder: str, is_shared: bool) -> list[Encoded]:
    """What the tables say lies in the home, which none of them had before the call where all is in
    parts.
    """
    if not os.path.exists(home(folder)):
        Path(home(folder)).write_bytes(HEAD)
    table, raw = settle(held, folder, is_shared), Path(home(folder)).read_bytes()
    assert raw.startswith(HEAD)
    spans = sorted(
        (int(row["offset"]), int(row["offset"] + row["nbytes"])) for row in table if row["nbytes"]
    )
    assert all(end <= first for (_, end), (first, _) in pairwise([(0, len(HEAD)), *spans])), (
        "pieces over one another"
    )
    return sorted((int(r["number"]), raw[r["offset"] : r["offset"] + r["nbytes"]]) for r in table)


@given(found=PIECES, is_home=st.lists(st.booleans(), min_size=6, max_size=6), data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_pieces_come_back_in_the_order_of_their_numbers(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[list[bytes]],
    is_home: list[bool],
    data: st.DataObject,
) -> None:
    """Whichever segments they are in, also between those of others, and wherever they lie."""
    folder = str(tmp_path_factory.mktemp("parts"))
    total = sum(map(len, found))
    numbers = iter(data.draw(st.permutations(range(-3, total - 3))))
    numbered = [[(next(numbers), piece) for piece in segment] for segment in found]
    held = [
        append(folder, segment, there) for segment, there in zip(numbered, is_home, strict=False)
    ]
    everything = sorted(piece for segment in numbered for piece in segment)
    held = data.draw(st.permutations(held))
    assert list(pieces(held)) == everything
    assert settled(held, folder, data.draw(st.booleans())) == everything


@EITHER
def test_only_what_is_named_is_looked_at(tmp_path: Path, is_home: bool) -> None:
    """A task that was done twice, or killed in the middle, has left bytes that nobody reads."""
    first = append(str(tmp_path), [(0, b"wrong")], is_home)
    with Path(first.path).open("ab") as part:
        part.write(b"torn" * 5)
    if is_home:
        with Path(home(str(tmp_path))).open("ab") as file:
            file.write(b"torn")
    second = append(str(tmp_path), [(0, b"right"), (2, b"")], is_home)
    third = append(str(tmp_path), [(1, b"middle")], is_home)
    assert first.path == second.path == third.path
    assert third.end == Path(first.path).stat().st_size > second.end > first.end + 20
    expected = [(0, b"right"), (1, b"middle"), (2, b"")]
    assert list(pieces([third, second])) == expected
    assert settled([third, second], str(tmp_path), True) == expected


@EITHER
def test_every_damaged_byte_is_noticed(tmp_path: Path, is_home: bool) -> None:
    written = append(str(tmp_path), [(7, b"some bytes"), (3, b""), (9, b"more")], is_home)
    files = {Path(written.path): 0} | ({Path(home(str(tmp_path))): len(HEAD)} if is_home else {})
    assert Path(written.path).stat().st_size == written.end
    for path, first in files.items():
        raw = path.read_bytes()
        for place in range(first, len(raw)):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x40]) + raw[place + 1 :])
            with pytest.raises(
                FormatError, match=r"what was written up to byte \d+ is damaged; .*--resume"
            ):
                list(pieces([written]))
        for length in range(first, len(raw)):
            path.write_bytes(raw[:length])
            with pytest.raises(FormatError, match="is damaged"):
                list(pieces([written]))
            with pytest.raises(FormatError, match="is damaged"):
                settle([written], str(tmp_path), True)
        path.write_bytes(raw)
    assert list(pieces([written])) == [(3, b""), (7, b"some bytes"), (9, b"more")]


def test_another_place_than_that_of_a_segment_is_noticed(tmp_path: Path) -> None:
    first, _ = append(str(tmp_path), [(0, b"one")]), append(str(tmp_path), [(1, b"two")])
    for wrong in (
        Segment(first.path, first.end - 1),
        Segment(first.path, first.end + 1),
        Segment(first.path, 3),
        Segment(first.path, 10**6),
    ):
        with pytest.raises(FormatError, match="is damaged"):
            list(pieces([wrong]))
    with pytest.raises(FileNotFoundError):
        list(pieces([Segment(str(tmp_path / "gone.part"), 30)]))


@EITHER
def test_threads_and_processes_append_at_the_same_time(tmp_path: Path, is_home: bool) -> None:
    """Each to a part of its own, or all to one file: none writes over another's."""
    held: list[Segment] = []
    folder, barrier = str(tmp_path), threading.Barrier(4)
    append(folder, [], is_home)

    def work(first: int) -> None:
        barrier.wait()
        held.extend(append_many(folder, first, is_home))

    threads = [threading.Thread(target=work, args=(20 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with get_context("forkserver").Pool(2) as pool:
        for segment_list in pool.starmap(
            append_many, [(folder, 20 * n, is_home) for n in range(4, 8)]
        ):
            held.extend(segment_list)
    expected = [(n, bytes([n % 20]) * SIZES[n % len(SIZES)]) for n in range(160)]
    assert list(pieces(held)) == expected
    assert settled(held, folder, True) == expected
    assert len({segment.path for segment in held}) >= 5


def test_forks_of_a_process_that_has_written(tmp_path: Path) -> None:
    """They do not share its windows."""
    folder = str(tmp_path)
    held = append_many(folder, 0, True)
    with get_context("fork").Pool(2) as pool:
        found = pool.starmap_async(append_many, [(folder, 20 * n, True) for n in (1, 2)])
        held += append_many(folder, 60, True)
        held += [segment for segments in found.get() for segment in segments]
    assert settled(held, folder, True) == [
        (n, bytes([n % 20]) * SIZES[n % len(SIZES)]) for n in range(80)
    ]


@EITHER
def test_more_pieces_than_one_write_takes_and_writes_that_are_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_home: bool
) -> None:
    many = [(n, bytes([n % 256]) * (n % 5)) for n in range(3000)]
    many += [(3000, bytes(700)), (3001, b"larger than a buffer" * 1000), (3002, b"")]
    monkeypatch.setattr(segments, "_BUFFERED_NBYTES", 1000)
    for place in (segments, directio):
        monkeypatch.setattr(place, "WINDOW_NBYTES", 2 * ALIGNMENT)
    monkeypatch.setattr(segments, "_DIRECT_NBYTES", 2000)
    plain = os.pwritev
    short = 4096 if is_home else 3
    monkeypatch.setattr(
        os, "pwritev", lambda fd, data, at: plain(fd, [memoryview(data[0])[:short]], at)
    )
    held = append(str(tmp_path), many, is_home)
    assert list(pieces([held])) == many
    assert settled([held], str(tmp_path), is_home) == many


def test_more_parts_than_are_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_OPEN", 2)
    held = []
    for n in range(6):
        (tmp_path / str(n)).mkdir()
        held += [append(str(tmp_path / str(n)), [(n, b"x" * n), (n + 6, b"y")])]
    found = pieces(held)
    assert next(found) == (0, b"")
    assert len(descriptors_below(tmp_path)) <= 2
    assert [number for number, _ in found] == list(range(1, 12))
    assert descriptors_below(tmp_path) == []


@EITHER
def test_one_piece_is_in_memory_at_a_time(tmp_path: Path, is_home: bool) -> None:
    held = [
        append(str(tmp_path), [(n * 10 + i, bytes(200_000)) for i in range(5)], is_home)
        for n in range(4)
    ]
    with traced_memory() as peak:
        assert sum(len(data) for _, data in pieces(held)) == 4_000_000
    assert peak[0] < 3 * 200_000


def test_a_folder_that_is_gone_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        append(str(tmp_path / "gone"), [(0, b"")])


def test_many_small_pieces_take_little_memory(tmp_path: Path) -> None:
    """Of a task whose chunks hold a number or two."""
    many = 200_000
    with traced_memory() as peak:
        written = append(str(tmp_path), ((number, b"12345678") for number in range(many)))
    assert peak[0] < 32 * many * 2.5, "the table, which is joined of parts and copied once"
    assert sum(1 for _ in pieces([written])) == many


def test_many_bytes_go_past_the_page_cache_in_whole_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fills the last one is zeros, not what the window had before; small ones do not, and take
    no more.
    """
    plain, direct = os.pwritev, []

    def pwritev(fd: int, data: list[memoryview], at: int) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            direct.append((at, len(data[0])))
        return plain(fd, data, at)

    monkeypatch.setattr(os, "pwritev", pwritev)
    append(str(tmp_path), [(0, b"\xff" * directio.WINDOW_NBYTES)], True)
    large = append(str(tmp_path), [(1, b"\1" * 1_500_000), (2, b"\2" * 100)], True)
    small = append(str(tmp_path), [(3, b"\3" * 1000)], True)
    assert all(at % ALIGNMENT == nbytes % ALIGNMENT == 0 for at, nbytes in direct)
    assert sum(nbytes for _, nbytes in direct) == directio.WINDOW_NBYTES + 1_503_232
    table, raw = settle([large, small], str(tmp_path), True), Path(home(str(tmp_path))).read_bytes()
    last = int(table["offset"][1]) + 100
    assert raw[last : int(table["offset"][2])] == bytes(-last % ALIGNMENT)
    assert table["offset"][2] + 1000 == len(raw)


def test_what_is_copied_home_may_go_there_while_others_write(tmp_path: Path) -> None:
    """As a task does that is done a second time by a worker that nobody waits for."""
    folder = str(tmp_path)
    held = [append(folder, [(n, bytes([n]) * 2_000_000)], n == 0) for n in range(3)]
    lost: list[Segment] = []
    straggler = threading.Thread(target=lambda: lost.extend(append_many(folder, 100, True)))
    straggler.start()
    found = settled(held, folder, True)
    straggler.join()
    assert found == [(n, bytes([n]) * 2_000_000) for n in range(3)]
    assert len(lost) == 20


@EITHER
def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path: Path, is_home: bool) -> None:
    folder, part = str(tmp_path), append(str(tmp_path), [(0, b"x")])
    Path(home(folder)).write_bytes(HEAD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(
            OSError, match=r"File too large: .*/home" if is_home else r"File too large: .*\.part"
        ):
            append(folder, [(0, bytes(2000))], is_home)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    Path(part.path).unlink()
    Path(part.path).mkdir()
    with pytest.raises(OSError, match=r"Is a directory: .*\.part"):
        settle([part], folder, is_home)
