"""The comparison page: what stands in it, what it marks, what it warns of; read as a browser reads
it.
"""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hyperslab.driver.submission import Records
from hyperslab.report.compare import (
    answers,
    names_of,
    rows_of,
    show_ratio,
    warnings_of,
    write_comparison,
)
from hyperslab.report.failures import Failed
from hyperslab.report.summary import summarise
from hyperslab.report.thumbnail import COLUMNS, FILLS, LANES, Axis, thumbnail
from hyperslab.trace import Span, Trace

S = 10**9
HOSTILE = "</script><img src=x onerror=alert(1)> & 'quotes\""
FACTS = {
    "engine": "processes",
    "host": "n1",
    "processor": "fast",
    "system": "Linux",
    "command": "run",
}
PLAN = {
    "fingerprint": "f" * 64,
    "code": "c" * 64,
    "tasks": 2,
    "summary": {"sources": {"source": {"first": "a.nii"}}},
}
QUIET = {"cpus": 2, "others_share": 0.01, "stolen_share": 0.0}


def _span(
    slot: str,
    task: int,
    kind: str,
    start_s: float,
    end_s: float,
    nbytes: int = 0,
    lost: bool = False,
) -> Span:
    return Span(task, 0, slot, kind, round(start_s * S), round(end_s * S), nbytes, S // 10, 0, lost)


def _trace(compute_s: float = 4, startup_s: float = 1, **meta: Any) -> Trace:
    """Two slots: each reads for 1 s and computes, the second one writes for 1 s; then 1 s of
    nothing.
    """
    spans = [
        piece
        for n in range(2)
        for piece in (
            _span(f"h/w0/t{n}", n, "read", 10, 11, 1000),
            _span(f"h/w0/t{n}", n, "compute", 11, 11 + compute_s),
        )
    ]
    spans.append(_span("h/w0/t1", 1, "write", 11 + compute_s, 12 + compute_s, 500))
    times = {
        "start_ns": round((10 - startup_s) * S),
        "ready_ns": 10 * S,
        "end_ns": round((13 + compute_s) * S),
    }
    about = {"run": {"engine": "processes", "workers": 1, "threads": 2, "cpus": 2}, "load": QUIET}
    return Trace(
        spans, ["h/w0/t0", "h/w0/t1"], meta={**times, **about, "max_rss": {"h/w0": 10**8}, **meta}
    )


def _run(name: str, trace: Trace | None = None, **changes: Any) -> Records:
    trace = trace or _trace()
    known = Records(
        Path("/data") / name / ".hyperslab" / "run-0001",
        trace,
        summarise(trace),
        "title",
        FACTS,
        (),
        "done",
        PLAN,
    )
    return dataclasses.replace(known, **changes)


class _Page(HTMLParser):
    """Tags, and the text of every cell, heading and list item."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def row(self, label: str) -> list[str]:
        return next(
            cells
            for cells in (re.split(r"\n?\t", row) for row in self.texts["tr"])
            if cells[0] == label
        )


def _written(path: Path, *runs: Records) -> _Page:
    write_comparison(path, runs)
    return _Page(path.read_text(encoding="utf-8").replace("<td", "\t<td"))


def test_the_page_stands_alone_and_runs_nothing(tmp_path: Path) -> None:
    page = _written(
        tmp_path / "c.html", _run("a"), _run("b", title=HOSTILE, facts={**FACTS, HOSTILE: HOSTILE})
    )
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if {"src", "href", "srcset"} & set(attrs)]
    assert [path.name for path in tmp_path.iterdir()] == ["c.html"]
    assert page.row(HOSTILE) == [HOSTILE, "", HOSTILE]
    for n, picture in enumerate(re.findall(r"<svg.*?</svg>", (tmp_path / "c.html").read_text())):
        assert ET.fromstring(picture).find("{*}title") is not None, n


def test_every_number_stands_beside_its_ratio_to_the_first(tmp_path: Path) -> None:
    page = _written(tmp_path / "c.html", _run("a"), _run("b", _trace(compute_s=8, startup_s=0.5)))
    assert page.row("makespan") == ["makespan", "8.00 s", "11.5 s1.44 x"]
    assert page.row("start-up") == ["start-up", "1.00 s", "500 ms0.50 x"]
    assert page.row("compute") == ["compute", "8.00 s", "16.0 s2.00 x"]
    assert page.row("tasks") == ["tasks", "2", "21.00 x"]
    assert page.row("peak memory") == ["peak memory", "100 MB", "100 MB1.00 x"]
    assert {row.label for row in rows_of([_run("a")])} >= {
        "read",
        "write",
        "overhead",
        "idle",
        "throughput",
        "bytes moved",
    }


def test_what_differs_most_is_marked(tmp_path: Path) -> None:
    write_comparison(
        tmp_path / "c.html", [_run("a"), _run("b", _trace(compute_s=8, startup_s=0.5))]
    )
    text = (tmp_path / "c.html").read_text()
    assert re.findall(r"<tr class=most><th>(.*?)</th>", text) == ["compute"]
    marks = dict(
        re.findall(r"<tr[^>]*><th>([\w -]+)</th>.*?<span(.*?)>[^<]*</span></td></tr>", text)
    )
    assert "230, 159, 0" in marks["compute"], "more"
    assert "0, 114, 178" in marks["start-up"], "less"
    assert marks["read"] == marks["tasks"] == "", "the same"


def test_small_differences_and_trifles_are_not_marked(tmp_path: Path) -> None:
    longer = _trace(compute_s=4.1)
    longer.spans[0] = dataclasses.replace(
        longer.spans[0], kind="other", end_ns=longer.spans[0].start_ns + S // 100
    )
    write_comparison(tmp_path / "c.html", [_run("a"), _run("b", longer)])
    marks = dict(
        re.findall(
            r"<th>([\w -]+)</th>.*?<span(.*?)>[^<]*</span></td></tr>",
            (tmp_path / "c.html").read_text(),
        )
    )
    assert marks["compute"] == "", "2.5 % more"
    assert marks["other"] == "", "new, but 10 ms"


def test_the_answer_names_times_and_the_largest_change() -> None:
    told = list(
        answers(
            [_run("a"), _run("b", _trace(compute_s=8)), _run("c", _trace(compute_s=4.2)), _run("d")]
        )
    )
    assert told == [
        (
            "B took 1.50 x as long as A (12.0 s against 8.00 s); what differs most is computing,"
            " 8.00 s more."
        ),
        (
            "C took about as long as A (8.20 s against 8.00 s); what differs most is computing, 400"
            " ms more."
        ),
        "D took about as long as A (8.00 s against 8.00 s).",
    ]
    assert [show_ratio(r) for r in (1.0, 0.5, 0.0123, 0.0, 1234.5)] == [
        "1.00 x",
        "0.50 x",
        "0.012 x",
        "0.00 x",
        "1234.50 x",
    ]


def test_every_run_has_its_verdict_and_how_it_ended(tmp_path: Path) -> None:
    failed = _run("b", failures=(Failed(HOSTILE, "Error", "why", 1),), state="failed")
    page = _written(tmp_path / "c.html", _run("a"), failed)
    assert [text[1:] for text in page.texts["h2"] if text[:1] in "AB" and len(text) == 2] == [
        "a",
        "b",
    ]
    assert sum("tasks failed: why" in text for text in page.texts["p"]) == 1
    assert page.texts["dt"].count("Cause") == 2
    assert sum("some tasks failed" in text for text in page.texts["p"]) == 1


def test_runs_that_are_alike_need_no_warning(tmp_path: Path) -> None:
    assert list(warnings_of([_run("a"), _run("b", _trace(compute_s=9))])) == []
    assert (
        "Before you compare" not in _written(tmp_path / "c.html", _run("a"), _run("b")).texts["h2"]
    )


@pytest.mark.parametrize(
    ("changes", "meta", "said"),
    [
        ({"plan": {**PLAN, "fingerprint": "e" * 64}}, {}, "plans differ, .*A ffffffff, B eee"),
        ({"plan": {**PLAN, "code": "d" * 64}}, {}, "code of the functions differs"),
        ({"plan": {**PLAN, "summary": {"sources": {}}}}, {}, "read different sources"),
        ({"facts": {**FACTS, "host": "n2"}}, {}, "machines differ in their host: A n1, B n2"),
        (
            {"facts": {**FACTS, "processor": "slow"}},
            {},
            "machines differ in their processor: A fast, B slow",
        ),
        ({}, {"run": {"cpus": 4}}, "different numbers of processors: A 2, B 4"),
        (
            {},
            {"load": {**QUIET, "others_share": 0.4}},
            "load differs: other programs took .* A 1.0 %, B 40 %",
        ),
        (
            {},
            {"load": {**QUIET, "stolen_share": 0.3}},
            "other virtual machines took .* A 0 %, B 30 %",
        ),
        ({}, {"load": {}}, "load on the machine during B is not known"),
        ({"state": "stopped"}, {}, "Not every run did all of its work: A done, B stopped"),
    ],
)
def test_what_makes_numbers_incomparable_is_said(
    tmp_path: Path, changes: Mapping[str, Any], meta: Mapping[str, Any], said: str
) -> None:
    runs = _run("a"), _run("b", _trace(**meta), **changes)
    (warning,) = warnings_of(runs)
    assert re.search(said, warning)
    page = _written(tmp_path / "c.html", *runs)
    assert warning in page.texts["li"]


def test_predicted_runs_and_other_numbers_of_tasks_are_told_apart() -> None:
    trace = _trace()
    trace.origin = "predicted"
    del trace.spans[2:]
    predicted = _run("b", Trace(trace.spans, trace.slots, "predicted", trace.meta))
    told = list(warnings_of([_run("a"), predicted]))
    assert told == [
        "Some runs are predicted, others measured: A measured, B predicted.",
        "The runs ran different numbers of tasks: A 2, B 1.",
    ]


def test_only_facts_that_differ_are_listed(tmp_path: Path) -> None:
    page = _written(tmp_path / "c.html", _run("a"), _run("b", facts={**FACTS, "engine": "threads"}))
    listed = page.texts["tbody"][-1]
    assert page.row("engine") == ["engine", "processes", "threads"]
    assert "Linux" not in listed
    assert "fast" not in listed


def test_names_are_as_short_as_tells_them_apart() -> None:
    def folder(*parts: str) -> Path:
        return Path("/data", *parts)

    record = (".hyperslab", "run-0001")
    assert names_of([folder("a", *record), folder("b", *record)]) == ["a", "b"]
    assert names_of([folder("x", "a", *record), folder("y", "a", *record)]) == ["x/a", "y/a"]
    again = (".hyperslab", "run-0002")
    assert names_of([folder("a", *record), folder("a", *again)]) == ["run-0001", "run-0002"]
    assert names_of([folder("a", *record), folder("a", *again), folder("b", *record)]) == [
        "a/run-0001",
        "a/run-0002",
        "b/run-0001",
    ]
    assert names_of([folder("a", *record), folder("a", *record)]) == [
        "run-0001 (1)",
        "run-0001 (2)",
    ]


def test_one_run_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two runs or more, not 1"):
        write_comparison(tmp_path / "c.html", [_run("a")])


def _strokes(picture: str) -> dict[str, list[tuple[str, float, list[tuple[int, float, int]]]]]:
    """Per kind: colour, opacity and (x, y, length) of every stroke."""
    found: dict[str, list[tuple[str, float, list[tuple[int, float, int]]]]] = {}
    for path in ET.fromstring(picture).findall(".//{*}path"):
        if kind := path.get("class"):
            moves = re.findall(r"M(\d+) ([\d.]+)h(\d+)", path.get("d", ""))
            strokes = [(int(x), float(y), int(length)) for x, y, length in moves]
            found.setdefault(kind, []).append(
                (path.get("stroke", ""), float(path.get("stroke-opacity", "0")), strokes)
            )
    return found


def test_the_picture_has_every_phase_where_it_was() -> None:
    trace = _trace(startup_s=2)
    strokes = _strokes(thumbnail(trace, Axis([trace]), "a"))
    scale = COLUMNS / 9  # 2 s of start-up, 7 s of run
    for kind, first_s, last_s, lanes in (
        ("read", 0, 1, 2),
        ("compute", 1, 5, 2),
        ("write", 5, 6, 1),
    ):
        solid = [
            stroke for colour, opacity, each in strokes[kind] for stroke in each if opacity == 1
        ]
        assert {colour for colour, _, _ in strokes[kind]} == {FILLS[kind]}
        assert len(solid) == lanes
        for x, _, length in solid:
            assert abs(x - (2 + first_s) * scale) <= 1
            assert abs(x + length - (2 + last_s) * scale) <= 1


def test_runs_share_one_axis() -> None:
    short, long = _trace(compute_s=1), _trace(compute_s=15, startup_s=3)
    axis = Axis([short, long])
    assert (axis.low, axis.high) == (-3.0, 18.0)
    begins = [
        min(x for _, _, each in _strokes(thumbnail(t, axis, "n"))["read"] for x, _, _ in each)
        for t in (short, long)
    ]
    assert begins[0] == begins[1]


def test_lost_attempts_and_short_spans_stay_visible() -> None:
    spans = [
        _span("h/w0/t0", 0, "read", 0, 1, lost=True),
        _span("h/w0/t0", 1, "other", 500, 500.001),
    ]
    trace = Trace(spans, ["h/w0/t0"], meta={"start_ns": 0, "ready_ns": 0, "end_ns": 1000 * S})
    strokes = _strokes(thumbnail(trace, Axis([trace]), "a"))
    assert [colour for colour, _, _ in strokes["lost"]] == [FILLS["lost attempt"]] * len(
        strokes["lost"]
    )
    assert [opacity for _, opacity, _ in strokes["other"]] == [0.35]


def test_many_slots_are_thinned_and_a_run_without_spans_is_drawn() -> None:
    slots = [f"h/w{n}/t0" for n in range(3 * LANES)]
    trace = Trace([_span(slot, n, "read", 0, 1) for n, slot in enumerate(slots)], slots)
    picture = thumbnail(trace, Axis([trace]), "many")
    assert "192 slots, one in 3 drawn" in picture
    assert sum(len(each) for _, _, each in _strokes(picture)["read"]) == LANES
    empty = Trace([], ["h/w0/t0"])
    assert _strokes(thumbnail(empty, Axis([empty]), "none")) == {}
