"""Pictures on the page of a run: slices of its data, which are part of the page, and pictures that
its tasks have made, which are files beside it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hyperslab.redaction import redact
from hyperslab.report.slices import Pictured, Slice, scale
from hyperslab.units import show_count

PICTURES_HINT = (
    "Slices through the middle (sagittal, coronal, axial) of the first file; left is left. Grey:"
    " from the 1st to the 99th percentile of what is shown. Yellow: the edge of the mask, if any."
)
MADE_HINT = "The browser loads each when it is scrolled into view."
MADE_STYLE = """
.made { display: flex; flex-wrap: wrap; gap: 12px }
.made figure { margin: 0; max-width: 100% }
.made img { height: 160px; min-width: 160px; max-width: 100%; object-fit: contain;
  background: #000 }
.made figcaption { color: #5b6475; font-size: 13px; overflow-wrap: anywhere }
"""
"Rules for these; all have one height before they are loaded, so that few are in view."


@dataclass(frozen=True, slots=True)
class Made:
    """A picture that a task has made."""

    task: str
    "Name of the task."
    name: str
    "Name of the file in the output directory."
    url: str
    "Address of the file, seen from the page."


def pictures_html(pictures: Sequence[Pictured]) -> str:
    """What went in and what came out, side by side at one scale each."""
    if not pictures:
        return ""
    rows = "".join(
        f"<figure>{_slices(one.slices)}<figcaption>{escape(_caption(one))}</figcaption></figure>\n"
        for one in pictures
    )
    return (
        f'<section class="pictures">\n<h2>The data</h2>\n<p class="hint">{PICTURES_HINT}</p>\n'
        f"{rows}</section>"
    )


def _caption(one: Pictured) -> str:
    caption = f"{one.what}: {redact(one.name)}"
    if one.note:
        return f"{caption} ({one.note})"
    return caption


def _slices(shown: Sequence[Slice]) -> str:
    longest_mm = max((max(one.size_mm) for one in shown), default=1.0)
    return "".join(_slice(one, scale(one.size_mm, longest_mm)) for one in shown)


def _slice(one: Slice, px_per_mm: float) -> str:
    width, height = (max(1, round(px_per_mm * edge)) for edge in one.size_mm)
    data = b64encode(one.png).decode("ascii")
    return (
        f'<img alt="{one.plane} slice" title="{one.plane}" src="data:image/png;base64,{data}"'
        f' style="width:{width}px;aspect-ratio:{width}/{height}">'
    )


def made_html(made: Sequence[Made]) -> str:
    """The pictures that tasks have made, a figure each."""
    if not made:
        return ""
    rows = "".join(
        f'<figure><img loading="lazy" decoding="async" alt="{escape(one.name)}"'
        f' title="{escape(one.name)}" src="{escape(one.url)}">'
        f"<figcaption>{escape(redact(one.task))}</figcaption></figure>\n"
        for one in made
    )
    count = show_count(len(made), "picture")
    return (
        f'<section>\n<h2>Results</h2>\n<p class="hint">{count}. {MADE_HINT}</p>\n'
        f'<div class="made">\n{rows}</div>\n</section>'
    )
