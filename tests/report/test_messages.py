"""Messages are counted once, whichever of their ends have seen them, and add up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperslab.report.messages.chart import LEFT, WIDTH, rates_svg
from hyperslab.report.messages.numbers import MOST_STEPS, Spread, numbers_of
from hyperslab.report.messages.page import NODES_SHOWN, messages_html, messages_line
from hyperslab.traffic import ACK, Conversation, Kind, Message, Traffic, said_by
from tests.report.made_traces import S, span, trace

NODES = {"a:1": "scheduler", "b:2": "worker 0", "c:3": "worker 1"}


def _said(
    time_s: float, source: str, target: str, name: str, nbytes: int, kind: Kind = "sent"
) -> Message:
    return Message(round(time_s * S), source, target, ((name, 1),), nbytes, kind)


def _traffic(*messages: Message) -> Traffic:
    return Traffic.of(messages, meta={"nodes": NODES})


def test_what_both_ends_have_seen_counts_once() -> None:
    numbers = numbers_of(
        _traffic(
            _said(1, "b:2", "a:1", "x", 100),
            _said(1.1, "b:2", "a:1", "x", 100, "received"),
            _said(2, "a:1", "b:2", "reply:x", 50, "received"),
            _said(3, "c:3", "a:1", "y", 7),
            _said(3.1, "c:3", "a:1", "y", 7, "received"),
            _said(3.2, "c:3", "a:1", "z", 8, "received"),
        )
    )
    counts = {one.name: (one.count, one.nbytes) for one in numbers.operations}
    assert counts == {"x": (1, 100), "reply:x": (1, 50), "y": (1, 7), "z": (1, 8)}
    assert numbers.messages == 4
    assert numbers.nbytes == 165
    assert [(one.source, one.target, one.nbytes) for one in numbers.pairs] == [
        ("scheduler", "worker 0", 50),
        ("worker 0", "scheduler", 100),
        ("worker 1", "scheduler", 15),
    ]


def test_an_answer_is_called_as_the_end_that_asked_calls_it() -> None:
    """A recorder that began while its process waited for a question has not seen this one."""
    numbers = numbers_of(
        _traffic(
            _said(1, "a:1", "b:2", "reply:unknown", 90),
            _said(1.1, "a:1", "b:2", "reply:x", 90, "received"),
            _said(2, "a:1", "b:2", "reply:y", 9),
            _said(2.1, "a:1", "b:2", "reply:y", 9, "received"),
        )
    )
    counts = {one.name: (one.count, one.nbytes) for one in numbers.operations}
    assert counts == {"reply:x": (1, 90), "reply:y": (1, 9)}


def test_bytes_by_second_and_node() -> None:
    numbers = numbers_of(
        _traffic(
            _said(10.2, "b:2", "a:1", "x", 100),
            _said(11.1, "b:2", "a:1", "x", 10),
            _said(11.3, "b:2", "a:1", "x", 5),
            _said(13.3, "a:1", "c:3", "x", 1),
        )
    )
    by_node = {node.name: node for node in numbers.nodes}
    assert by_node["worker 0"].sent_by_step == (110, 5, 0, 0)
    assert by_node["scheduler"].received_by_step == (110, 5, 0, 0)
    assert by_node["scheduler"].sent_by_step == (0, 0, 0, 1)
    assert numbers.seconds == pytest.approx(3.1)
    assert [(size.below_nbytes, size.messages) for size in numbers.sizes] == [
        (2, 1),
        (8, 1),
        (16, 1),
        (128, 1),
    ]


def test_a_year_between_two_messages_is_few_steps() -> None:
    numbers = numbers_of(
        _traffic(_said(0, "b:2", "a:1", "x", 3), _said(365 * 86400, "b:2", "a:1", "x", 4))
    )
    assert numbers.step_s > 300
    assert all(len(node.sent_by_step) <= MOST_STEPS for node in numbers.nodes)
    assert sum(sum(node.sent_by_step) for node in numbers.nodes) == 7


def test_heartbeats() -> None:
    beats = [_said(1 + 0.5 * n, "b:2", "a:1", "heartbeat_worker", 600 + n) for n in range(3)]
    answers = [_said(1.1 + 0.5 * n, "a:1", "b:2", "reply:heartbeat_worker", 77) for n in range(3)]
    (beat,) = numbers_of(_traffic(*beats, *answers)).heartbeats
    assert (beat.node, beat.count) == ("worker 0", 3)
    assert beat.interval_s == Spread(0.5, 0.5, 0.5)
    assert beat.request_nbytes == Spread(601, 600, 602)
    assert beat.reply_nbytes == Spread(77, 77, 77)


def test_what_messages_name() -> None:
    assert said_by({"op": "get_data", "keys": ()}) == ("get_data",)
    assert said_by([{"op": "a"}, {"op": "b"}, "c"]) == ("a", "b")
    assert said_by("OK") == (ACK,)
    assert said_by({"status": "OK"}) == said_by(None) == said_by(7) == said_by([]) == ()


def test_answers_are_called_after_what_was_asked() -> None:
    talk = Conversation()
    assert talk.named((), False) == (("reply:unknown", 1),)
    assert talk.named(("get_data",), True) == (("get_data", 1),)
    assert talk.named((), False) == (("reply:get_data", 1),)
    assert talk.named((ACK,), True) == ((ACK, 1),)
    assert talk.named(("identity",), True) == (("identity", 1),)
    assert talk.named((ACK,), False) == (("reply:identity", 1),)
    assert talk.named(("a", "b", "a"), True) == (("a", 2), ("b", 1))


@pytest.mark.parametrize("nbytes", [0, 1, 5, 1000, 2**50 + 1])
def test_bytes_of_a_batch_add_up(nbytes: int) -> None:
    operations = (("a", 3), ("b", 1), ("c", 100_007))
    columns = _traffic(Message(1, "a:1", "b:2", operations, nbytes, "sent")).columns
    assert columns["count"].tolist() == [3, 1, 100_007]
    assert columns["nbytes"].tolist() == [
        nbytes * 3 // 100_011,
        nbytes * 4 // 100_011 - nbytes * 3 // 100_011,
        nbytes - nbytes * 4 // 100_011,
    ]


def test_the_file_holds_all(tmp_path: Path) -> None:
    batch = Message(5, "b:2", "é:1", (("a", 2), ("b", 1)), 10, "received")
    traffic = Traffic.of([batch, _said(1, "a:1", "b:2", "x", 1)], meta={"nodes": NODES})
    traffic.save(tmp_path / "m.parquet")
    loaded = Traffic.load(tmp_path / "m.parquet")
    assert numbers_of(loaded) == numbers_of(traffic)
    assert loaded.meta == traffic.meta
    assert loaded.columns["is_sent"].tolist() == [False, False, True]
    assert loaded.columns["nbytes"].tolist() == [6, 4, 1]
    assert len(loaded) == 2


def test_the_section_of_the_page() -> None:
    """Of more nodes than fit, the busiest."""
    made = trace([span("h/w0/t0", 0, "compute", 0, 1)])
    assert messages_html(None, made) == ""
    assert "There were none." in messages_html(_traffic(), made)
    crowd = [_said(1, f"<n{n}>:1", "a:1", "<op>", n + 1) for n in range(NODES_SHOWN + 5)]
    page = messages_html(_traffic(*crowd), made)
    assert f"The {NODES_SHOWN} busiest of {NODES_SHOWN + 6} nodes." in page
    assert "<op>" not in page
    assert "&lt;op&gt;" in page
    assert "&lt;n1&gt;" not in page
    assert messages_line(numbers_of(_traffic())) == "0 messages, 0 B"


TALK = (
    _said(10.2, "a:1", "b:2", "compute-task", 600),
    _said(10.4, "b:2", "a:1", "heartbeat_worker", 630),
    _said(10.5, "a:1", "b:2", "reply:heartbeat_worker", 77),
    _said(10.9, "b:2", "a:1", "heartbeat_worker", 650),
    _said(11.0, "a:1", "b:2", "reply:heartbeat_worker", 77),
    _said(12.0, "c:3", "b:2", "reply:get_data", 2_000_000),
)
"A computation of which one worker fetches a value from another one."
FETCHED = {"start_ns": 11 * S, "end_ns": 12 * S, "source": "c:3", "target": "b:2"}


def test_the_page_has_every_number_of_the_messages() -> None:
    """Pairs, operations, sizes and heartbeats as tables, and transfers on the axis of the tasks."""
    told = {"nodes": NODES, "transfers": [{**FETCHED, "nbytes": 1_999_000, "keys": ["x-1"]}]}
    anchor = {"time_ns": 10 * S, "monotonic_ns": 0}
    made = trace([span("w0/t0", 0, "compute", 0.0, 4.0)], wall_anchor=anchor)
    page = messages_html(Traffic.of(TALK, meta=told), made)
    parts = {part.partition("</h2>")[0]: part for part in page.split("<h2>")}
    pairs = _rows(parts["Who sent to whom"])
    assert pairs == [
        ["", "scheduler", "worker 0", "worker 1"],
        ["scheduler", "", "754 B", ""],
        ["worker 0", "1.28 kB", "", ""],
        ["worker 1", "", "2.00 MB", ""],
    ]
    operations = {row[0]: row[1:] for row in _rows(parts["Operations"])}
    assert operations["heartbeat_worker"] == ["2", "33 %", "1.28 kB", "0.064 %"]
    assert operations["reply:get_data"] == ["1", "17 %", "2.00 MB", "100 %"]
    sizes = {row[0]: row[1] for row in _rows(parts["Sizes of messages"])}
    assert sizes == {"": "messages", "below 128 B": "2", "below 1.02 kB": "3", "below 2.10 MB": "1"}
    beats = _rows(parts["Heartbeats"])[1]
    assert beats[:3] == ["worker 0", "heartbeat_worker", "2"]
    assert beats[3:] == [
        "500 ms (500 ms to 500 ms)",
        "640 B (630 B to 650 B)",
        "77 B (77 B to 77 B)",
    ]
    transfers = parts["Values that workers fetched from each other"]
    assert _rows(transfers)[1] == ["worker 0", "worker 1", "2.00 MB", "1.00 s", "x-1"]
    (bar,) = re.findall(r'<rect x="([\d.]+)" [^>]*width="([\d.]+)"', transfers)
    left, width = map(float, bar)
    whole = WIDTH - LEFT
    assert (left - LEFT) / whole == pytest.approx(0.25, abs=1e-3), "a second after the first task"
    assert width / whole == pytest.approx(0.25, abs=1e-3), "of the four of the tasks"


def _rows(part: str) -> list[list[str]]:
    """Texts of the cells of a table."""
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_bars_stay_in_their_lane() -> None:
    numbers = numbers_of(
        _traffic(_said(0, "b:2", "a:1", "x", 10**9), _said(900, "c:3", "a:1", "x", 1))
    )
    chart = rates_svg(numbers.nodes, 0.0, numbers.step_s)
    heights = [float(found) for found in re.findall(r"v-?([\d.]+)h", chart)]
    assert heights
    assert max(heights) == pytest.approx(17.0)
