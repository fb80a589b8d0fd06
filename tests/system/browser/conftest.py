"""A browser without a screen, and what it says about the pages that tests open in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.system.browser.visit import Visit
from tests.system.clusters.required import required

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium; without it the test is skipped, or fails where CI is set.

    It ends with the tests of a file: an event loop runs in their thread as long as it does.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    required("" if program else "there is no chromium (Debian package chromium)")
    with (
        sync_playwright() as playwright,
        closing(
            playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        ) as running,
    ):
        yield running


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open a page by its path; at the end of the test it must have made no error and no request but
    for itself.
    """
    visits: list[Visit] = []

    def open_page(path: Path, width: int = 1200, touch: bool = False) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, has_touch=touch, is_mobile=touch
        )
        visits.append(Visit(context.new_page(), path.as_uri()))
        return visits[-1]

    yield open_page
    for each in visits:
        each.page.context.close()
        assert each.complaints == []
        assert each.requests == [each.url]
