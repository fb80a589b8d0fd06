"""The report in a real browser: drawn, alone, and answering to the mouse."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hyperslab.report.gantt import COLOURS, LOST_COLOUR
from hyperslab.report.pictures import Made
from hyperslab.report.slices import png
from hyperslab.trace import Span
from tests.repetitions import few
from tests.system.browser.conftest import Open
from tests.system.browser.pages import KINDS, MS, made_trace, write
from tests.system.browser.visit import coloured, count
from tests.system.end_to_end.command import BRAIN, succeed
from tests.system.faults.command import await_that

HOSTILE = "</script><img src=x onerror=alert(1)> & 'quotes\""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("small") / "report.html", made_trace(30, 4))


def test_every_chart_is_drawn(visit: Open, small: Path) -> None:
    open_page = visit(small)
    gantt, running, rates = (
        open_page.pixels(element) for element in ("#gantt", "#running", "#throughput")
    )
    for kind in KINDS:
        assert count(gantt, COLOURS[kind]) > 2000, kind
        assert count(running, COLOURS[kind]) > 2000, kind
    assert count(rates, COLOURS["read"]) > 200
    assert count(rates, COLOURS["write"]) > 200
    assert count(open_page.pixels("svg"), COLOURS["compute"]) > 100


def test_pictures_are_loaded_when_they_are_looked_at(visit: Open, tmp_path: Path) -> None:
    name = "sub 1.png"
    (tmp_path / name).write_bytes(png(np.full((16, 48), 200, np.uint8)))
    made = [Made(f"task {n}", name, f"sub%201.png?{n}") for n in range(1000)]
    open_page = visit(write(tmp_path / "report.html", made_trace(3, 2), made))

    def requested() -> list[str]:
        return [url for url in open_page.requests if ".png" in url]

    assert len(requested()) < 500
    last = open_page.page.locator("img").last
    assert not last.evaluate("image => image.complete && image.naturalWidth")
    last.scroll_into_view_if_needed()
    await_that("the last picture", lambda: last.evaluate("image => image.naturalWidth") == 48)
    assert len(requested()) < 1000
    pictures = requested()
    others = [url for url in open_page.requests if url not in pictures]
    open_page.requests[:] = others  # which alone the end of every visit looks at


def test_a_click_highlights_every_phase_of_one_block_and_another_click_ends_it(
    visit: Open, small: Path
) -> None:
    open_page = visit(small)
    before = open_page.pixels("#gantt")
    open_page.click(*open_page.bar("compute", 7))
    assert open_page.picked() == {"read": [7], "compute": [7], "write": [7]}
    picked = open_page.pixels("#gantt")
    for kind in KINDS:
        assert 50 < count(picked, COLOURS[kind]) < count(before, COLOURS[kind]) / 5, (
            "the other 29 have faded"
        )
    said = open_page.page.inner_text("#picked")
    assert said.startswith("brain.nii[7:8]: read ")
    x, y = open_page.bar("read", 0)
    box = open_page.box("#gantt")
    lanes_below = open_page.bar("read", 2)[1] + (
        open_page.bar("read", 2)[1] - open_page.bar("read", 1)[1]
    )
    open_page.click(x, lanes_below)
    assert box["y"] < lanes_below < box["y"] + box["height"], (
        "the lane of the slot that was never used"
    )
    assert open_page.picked() == {kind: [] for kind in KINDS}
    assert open_page.page.inner_text("#picked") == ""
    for kind in KINDS:
        assert count(open_page.pixels("#gantt"), COLOURS[kind]) > count(picked, COLOURS[kind]) * 5
    open_page.click(x, y)
    assert open_page.picked() == {kind: [0] for kind in KINDS}


def test_lost_attempts_are_in_sight_and_part_of_their_block(visit: Open, tmp_path: Path) -> None:
    trace = made_trace(6, 3)
    trace.spans.append(Span(1, 1, trace.slots[2], "read", 0, 400 * MS, 0, 0, 0, lost=True))
    open_page = visit(write(tmp_path / "report.html", trace))
    before = count(open_page.pixels("#gantt"), LOST_COLOUR)
    assert before > 500
    open_page.click(*open_page.bar("read (lost attempt)", 1))
    assert open_page.picked() == {kind: [1] for kind in (*KINDS, "read (lost attempt)")}
    open_page.click(*open_page.bar("read", 0))
    assert open_page.picked()["read (lost attempt)"] == []
    assert count(open_page.pixels("#gantt"), LOST_COLOUR) < before / 5, (
        "what holds nothing of the block fades, too"
    )


def test_hovering_names_the_block_and_its_bytes(visit: Open, small: Path) -> None:
    open_page = visit(small)
    open_page.point_at(*open_page.bar("read", 4))
    open_page.page.get_by_text("4: brain.nii[4:5]").wait_for()
    open_page.page.locator(".tip dd", has_text=re.compile(r"^[\d.]+ MB$")).wait_for()


def test_names_from_outside_stay_text(visit: Open, tmp_path: Path) -> None:
    trace = made_trace(3, 2)
    trace.meta["labels"] = [HOSTILE] * 3
    open_page = visit(write(tmp_path / "report.html", trace))
    place = open_page.bar("read", 1)
    open_page.point_at(*place)
    open_page.page.get_by_text(f"1: {HOSTILE}").wait_for()
    open_page.click(*place)
    assert open_page.page.inner_text("#picked").startswith(HOSTILE)
    assert open_page.page.locator("img").count() == 0


def test_zooming_into_one_chart_zooms_all(visit: Open, small: Path) -> None:
    open_page = visit(small)
    before = open_page.range()
    box = open_page.box("#running")
    middle = box["x"] + box["width"] / 2
    open_page.page.mouse.move(middle, box["y"] + 60)
    open_page.page.mouse.down()
    open_page.page.mouse.move(middle + 120, box["y"] + 90, steps=5)
    open_page.page.mouse.up()
    open_page.settle()
    shown = open_page.range()
    assert shown[1] - shown[0] < (before[1] - before[0]) / 3
    open_page.page.get_by_role("button", name="reset").click()
    open_page.settle()
    assert open_page.range() == before


def test_names_in_the_legend_hide_their_bars_and_tools_do_what_they_say(
    visit: Open, small: Path
) -> None:
    open_page = visit(small)
    button = open_page.page.get_by_role("button", name="compute", exact=True)
    button.click()
    open_page.settle()
    assert count(open_page.pixels("#gantt .plot"), COLOURS["compute"]) == 0
    assert button.get_attribute("aria-pressed") == "false"
    before = open_page.range()
    open_page.page.get_by_role("button", name="wheel").click()
    open_page.point_at(*open_page.bar("write", 3))
    open_page.page.mouse.wheel(0, -300)
    open_page.settle()
    zoomed = open_page.range()
    assert before[0] < zoomed[0] < zoomed[1] < before[1]
    open_page.page.get_by_role("button", name="move").click()
    x, y = open_page.bar("write", 3)
    open_page.page.mouse.move(x, y)
    open_page.page.mouse.down()
    open_page.page.mouse.move(x + 30, y, steps=3)
    open_page.page.mouse.up()
    open_page.settle()
    assert open_page.bar("write", 3)[0] == pytest.approx(x + 30, abs=1)
    assert set(open_page.picked()["write"]) == set(), "a drag picks nothing"


def test_it_fits_a_phone_and_leaves_the_finger_its_way(visit: Open, small: Path) -> None:
    open_page = visit(small, width=390, touch=True)
    assert open_page.page.evaluate("document.documentElement.scrollWidth") <= 390
    box = open_page.box("#gantt")
    assert open_page.page.evaluate("charts.view.tool") == ""
    assert open_page.page.evaluate("charts.gantt.cover.style.touchAction") == "auto"
    assert box["width"] <= 390
    x, y = open_page.bar("read", 0)
    open_page.page.touchscreen.tap(x, y)
    open_page.settle()
    assert open_page.picked()["write"] == [0]


CROWDS = [(8_333, 17), (33_333, 65)]
"Tasks and slots; of the second ones there are 100,000 spans, as many as are drawn."


@pytest.mark.parametrize(
    ("number", "slots"), few(CROWDS[:1], CROWDS, "a page of many spans, as many to a slot")
)
def test_a_page_of_many_spans_loads_and_answers(
    visit: Open, tmp_path: Path, number: int, slots: int
) -> None:
    trace = made_trace(number, slots)
    trace.spans.append(Span(7, 1, trace.slots[-1], "read", 0, MS, 0, 0, 0, lost=True))
    assert len(trace.spans) == 3 * number + 1
    path = write(tmp_path / "report.html", trace)
    assert path.stat().st_size < 100 * len(trace.spans)
    open_page = visit(path)
    assert coloured(open_page.pixels("#gantt")) > 0.3, "bars thinner than a pixel mix their colours"
    open_page.click(*open_page.bar("compute", number * 3 // 5))
    tasks = {task for picked in open_page.picked().values() for task in picked}
    assert len(tasks) == 1
    assert sorted(kind for kind, picked in open_page.picked().items() if picked) == sorted(KINDS)
    assert coloured(open_page.pixels("#gantt")) < 0.05


def test_the_report_of_a_real_run_opens(visit: Open, tmp_path: Path) -> None:
    succeed(
        "run",
        "increment",
        BRAIN,
        "-o",
        tmp_path / "out",
        "--blocks",
        "2x2x2",
        "--engine",
        "threads",
        "-q",
    )
    (page,) = (tmp_path / "out").rglob("report.html")
    open_page = visit(page)
    assert count(open_page.pixels("#gantt"), COLOURS["read"]) > 1000
    assert "increment: map" in open_page.page.locator("svg title").all_text_contents()
    assert open_page.page.inner_text(".answer")
