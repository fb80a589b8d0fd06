"""The live page of a run: its progress, failures and charts so far, which follow what the driver
sends.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from hyperslab.report.html import POLICY, charts_html, document
from hyperslab.trace import Trace

SCRIPT = Path(__file__).with_name("live.js")
"What follows the run in the page."
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
"The page may ask for more from where it came, and from nowhere else."
STYLE = """
progress { width: 100%; height: 14px }
.progress { margin: 0 0 8px; font-size: 17px; white-space: pre-wrap;
  font-variant-numeric: tabular-nums }
"""


def live_html(title: str, page: Path) -> str:
    """The page as it is first sent, its charts empty; `page` is where the one that stays will
    be.
    """
    silent = (
        "The run does not answer: it has ended, or its driver was killed. Its page, if it was"
        f" written, is {page}; 'hyperslab status' says how the run ended."
    )
    progress = f'<p class="progress" id="progress" data-silent="{escape(silent)}">...</p>'
    sections = [
        f"<h1>{escape(title)}</h1>",
        '<p class="about">This run goes on.</p>',
        f'<section>\n{progress}\n<progress id="share" value="0"></progress>\n</section>',
        '<div id="failures"></div>',
        charts_html(Trace([], [])),
        f"<script>\n{SCRIPT.read_text(encoding='utf-8')}</script>",
    ]
    return document(title, sections, STYLE, LIVE_POLICY)
