"""The page, the Gantt chart and the picture: what a browser would find in them."""

from __future__ import annotations

import base64
import json
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hyperslab.report.failures import Failed, failures_html, grouped
from hyperslab.report.gantt import gantt
from hyperslab.report.html import write_page
from hyperslab.report.measures import headline
from hyperslab.report.picture import BOTTOM, EMPTY, HEIGHT, TOP, histogram_svg
from hyperslab.report.prose import WORDS
from hyperslab.report.slowest import short_label, slowest
from hyperslab.report.summary import summarise
from hyperslab.report.verdict import judge
from hyperslab.trace import NO_TASK, Span, Trace

S = 10**9
HOSTILE = "</script><img src=x onerror=alert(1)> & 'quotes\""


def _trace() -> Trace:
    spans = [
        Span(0, 0, "n/w0/t0", "read", 2 * S, 3 * S, 4096, S // 2, S // 10),
        Span(0, 0, "n/w0/t0", "compute", 3 * S, 5 * S, 0, 2 * S, 0),
        Span(1, 0, "n/w1/t0", "read", 2 * S, 4 * S, 4096, S, -1, lost=True),
    ]
    meta = {"start_ns": S, "ready_ns": 2 * S, "end_ns": 6 * S, "labels": [HOSTILE, "block 1"]}
    return Trace(spans, ["n/w0/t0", "n/w1/t0", "n/w2/t0"], meta=meta)


PLAN: dict[str, Any] = {
    "summary": {
        "sources": {
            "source": {
                "kind": "independent",
                "files": 3,
                "first": f"/data/{HOSTILE}",
                "shape": [4, 5],
            }
        },
        "steps": [{"function": f"module:{HOSTILE}", "params": {}}],
        "end": {"format": "nii", "keep": "blocks"},
    },
}


def _many(spans: int, slots: int) -> Trace:
    """Back-to-back spans with numbers that do not compress."""
    draw = random.Random(spans)
    names = [f"node{i // 16:02d}/w{i % 16}/t0" for i in range(slots)]
    now = dict.fromkeys(names, S)
    rows = []
    for i in range(spans):
        slot, length = names[i % slots], draw.randrange(10**5, 10**8)
        numbers = (draw.randrange(10**8), draw.randrange(length), draw.randrange(length))
        kind = ("read", "compute", "write")[i // slots % 3]
        rows.append(Span(i // 3, 0, slot, kind, now[slot], now[slot] + length, *numbers))
        now[slot] += length
    meta = {
        "start_ns": 0,
        "ready_ns": S,
        "end_ns": max(now.values()),
        "labels": [f"block {i}" for i in range(spans // 3)],
    }
    return Trace(rows, names, meta=meta)


class _Page(HTMLParser):
    """What a browser would load, show and run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def _written(path: Path, trace: Trace, failures: Sequence[Failed] = ()) -> _Page:
    facts, plan = (
        {"engine": "processes", HOSTILE: HOSTILE},
        PLAN | {"tasks": len(trace.meta["labels"])},
    )
    groups = grouped(failures)
    write_page(path, trace, summarise(trace), f"increment {HOSTILE}", facts, groups, plan)
    return _Page(path.read_text(encoding="utf-8"))


def test_words_of_the_trade_are_explained_wherever_they_stand(tmp_path: Path) -> None:
    """Tiles, heads of tables and hints, too: each word is explained somewhere on the page."""
    page = _written(tmp_path / "report.html", _trace())
    explained = {word.lower() for word in page.text_of("abbr")}
    assert {"makespan", "start-up", "throughput", "utilisation", "slot", "median"} <= explained
    unseen = ("script", "style", "title", "h1", "h2", "text")
    said = " ".join(text for tag, text in page.texts if tag not in unseen).lower()
    there = {word for word in WORDS if re.search(rf"(?<![\w-]){word.lower()}(?![\w-])", said)}
    assert {word.lower() for word in there} - explained == set()
    titles = [attributes.get("title") for tag, attributes in page.tags if tag == "abbr"]
    assert set(titles) <= set(WORDS.values())


def test_the_page_loads_nothing_from_anywhere(tmp_path: Path) -> None:
    page = _written(tmp_path / "report.html", _trace())
    loads = [
        attrs[name]
        for _, attrs in page.tags
        for name in ("src", "href", "srcset", "data")
        if name in attrs
    ]
    assert loads == []
    policy = [
        attrs["content"]
        for tag, attrs in page.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policy) == 1
    assert policy[0] is not None
    assert policy[0].startswith("default-src 'none'")
    assert "http" not in policy[0]
    assert not re.search(r"@import|url\(", "".join(page.text_of("style")))


def test_the_page_is_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    page = _written(path, _trace())
    assert page.open == []
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    write_page(path, _trace(), summarise(_trace()), "a name that is no text \udcff", {}, [])
    assert "a name that is no text \\udcff" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def _failed(text: str) -> Failed:
    """A task whose record holds this text wherever it may come from outside."""
    return Failed(text, text, text, 1, text, 1, text, text, text)


def test_equal_failures_are_one_row_with_their_line_and_traceback(tmp_path: Path) -> None:
    one = _failed("mine.py")
    others = [replace(one, task=f"b{number}.nii") for number in range(303)]
    page = _written(tmp_path / "report.html", _trace(), [one, *others])
    assert page.text_of("h2").count("304 failed tasks") == 1
    assert page.text_of("summary") == ["304 tasks, the first: mine.py", "traceback"]
    assert page.text_of("code") == ["mine.py:1, in mine.py: mine.py"]
    assert page.text_of("pre")[0].splitlines() == ["mine.py", *(each.task for each in others)]


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    page = _written(tmp_path / "report.html", _trace(), [_failed(HOSTILE)])
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.text_of("h1") == [f"increment {HOSTILE}"]
    assert page.text_of("title")[0] == f"increment {HOSTILE}"
    assert page.text_of("th").count(HOSTILE) == 2, "one failed task, one fact"
    assert page.text_of("td").count(HOSTILE) == 1
    assert page.text_of("td").count(f"{HOSTILE} (1 attempt)") == 1
    assert page.text_of("code") == [f"{HOSTILE}:1, in {HOSTILE}: {HOSTILE}"]
    assert page.text_of("pre") == [HOSTILE]
    assert json.loads(page.text_of("script")[0])["gantt"]["labels"] == [HOSTILE, "block 1"]
    assert f"{HOSTILE}: map" in page.text_of("title"), "a box of the task graph"


def test_the_page_answers_first_then_failures_charts_numbers_graph_and_facts(
    tmp_path: Path,
) -> None:
    trace = _trace()
    trace.meta |= {"max_rss": {"n/w0": 2_000_000, "n/w1": 9_000_000}}
    trace.meta["run"] = {
        "engine": "processes",
        "workers": 2,
        "threads": 1,
        "memory_nbytes": 8_000_000,
    }
    failed = Failed("block 1", "FormatError", "the file is truncated", 1)
    page = _written(tmp_path / "report.html", trace, [failed])
    about, answer = page.text_of("p")[:2]
    assert about.startswith("processes · 2 workers x 1 thread")
    assert answer == "1 of 2 tasks failed: the file is truncated"
    sound = _written(tmp_path / "sound.html", trace)
    assert sound.text_of("p")[1] == headline(summarise(trace))
    first = judge(trace, summarise(trace)).findings[0]
    told = {"Cause": first.sentence, "Evidence": first.evidence, "Remedy": first.advice}
    assert sound.text_of("dt") == [name for name in told if told[name]]
    assert page.text_of("dt") == [], "what failed matters more than what was slow"
    assert [heading for heading in page.text_of("h2") if heading != "What else was seen"] == [
        "1 failed task",
        "Every phase of every task",
        "Running tasks",
        "Throughput",
        "Where the time went",
        "Slowest tasks",
        "Task graph",
        "Memory",
        "Provenance",
    ]
    assert page.text_of("b")[:2] == ["5.00 s", "1.00 s"]
    assert "the file is truncated (1 attempt)" in page.text_of("td")
    assert "per slot, ready to the end of its last phase, less its busy time" in page.text_of("td")
    assert page.text_of("td").index("225 % of allowed") < page.text_of("td").index(
        "50 % of allowed"
    ), "largest first"


def test_sections_without_content_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, Trace([], []), summarise(Trace([], [])), "nothing", {}, [])
    charts = ["Every phase of every task", "Running tasks", "Throughput"]
    assert _Page(path.read_text(encoding="utf-8")).text_of("h2") == [
        *charts,
        "Where the time went",
        "Provenance",
    ]


def test_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(
        path,
        _trace(),
        summarise(_trace()),
        "increment",
        {"engine": "serial"},
        [],
        state="cancelled",
    )
    assert (
        _Page(path.read_text(encoding="utf-8")).text_of("p")[0]
        == "serial · cancelled before its end"
    )


def test_the_slowest_tasks_come_first_with_their_phases() -> None:
    spans = [Span(i, 0, "n/w0/t0", "read", i * S, i * S + S // 10, 0, 0, 0) for i in range(20)]
    spans.append(Span(7, 0, "n/w0/t0", "compute", 30 * S, 31 * S, 0, 0, 0))
    spans.append(Span(NO_TASK, 0, "n/w0/t0", "merge", 40 * S, 90 * S, 0, 0, 0))
    found = slowest(
        Trace(
            spans, ["n/w0/t0"], meta={"labels": [f"/a/b.h5::/d/e[{i}:{i + 1}]" for i in range(20)]}
        )
    )
    assert len(found) == 10
    assert (found[0].task, found[0].busy_s, found[0].phases_s) == (
        7,
        1.1,
        {"read": 0.1, "compute": 1.0},
    )
    assert found[0].times_usual == pytest.approx(11)
    assert short_label(found[0].label) == "b.h5::/d/e[7:8]"


def _bars(trace: Trace) -> dict[str, dict[str, Any]]:
    """The bars of each kind, columns as lists."""
    return {
        bars["name"]: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in bars.items()}
        for bars in gantt(trace)["bars"]
    }


def test_a_bar_per_span_in_the_lane_of_its_slot() -> None:
    bars = _bars(_trace())["read"]
    assert (bars["lane"], bars["left"], bars["right"]) == ([0], [0.0], [1.0])
    assert (bars["task"], bars["attempt"], bars["nbytes"]) == ([0], [0], [4096.0])
    assert (bars["cpu_ms"], bars["runq_ms"]) == ([500.0], [100.0])
    assert _bars(_trace())["compute"]["right"] == [3.0]


def test_the_page_holds_the_bars_bit_by_bit(tmp_path: Path) -> None:
    trace = _many(99, 3)
    page = _written(tmp_path / "report.html", trace)
    drawn = json.loads(page.text_of("script")[0])["gantt"]["bars"]
    for bars, given in zip(drawn, gantt(trace)["bars"], strict=True):
        for name in ("lane", "left", "right", "task", "attempt", "nbytes", "cpu_ms", "runq_ms"):
            dtype = np.dtype(bars[name]["dtype"]).newbyteorder("<")
            held = np.frombuffer(base64.b64decode(bars[name]["base64"]), dtype)
            np.testing.assert_array_equal(held, given[name])


def test_idle_slots_have_a_lane_and_startup_a_band() -> None:
    chart = gantt(_trace())
    assert chart["slots"] == ["n/w0/t0", "n/w1/t0", "n/w2/t0"]
    assert chart["startup_s"] == 1.0
    assert chart["start"] < -1.0
    assert chart["end"] > 4.0


def test_lost_attempts_have_bars_and_a_name_of_their_own() -> None:
    bars = _bars(_trace())
    lost = bars["read (lost attempt)"]
    assert (lost["is_lost"], bars["read"]["is_lost"]) == (True, False)
    assert lost["lane"] == [1]
    assert np.isnan(lost["runq_ms"][0]), "unknown, not -1"
    assert [each["legend"] for each in bars.values()] == ["read", "compute", "lost attempt"]


def test_more_spans_than_bars_are_shaded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2000
    monkeypatch.setattr("hyperslab.report.gantt.MAX_BARS", most)
    trace = _many(most + 5000, 7)
    chart = gantt(trace)
    lengths_s = np.concatenate([bars["right"] - bars["left"] for bars in chart["bars"]])
    assert lengths_s.size == most
    limit_ns = sorted((s.end_ns - s.start_ns for s in trace.spans), reverse=True)[most]
    assert lengths_s.min() >= limit_ns / 1e9 - 1e-9
    shades = chart["shades"]
    covered = np.zeros(7)
    np.add.at(covered, shades["lane"], shades["right"] - shades["left"])
    busy = list(summarise(trace).busy_by_slot_s.values())
    np.testing.assert_allclose(covered, busy)
    (note,) = chart["notes"]
    assert note.startswith("The 2,000 longest of 7,000 spans are drawn")


def test_task_names_that_would_bloat_the_page_are_left_out_and_said() -> None:
    trace = _trace()
    trace.meta["labels"] = ["x" * 600_000, "y" * 600_000]
    chart = gantt(trace)
    assert chart["labels"] == []
    assert "Task names are left out" in chart["notes"][0]


def test_the_page_of_a_small_run_is_light(tmp_path: Path) -> None:
    _written(tmp_path / "report.html", _many(300, 4))
    assert (tmp_path / "report.html").stat().st_size < 150_000


def test_the_page_of_a_run_of_a_second_is_light(tmp_path: Path) -> None:
    """1,000 tasks of three phases each, about as many as engines hand out in that time."""
    _written(tmp_path / "report.html", _many(3000, 4))
    assert (tmp_path / "report.html").stat().st_size < 400_000


def test_the_picture_in_the_documentation_is_light() -> None:
    picture = Path(__file__).parents[2] / "docs" / "report.png"
    assert picture.stat().st_size < 150_000


SVG = "{http://www.w3.org/2000/svg}"


def _steps(svg: str) -> npt.NDArray[np.float64]:
    """The heights of the steps as shares of the axis, read back from the drawn path."""
    path = ET.fromstring(svg).findall(f"{SVG}path")[-1].get("d") or ""
    y = np.array([float(v) for v in re.findall(r"V([\d.]+)H", path)])
    return (HEIGHT - BOTTOM - y) / (HEIGHT - TOP - BOTTOM)


def _texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_small_histogram_has_one_step_per_bin() -> None:
    svg = histogram_svg([0, 1, 2, 3, 4], [1, 5, 0, 2], "intensities", log=False)
    np.testing.assert_allclose(_steps(svg), np.array([1, 5, 0, 2]) / (5 * 1.05), atol=0.001)
    assert _texts(svg)[0] == "intensities"
    assert _texts(svg)[-1] == "8 values in 4 bins"
    assert {"0", "1", "2", "3", "4"} <= set(_texts(svg))


def test_a_logarithmic_axis_shows_a_count_of_one() -> None:
    svg = histogram_svg([0, 1, 2, 3], [1, 0, 100_000], "t")
    expected = np.log(np.array([1, EMPTY, 100_000]) / EMPTY) / np.log(105_000 / EMPTY)
    np.testing.assert_allclose(_steps(svg), expected, atol=0.001)
    assert _texts(svg)[1:7] == ["1", "10", "100", "10³", "10⁴", "10⁵"]


def test_65_536_bins_are_summed_for_display_and_said() -> None:
    counts = np.random.default_rng(7).integers(1, 10_000, 65_536)
    svg = histogram_svg(np.arange(65_537), counts, "uint16", log=False)
    sums = counts.reshape(512, 128).sum(axis=1)
    np.testing.assert_allclose(_steps(svg) * sums.max() * 1.05, sums, rtol=0.001)
    assert _texts(svg)[-1].endswith("in 65,536 bins; each step sums 128 bins")
    assert len(svg) < 30_000


def test_empty_ends_are_cut_and_said() -> None:
    counts = np.zeros(65_536, np.int64)
    counts[[10, 12]] = 3, 4
    svg = histogram_svg(np.arange(65_537), counts, "t", log=False)
    assert _steps(svg).size == 3
    assert _texts(svg)[-1] == "7 values in 65,536 bins; all lie between 10 and 13"


def test_a_histogram_of_nothing_is_drawn() -> None:
    assert _texts(histogram_svg([0, 1, 2], [0, 0], "t"))[-1] == "no values in 2 bins"


def test_negative_and_tiny_ranges_get_round_ticks() -> None:
    ticks = _texts(histogram_svg([-0.02, -0.01, 0.0, 0.01], [1, 2, 3], "t"))
    assert {"-0.02", "-0.01", "0", "0.01"} <= set(ticks)
    assert "-0" not in ticks


def test_titles_are_escaped_in_the_picture() -> None:
    assert _texts(histogram_svg([0, 1], [1], HOSTILE))[0] == HOSTILE


@pytest.mark.parametrize(
    ("edges", "counts", "message"),
    [
        ([0, 1, 2], [1], "a histogram of 1 bin needs 2 edges, not 3"),
        ([0], [], "a histogram of 0 bins needs 1 edge, not 1"),
        ([0, 0, 1], [1, 1], "finite and increase"),
        ([0, float("inf")], [1], "finite and increase"),
    ],
)
def test_a_histogram_that_cannot_be_drawn_is_refused(
    edges: list[float], counts: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        histogram_svg(edges, counts, "t")


def test_a_failed_file_is_named_once_in_its_row() -> None:
    one = Failed("a.nii.gz", "FormatError", "a.nii.gz: truncated: the data end too early", 1)
    page = failures_html(grouped([one]))
    assert page.count("a.nii.gz") == 1
