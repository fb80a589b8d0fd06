"""Segments: what many writers append comes back in order, once, and never damaged."""

from __future__ import annotations

import os
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import segments
from hyperslab.errors import FormatError
from hyperslab.segments import Segment, append, pieces
from hyperslab.testing.formats import traced_memory

PIECES = st.lists(st.lists(st.binary(max_size=300), max_size=6), max_size=6)


@given(found=PIECES, data=st.data())
@settings(max_examples=60, deadline=None)
def test_pieces_come_back_in_the_order_of_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, found: list[list[bytes]], data: st.DataObject
) -> None:
    """Whichever segments they are in, also between those of others."""
    folder = tmp_path_factory.mktemp("parts")
    total = sum(map(len, found))
    numbers = iter(data.draw(st.permutations(range(-3, total - 3))))
    numbered = [[(next(numbers), piece) for piece in segment] for segment in found]
    held = [append(str(folder), segment) for segment in numbered]
    everything = sorted(piece for segment in numbered for piece in segment)
    assert list(pieces(data.draw(st.permutations(held)))) == everything


def test_only_what_is_named_is_looked_at(tmp_path: Path) -> None:
    """A task that was done twice, or killed in the middle, has left bytes that nobody reads."""
    first = append(str(tmp_path), [(0, b"wrong")])
    with Path(first.path).open("ab") as part:
        part.write(b"torn" * 5)
    second = append(str(tmp_path), [(0, b"right"), (2, b"")])
    third = append(str(tmp_path), [(1, b"middle")])
    assert first.path == second.path == third.path
    assert (second.offset, third.offset) == (first.nbytes + 20, first.nbytes + 20 + second.nbytes)
    assert list(pieces([third, second])) == [(0, b"right"), (1, b"middle"), (2, b"")]


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    written = append(str(tmp_path), [(7, b"some bytes"), (3, b""), (9, b"more")])
    path = Path(written.path)
    raw = path.read_bytes()
    assert len(raw) == written.nbytes
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x40]) + raw[place + 1 :])
        with pytest.raises(FormatError, match=r"what was written at byte 0 is damaged; .*--resume"):
            list(pieces([written]))
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(FormatError, match="is damaged"):
            list(pieces([written]))


def test_another_place_than_that_of_a_segment_is_noticed(tmp_path: Path) -> None:
    first, second = append(str(tmp_path), [(0, b"one")]), append(str(tmp_path), [(1, b"two")])
    for wrong in (
        Segment(first.path, first.offset + 1, first.nbytes),
        Segment(first.path, first.offset, first.nbytes + second.nbytes),
        Segment(first.path, 10**6, first.nbytes),
    ):
        with pytest.raises(FormatError, match="is damaged"):
            list(pieces([wrong]))
    with pytest.raises(FileNotFoundError):
        list(pieces([Segment(str(tmp_path / "gone.part"), 0, 10)]))


def _append_many(folder: str, first: int) -> list[Segment]:
    return [append(folder, [(first + i, bytes([i]) * (first + i))]) for i in range(20)]


def test_threads_and_processes_append_at_the_same_time(tmp_path: Path) -> None:
    """Each to a part of its own: none waits for another, none writes over another's."""
    held: list[Segment] = []
    barrier = threading.Barrier(4)

    def work(first: int) -> None:
        barrier.wait()
        held.extend(_append_many(str(tmp_path), first))

    threads = [threading.Thread(target=work, args=(20 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with get_context("forkserver").Pool(2) as pool:
        for segment_list in pool.starmap(_append_many, [(str(tmp_path), 20 * n) for n in range(4, 8)]):
            held.extend(segment_list)
    assert list(pieces(held)) == [(n, bytes([n % 20]) * n) for n in range(160)]
    assert len({segment.path for segment in held}) == len(list(tmp_path.iterdir())) >= 5


def test_more_pieces_than_one_write_takes_and_writes_that_are_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [(n, bytes([n % 256]) * (n % 5)) for n in range(3000)]
    many += [(3000, bytes(700)), (3001, b"larger than a buffer" * 100), (3002, b"")]
    monkeypatch.setattr(segments, "_AT_A_TIME_NBYTES", 1000)
    plain = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, data, at: plain(fd, [memoryview(data[0])[:3]], at))
    assert list(pieces([append(str(tmp_path), many)])) == many


def test_more_parts_than_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_OPEN", 2)
    held = []
    for n in range(6):
        (tmp_path / str(n)).mkdir()
        held += [append(str(tmp_path / str(n)), [(n, b"x" * n), (n + 6, b"y")])]
    before = len(os.listdir("/proc/self/fd"))
    found = pieces(held)
    assert next(found) == (0, b"")
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert [number for number, _ in found] == list(range(1, 12))
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_piece_is_in_memory_at_a_time(tmp_path: Path) -> None:
    held = [append(str(tmp_path), [(n * 10 + i, bytes(200_000)) for i in range(5)]) for n in range(4)]
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
    assert peak[0] < 24 * many * 1.5, "the table, which may be copied once, in part"
    assert sum(1 for _ in pieces([written])) == many
