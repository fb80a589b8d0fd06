"""Make the picture of a run's page that README and documentation show.

    python -m benchmarks.page_picture [--folder FOLDER] [-o docs/report.png]

The run is the first of README's section "Where the time went": a histogram in plain Python, in one
Dask worker of two threads. Needs chromium, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH = 1200
HEIGHT = 1360
COLOURS = 256
"Colours of the picture: enough for those of the page and the edges of its letters."
DRAWN_MS = 1000
"By then the charts are drawn."
RUN = "--blocks 40 --engine dask-futures --workers 1 --threads 2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the run is; kept afterwards")
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/report.png"))
    asked = parser.parse_args()
    if asked.folder is not None:
        picture(page_of(asked.folder), asked.out)
        return
    with tempfile.TemporaryDirectory(prefix="hyperslab-page-") as folder:
        picture(page_of(Path(folder)), asked.out)


def page_of(folder: Path) -> Path:
    """Run what README runs, unless it is there; returns its page, without slices of the data."""
    data = folder / "bigbrain"
    one = folder / "one"
    page = folder / "page.html"
    if not one.exists():
        call("synth", "bigbrain", "--size", "300MB", "-o", data)
        call("run", "histogram-python", data, "-o", one, *RUN.split())
    call("report", one, "--no-pictures", "-o", page)
    return page


def call(*arguments: object) -> None:
    subprocess.run(["hyperslab", *map(str, arguments)], check=True)


def picture(page: Path, out: Path) -> None:
    """Save the top of a page as a browser shows it, with few colours."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shown.goto(page.as_uri())
        shown.wait_for_timeout(DRAWN_MS)
        taken = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
        browser.close()
    taken.quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main()
