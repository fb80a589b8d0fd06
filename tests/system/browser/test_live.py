"""The live page in a real browser: it follows the run, and becomes the page that stays."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from hyperslab.report.gantt import COLOURS
from hyperslab.testing.holding import hold, let_go
from tests.system.browser.visit import DRAWN, Visit, count
from tests.system.end_to_end.command import ANATOMICAL, start
from tests.system.faults.command import PATIENCE_S, await_that

COUNTED = "hyperslab.testing.functions:counted"
CUT = ("--blocks", "1x1x11", "--engine", "threads", "--workers", "2")
LIMIT_MS = 60_000
BARS = "charts.gantt.bars.reduce((sum, {lane}) => sum + lane.length, 0)"


@contextmanager
def followed(
    browser: Browser, folder: Path, *line: object
) -> Iterator[tuple[Visit, subprocess.Popen[str]]]:
    """The live page of a run that has just begun, and its process; its blocks can be held."""
    (folder / "runs").mkdir()
    where = ("-o", folder / "out", "-p", f"folder={folder / 'runs'}")
    hold(folder / "runs", 4)
    with start("run", COUNTED, ANATOMICAL, *CUT, *where, "--live", *line) as run:
        assert run.stderr is not None
        visit = Visit(browser.new_context().new_page(), run.stderr.readline().split()[1])
        try:
            yield visit, run
        finally:
            visit.page.context.close()
            run.kill()


def test_it_follows_a_run_and_becomes_the_page_that_stays(browser: Browser, tmp_path: Path) -> None:
    with followed(browser, tmp_path, "-p", "seconds=0.5") as (visit, run):
        page = visit.page
        under_way = re.compile(r"[1-8]/11 tasks .* left$")
        expect(page.locator("#progress")).to_have_text(under_way, timeout=LIMIT_MS)
        await_that("bars", lambda: page.evaluate(BARS) > 3)
        first = page.evaluate(BARS)
        compute = page.get_by_role("button", name="compute", exact=True)
        compute.click()
        hold(tmp_path / "runs", 4)
        await_that("more bars", lambda: page.evaluate(BARS) > first)
        assert compute.get_attribute("aria-pressed") == "false", "what was hidden stays hidden"
        seen = visit.pixels("#gantt .plot")
        assert count(seen, COLOURS["compute"]) == 0
        let_go(tmp_path / "runs")
        page.locator(".answer").wait_for(timeout=LIMIT_MS)
        assert run.wait(timeout=PATIENCE_S) == 0
        (kept,) = (tmp_path / "out").rglob("report.html")
        assert page.inner_text("#ended") == f"The run has ended. This page is {kept}"
        await_that("the charts that stay", lambda: page.evaluate(DRAWN))
        assert page.evaluate(BARS) >= 33
        assert count(visit.pixels("#gantt .plot"), COLOURS["compute"]) > 1000
        assert visit.complaints == []
        assert [url.split("?")[0].rpartition("/")[2] for url in visit.requests] == ["", "events"]


def test_a_driver_that_is_killed_is_missed(browser: Browser, tmp_path: Path) -> None:
    with followed(browser, tmp_path, "-q") as (visit, run):
        progress = visit.page.locator("#progress")
        expect(progress).to_have_text(re.compile("[1-4]/11 tasks"), timeout=LIMIT_MS)
        run.kill()
        gone = re.compile(f"^The run does not answer.*{tmp_path}")
        expect(progress).to_have_text(gone, timeout=LIMIT_MS)
