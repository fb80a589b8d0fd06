"""Visit: a report open in a browser, as its reader sees and touches it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from playwright.sync_api import ConsoleMessage, Page

from tests.system.faults.command import await_that

Pixels = npt.NDArray[np.uint8]

LOAD_LIMIT_MS = 90_000
"A page that is not there by then never will be."

DRAWN = "window.charts && charts.view.is_idle"
# Where the middle of a task's bar in the Gantt chart is on the screen.
BAR_PLACE = """([kind, number]) => {
  const {gantt} = charts
  const {left, right, lane, task} = gantt.bars.find((bars) => bars.name == kind)
  const index = task.indexOf(number)
  const at = gantt.plot.getBoundingClientRect()
  const middle = (left[index] + right[index]) / 2
  return [at.left + gantt.x(middle), at.top + gantt.y(lane[index])]
}"""

# Per kind of bars, the tasks that are picked.
PICKED = """() => {
  const tasks = ({task, picked}) => [...task].filter((_, i) => picked && picked[i])
  return Object.fromEntries(charts.gantt.bars.map((bars) => [bars.name, tasks(bars)]))
}"""


class Visit:
    """One page, loaded and drawn."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url, timeout=LOAD_LIMIT_MS)
        # asked from outside: the page's policy lets nothing in it evaluate texts
        await_that("the charts are drawn", lambda: page.evaluate(DRAWN))
        self.settle()

    def _listen(self, message: ConsoleMessage) -> None:
        """Errors and warnings, but for those of a graphics driver that draws without a graphics
        card.
        """
        if message.type in ("error", "warning") and "GL Driver Message" not in message.text:
            self.complaints.append(message.text)

    def settle(self) -> None:
        """Let the browser draw what has changed."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        self.page.wait_for_timeout(200)

    def click(self, x: float, y: float) -> None:
        """A real click of the mouse."""
        self.page.mouse.click(x, y)
        self.settle()

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse, as a hand does."""
        self.page.mouse.move(x + 20, y + 3)
        self.page.mouse.move(x, y, steps=4)
        self.settle()

    def bar(self, kind: str, task: int) -> tuple[float, float]:
        """Where the middle of a task's bar is on the screen."""
        self.box("#gantt")
        x, y = self.page.evaluate(BAR_PLACE, [kind, task])
        return x, y

    def picked(self) -> dict[str, list[int]]:
        """The tasks of the bars that are highlighted, per kind."""
        found: dict[str, list[int]] = self.page.evaluate(PICKED)
        return found

    def range(self) -> tuple[float, float]:
        """What the time axis of all charts shows."""
        start, end = self.page.evaluate("[charts.view.start, charts.view.end]")
        return start, end

    def box(self, element: str) -> dict[str, Any]:
        """Where an element is on the screen, moved there if need be."""
        self.page.locator(element).scroll_into_view_if_needed()
        found = self.page.locator(element).bounding_box()
        assert found is not None
        return dict(found)

    def pixels(self, element: str) -> Pixels:
        """What an element looks like: height x width x 3."""
        return np.asarray(
            Image.open(io.BytesIO(self.page.locator(element).screenshot())).convert("RGB")
        )


def count(pixels: Pixels, colour: str) -> int:
    """How many pixels have a colour, within what smoothing makes of it."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return int((np.abs(pixels.astype(int) - rgb).max(axis=-1) <= 12).sum())


def coloured(pixels: Pixels) -> float:
    """Share of the pixels that have any colour at all, be it a mixture."""
    return float((np.ptp(pixels.astype(int), axis=-1) > 40).mean())
