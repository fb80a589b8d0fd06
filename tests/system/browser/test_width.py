"""Pages on a phone and on a desk: nothing is cut off or wider than the page, whatever the names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.repetitions import each_value, few
from tests.system.browser.conftest import Open
from tests.system.browser.pages import compare, made_trace, write

PAGES: dict[str, Callable[[Path], Path]] = {
    "run": lambda folder: write(folder / "run.html", made_trace(30, 4)),
    "comparison": lambda folder: compare(folder / "comparison.html", 3),
}
# Elements that hold more than they show, but for what is meant to be scrolled down.
CUT_OFF = """() => [...document.querySelectorAll("body *")]
  .filter((each) => getComputedStyle(each).overflowX != "visible")
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.tagName}.${each.className}: ${each.scrollWidth} > ${each.clientWidth}`)"""
BROKEN = """() => [...document.querySelectorAll(".flag")]
  .filter((each) => each.getBoundingClientRect().height > 1.6 * parseFloat(
    getComputedStyle(each).lineHeight))
  .map((each) => each.textContent)"""
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@each_value("every page, and both widths")
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_everything_is_in_the_page(browser: Browser, tmp_path: Path, name: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(PAGES[name](tmp_path).as_uri())
    for each in page.locator("details").all():
        each.evaluate("(each) => { each.open = true }")
    scrolled, shown = page.evaluate(WIDTHS)
    assert scrolled <= shown == width
    assert page.evaluate(CUT_OFF) == []
    assert page.locator(".flag").count() > 1
    assert page.evaluate(BROKEN) == []
    context.close()


WIDTHS_OF_A_WINDOW = [400, 1280]


@pytest.mark.parametrize("width", few([400], WIDTHS_OF_A_WINDOW, "inside where there is less room"))
def test_numbers_of_a_bar_stand_beside_it_inside_the_window(
    visit: Open, tmp_path: Path, width: int
) -> None:
    """Of bars at the left and the right edge, as the window ends just below and above them."""
    trace = made_trace(30, 4)
    trace.meta["labels"] = [f"/data/{'long_name' * 9}.nii[{n}]" for n in range(30)]
    open_page = visit(write(tmp_path / "report.html", trace), width=width)
    open_page.page.set_viewport_size({"width": width, "height": 420})
    for task in (0, 29):
        for place in ("start", "end"):
            to = "(to) => document.getElementById('gantt').scrollIntoView({block: to})"
            open_page.page.evaluate(to, place)
            open_page.settle()
            x, y = open_page.page.evaluate(BAR, [task])
            open_page.point_at(x, y)
            tip = open_page.page.locator(".tip").bounding_box()
            assert tip is not None
            assert tip["width"] > 100
            assert tip["x"] >= 0
            assert tip["x"] + tip["width"] <= width
            assert tip["y"] >= 0
            assert tip["y"] + tip["height"] <= 420
            covers_x = tip["x"] <= x <= tip["x"] + tip["width"]
            covers_y = tip["y"] <= y <= tip["y"] + tip["height"]
            assert not (covers_x and covers_y), (task, place)


BAR = """([task]) => {
  const {gantt} = charts
  const {left, right, lane, task: tasks} = gantt.bars.find((bars) => bars.name == "compute")
  const i = tasks.indexOf(task), at = gantt.plot.getBoundingClientRect()
  return [at.left + gantt.x((left[i] + right[i]) / 2), at.top + gantt.y(lane[i])]
}"""
