"""The page of a run: one HTML file with the answer first, then failures, numbers, Gantt chart and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from hyperslab.report.gantt import COLOURS, FONT, OTHER_COLOURS, SHORT_COLOUR, STARTUP_COLOUR, gantt
from hyperslab.report.measures import headline, measures, split
from hyperslab.report.summary import Summary
from hyperslab.report.textfile import replace_text
from hyperslab.span import Trace
from hyperslab.units import show_count, show_rate, show_seconds, show_share

PART_COLOURS = COLOURS | {"other": OTHER_COLOURS[0], "overhead": SHORT_COLOUR, "idle": STARTUP_COLOUR}

# The page may run its own scripts and load nothing: a browser enforces what the tests check.
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"

CHART_HINT = (
    "One lane per slot. Drag to zoom, click a legend entry to hide its bars. "
    "Hatched: lost attempts. Grey before zero: engine start-up."
)
CHART_START = "Bokeh.embed.embed_item(JSON.parse(document.getElementById('gantt-data').textContent), 'gantt')"

STYLE = """
:root { color-scheme: light }
* { box-sizing: border-box }
body { margin: 0; background: #f6f7f9; color: #1d2330; font: 15px/1.55 FONT }
main { max-width: 1120px; margin: 0 auto; padding: 40px 28px 64px }
h1 { margin: 0 0 6px; font-size: 26px; line-height: 1.25; letter-spacing: -0.01em; overflow-wrap: anywhere }
h1, h2 { font-weight: 650 }
h2 { margin: 0 0 14px; font-size: 17px }
.answer { margin: 0 0 24px; font-size: 17px; color: #4a5160 }
section { margin: 0 0 20px; padding: 22px 24px; background: #fff; border: 1px solid #e6e9ed; border-radius: 10px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 20px; margin-bottom: 22px }
.tiles b { display: block; font-size: 25px; line-height: 1.3; font-weight: 650; white-space: nowrap }
.tiles span, .key, .hint { color: #667085; font-size: 13px }
.bar { display: flex; height: 22px; border-radius: 5px; overflow: hidden; background: #e9ebee }
.key { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 10px }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 7px; border-radius: 3px }
.hint { margin: 0 0 12px }
.failures { border-color: #efb8a0; background: #fff8f5 }
.failures h2 { color: #a83c00 }
.scroll { overflow: auto; max-height: 420px }
table { width: 100%; border-collapse: collapse }
th, td { padding: 5px 18px 5px 0; border-top: 1px solid #eceef1; text-align: left; vertical-align: top }
tr:first-child > * { border-top: 0 }
th { white-space: nowrap; font-weight: 400 }
td.value { white-space: nowrap; font-weight: 600; font-variant-numeric: tabular-nums }
td.definition { width: 100%; color: #667085 }
td.text { width: 100%; overflow-wrap: anywhere; white-space: pre-wrap }
.facts th { color: #667085 }
""".replace("FONT", FONT)


def write_page(
    path: Path,
    trace: Trace,
    summary: Summary,
    title: str,
    facts: Mapping[str, str],
    failures: Sequence[tuple[str, str]],
) -> None:
    """Write the report of a run as one self-contained file that needs no network; it appears whole or not at all.

    `facts` are the run's provenance by name, `failures` the label and the reason of every failed task.
    """
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="answer">{escape(_answer(summary, len(failures)))}</p>',
        _overview(summary),
        _failures(failures),
        _numbers(summary),
        _chart(trace),
        _facts(facts),
    ]
    page = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
        *(section for section in sections if section),
        "</main>\n</body>\n</html>\n",
    ]
    replace_text(path, "\n".join(page))


def _answer(summary: Summary, failed: int) -> str:
    return headline(summary) + (f" {show_count(failed, 'task')} failed." if failed else "")


def _overview(summary: Summary) -> str:
    tiles = {
        "makespan": show_seconds(summary.makespan_s),
        "start-up in it": show_seconds(summary.startup_s),
        "read + write throughput": show_rate(summary.total_nbytes_per_s),
        f"slots busy, of {summary.slots:,}": f"{summary.average_parallelism:.2f}",
        "utilisation": show_share(summary.utilisation),
    }
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(label)}</span></div>" for label, value in tiles.items())
    return f'<section>\n<div class="tiles">{cells}</div>\n{_time_bar(summary)}\n</section>'


def _time_bar(summary: Summary) -> str:
    """The slots' time as one bar divided into its parts."""
    parts = [part for part in split(summary) if part.seconds > 0]
    total = sum(part.seconds for part in parts)
    if not total:
        return ""
    share = {part.label: part.seconds / total for part in parts}
    pieces = "".join(f'<div style="width:{100 * s:.3f}%;background:{PART_COLOURS[p]}"></div>' for p, s in share.items())
    key = "".join(
        f'<span><i style="background:{PART_COLOURS[p]}"></i>{p} {show_share(s)}</span>' for p, s in share.items()
    )
    return f'<div class="bar">{pieces}</div>\n<div class="key">{key}</div>'


def _failures(failures: Sequence[tuple[str, str]]) -> str:
    if not failures:
        return ""
    rows = "".join(f'<tr><th>{escape(task)}</th><td class="text">{escape(why)}</td></tr>\n' for task, why in failures)
    table = f'<div class="scroll"><table>\n{rows}</table></div>'
    return f'<section class="failures">\n<h2>{show_count(len(failures), "failed task")}</h2>\n{table}\n</section>'


def _numbers(summary: Summary) -> str:
    rows = "".join(
        f'<tr><th>{escape(m.label)}</th><td class="value">{escape(m.value)}</td>'
        f'<td class="definition">{escape(m.definition)}</td></tr>\n'
        for m in measures(summary)
    )
    return f"<section>\n<h2>Numbers</h2>\n<table>\n{rows}</table>\n</section>"


def _chart(trace: Trace) -> str:
    """The Gantt chart with its library, both inside the page; `<` is escaped so that no label can end the script."""
    from bokeh.embed import json_item
    from bokeh.resources import Resources

    chart = json.dumps(json_item(gantt(trace)), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    library = Resources(mode="inline", components=["bokeh", "bokeh-gl"]).render_js()
    return (
        f'<section>\n<h2>Every phase of every task</h2>\n<p class="hint">{CHART_HINT}</p>\n'
        f'<div id="gantt"></div>\n{library}\n<script type="application/json" id="gantt-data">{chart}</script>\n'
        f"<script>{CHART_START}</script>"
        "\n</section>"
    )


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    rows = "".join(f'<tr><th>{escape(k)}</th><td class="text">{escape(v)}</td></tr>\n' for k, v in facts.items())
    return f'<section class="facts">\n<h2>Provenance</h2>\n<table>\n{rows}</table>\n</section>'
