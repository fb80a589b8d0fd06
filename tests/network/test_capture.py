"""Captures are read as the messages that were sent, whatever happened to their packets, and none of
them makes the decoder crash or hang.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.machine.host import peak_rss_bytes
from hyperslab.network.capture.decoding import decode
from hyperslab.network.capture.naming import said_in
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import UNDECODABLE, Traffic
from tests.examples import examples
from tests.network import made_captures as made
from tests.network.made_captures import Sent

HELLO = {"compression": None, "python": (3, 11, 7), "pickle-protocol": 5}
DATA = random.Random(1).randbytes(9000)
SAID = [
    (True, made.message(HELLO)),
    (False, made.message(HELLO)),
    (True, made.message({"op": "get_data", "keys": ["x"], ("a", 1): 2})),
    (False, made.message({"status": "OK", "data": made.PICKLED}, DATA[:40], DATA)),
    (True, made.message("OK")),
    (True, made.message([{"op": "a"}, {"op": "b"}, {"op": "a"}])),
    (False, made.message({"op": "heartbeat_worker", "now": 1.5})),
    (True, made.message({"status": "OK", "heartbeat-interval": 0.5})),
]
COUNTS = {
    "handshake": 2,
    "get_data": 1,
    "reply:get_data": 1,
    "ack": 1,
    "a": 2,
    "b": 1,
    "heartbeat_worker": 1,
    "reply:heartbeat_worker": 1,
}
NBYTES = sum(len(content) for _, content in SAID)


def _decoded(tmp_path: Path, content: bytes) -> Traffic:
    path = tmp_path / "f.pcap"
    path.write_bytes(content)
    return decode(path)


def _of(tmp_path: Path, segments: Sequence[Sent], snap: int = 65535) -> Traffic:
    return _decoded(tmp_path, made.classic(made.framed(segments), 1, snap))


def _counts(traffic: Traffic) -> dict[str, int]:
    return {one.name: one.count for one in numbers_of(traffic).operations}


def _sums(traffic: Traffic, name: str) -> int:
    directions: list[dict[str, Any]] = traffic.meta["directions"]
    return sum(one[name] for one in directions)


@pytest.mark.parametrize("link", made.LINKS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("write", [made.classic, made.blocks], ids=["pcap", "pcapng"])
def test_every_kind_of_file_and_link(tmp_path: Path, write: Any, order: str, link: str) -> None:
    packets = made.framed(made.talk(SAID), link)
    traffic = _decoded(tmp_path, write(packets, made.LINKS[link][0], order=order))
    assert _counts(traffic) == COUNTS
    assert numbers_of(traffic).nbytes == NBYTES
    assert set(traffic.addresses) == {"10.0.0.1:40000", "10.0.0.2:8786"}
    assert traffic.columns["time_ns"][0] == 10_000_000
    assert _sums(traffic, "undecoded_nbytes") == 0
    assert all(one["is_from_start"] for one in traffic.meta["directions"])
    assert traffic.meta["notes"] == []


def test_ipv6_behind_a_header_of_options(tmp_path: Path) -> None:
    packets = [(one.time_s, made.ipv6(one)) for one in made.talk(SAID)]
    traffic = _decoded(tmp_path, made.classic(packets, 101))
    assert _counts(traffic) == COUNTS
    assert "[::ffff:a00:1]:40000" in traffic.addresses


def test_bytes_of_a_batch_are_shared_out_among_its_operations(tmp_path: Path) -> None:
    numbers = numbers_of(_of(tmp_path, made.talk(SAID)))
    nbytes = {one.name: one.nbytes for one in numbers.operations}
    assert nbytes["a"] + nbytes["b"] == len(SAID[5][1])
    assert nbytes["a"] == len(SAID[5][1]) * 2 // 3
    assert numbers.messages == len(SAID)


def test_segments_that_come_late_or_twice(tmp_path: Path) -> None:
    segments = made.talk(SAID, 700)
    whole = [n for n, one in enumerate(segments) if len(one.data) == 700]
    overtaken, lost, repeated = whole[1], whole[4], whole[7]
    changed = list(segments)
    changed[overtaken : overtaken + 2] = [segments[overtaken + 1], segments[overtaken]]
    changed[lost] = segments[lost + 2]
    changed[lost + 1] = segments[lost + 1]
    changed[lost + 2] = made.again(segments[lost], 0.2)
    changed.insert(repeated + 1, made.again(segments[repeated], 0.2))
    changed.insert(repeated + 2, segments[repeated])
    traffic = _of(tmp_path, changed)
    assert _counts(traffic) == COUNTS
    assert numbers_of(traffic).nbytes == NBYTES
    assert _sums(traffic, "retransmissions") == 2
    assert _sums(traffic, "reordered") == 1
    assert _sums(traffic, "copies") == 1
    assert _sums(traffic, "nbytes") == NBYTES


def test_what_is_missing_in_a_payload_hides_no_message(tmp_path: Path) -> None:
    segments = made.talk(SAID, 700)
    whole = [n for n, one in enumerate(segments) if len(one.data) == 700]
    del segments[whole[5]]
    traffic = _of(tmp_path, segments)
    assert _counts(traffic) == COUNTS
    assert _sums(traffic, "missing_nbytes") == 700
    assert _sums(traffic, "undecoded_nbytes") == 0


def test_a_missing_header_is_counted_and_what_follows_is_read(tmp_path: Path) -> None:
    segments = made.talk(SAID)
    batch = next(n for n, one in enumerate(segments) if one.data == SAID[5][1])
    del segments[batch]
    traffic = _of(tmp_path, segments)
    expected = {name: count for name, count in COUNTS.items() if name not in ("a", "b")}
    assert _counts(traffic) == expected
    assert _sums(traffic, "missing_nbytes") == len(SAID[5][1])
    assert _sums(traffic, "undecoded_nbytes") == len(SAID[5][1])


@pytest.mark.parametrize(("snap", "undecodable"), [(300, 0), (110, 5)])
def test_a_snap_length_that_cuts(tmp_path: Path, snap: int, undecodable: int) -> None:
    traffic = _of(tmp_path, made.talk(SAID), snap)
    counts = _counts(traffic)
    assert counts.get(UNDECODABLE, 0) == undecodable
    assert numbers_of(traffic).messages == len(SAID)
    assert numbers_of(traffic).nbytes == NBYTES
    assert _sums(traffic, "cut_nbytes") > 0


def test_a_connection_that_had_begun_before(tmp_path: Path) -> None:
    traffic = _of(tmp_path, made.talk(SAID)[4:])
    assert not any(one["is_from_start"] for one in traffic.meta["directions"])
    counts = _counts(traffic)
    assert counts["reply:get_data"] == 1
    assert counts["heartbeat_worker"] == 1


def test_the_same_ends_meet_again(tmp_path: Path) -> None:
    later = [
        Sent(one.time_s + 60, one.is_client, one.sequence, *_rest(one))
        for one in made.talk(SAID, start=99)
    ]
    traffic = _of(tmp_path, [*made.talk(SAID), *later])
    assert _counts(traffic) == {name: 2 * count for name, count in COUNTS.items()}
    assert len(traffic.meta["directions"]) == 4


def _rest(one: Sent) -> tuple[int, int, bytes, int]:
    return one.acknowledged, one.flags, one.data, one.identity + 1000


def test_streams_of_others_are_no_messages(tmp_path: Path) -> None:
    said = [(True, b"GET /status HTTP/1.1\r\n\r\n" * 9), (False, bytes(5000))]
    traffic = _of(tmp_path, made.talk(said))
    assert numbers_of(traffic).messages == 0
    assert _sums(traffic, "undecoded_nbytes") == 24 * 9 + 5000


def test_a_capture_that_is_cut_is_read_up_to_there(tmp_path: Path) -> None:
    content = made.classic(made.framed(made.talk(SAID)), 1)
    traffic = _decoded(tmp_path, content[:-30])
    assert traffic.meta["notes"] == [
        "the file is cut or damaged, it ends in the middle of a packet: it was read up to there"
    ]
    assert numbers_of(traffic).messages >= len(SAID) - 1


def test_another_file_is_no_capture(tmp_path: Path) -> None:
    path = tmp_path / "f.pcap"
    path.write_text("this is no capture")
    with pytest.raises(UsageError, match="is no capture"):
        decode(path)


def test_captures_survive_their_file(tmp_path: Path) -> None:
    traffic = _of(tmp_path, made.talk(SAID))
    traffic.save(tmp_path / "m.parquet")
    loaded = Traffic.load(tmp_path / "m.parquet")
    assert numbers_of(loaded) == numbers_of(traffic)
    assert loaded.meta == traffic.meta


DAMAGED = examples(10_000)
MOST_NBYTES = 64 * 2**20
"What the decoder may come to hold, of files of some kilobytes whose lengths may say gigabytes."


def test_thousands_of_damaged_captures(tmp_path: Path) -> None:
    """None of them crashes or hangs, or takes more memory than a file of its size may."""
    said = [*SAID[:3], (False, made.message({"status": "OK"}, DATA[:40])), *SAID[4:]]
    segments = made.talk(said)
    files = [made.classic(made.framed(segments), 1), made.blocks(made.framed(segments), 1)]
    draw = random.Random(19)
    path = tmp_path / "f.pcap"
    began = time.process_time()
    before = _peak_from_now_on()
    read = 0
    for number in range(DAMAGED):
        path.write_bytes(_damaged(files[number % 2], draw))
        try:
            traffic = decode(path)
        except UsageError:
            continue
        read += len(traffic)
        if number % 20 == 0:
            assert numbers_of(traffic).messages == len(traffic)
        assert sum(one["nbytes"] for one in traffic.meta["directions"]) >= 0
        assert (traffic.columns["nbytes"] >= 0).all()
    assert read > DAMAGED
    assert peak_rss_bytes() - before < MOST_NBYTES
    assert time.process_time() - began < 100


def test_without_msgpack_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hyperslab\[dask\]'"):
        _of(tmp_path, made.talk(SAID))


def _peak_from_now_on() -> int:
    """Have the largest size of this process begin anew (proc(5)); what it is now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_rss_bytes()


def test_a_name_that_says_it_is_long_takes_no_memory() -> None:
    """A map with a key of lists in lists, each of which says that it has many values."""
    values = 100_000
    list_of_many = b"\xdd" + struct.pack(">I", values)
    frame = b"\x81" + list_of_many * (values // len(list_of_many))
    before = _peak_from_now_on()
    assert said_in(frame) is None
    assert peak_rss_bytes() - before < MOST_NBYTES


def _damaged(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(changed))
        match draw.randrange(5):
            case 0:
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at : at + 8] = draw.choice((bytes(8), b"\xff" * 8, draw.randbytes(8)))
            case 2:
                del changed[at : at + draw.randrange(1, 200)]
            case 3:
                first = draw.randrange(len(changed))
                changed[at:at] = changed[first : first + draw.randrange(200)]
            case _:
                del changed[max(at, 24) :]
        if not changed:
            return bytes(changed)
    return bytes(changed)
