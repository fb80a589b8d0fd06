"""The page of a run: one HTML file with the answer first, then failures, charts, numbers, task
graph and provenance.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hyperslab.report import files
from hyperslab.report.circumstances import circumstances, started
from hyperslab.report.curves import device_words, running_chart, throughput_chart
from hyperslab.report.expected import expected_words
from hyperslab.report.failures import Group, failure_headline, failures_html, planned_tasks
from hyperslab.report.gantt import (
    COLOURS,
    FONT,
    LOST_COLOUR,
    OTHER_COLOUR,
    SHORT_COLOUR,
    STARTUP_COLOUR,
    gantt,
)
from hyperslab.report.graph import graph_svg
from hyperslab.report.links import links_html
from hyperslab.report.measures import headline, measures
from hyperslab.report.pictures import MADE_STYLE, Made, made_html, pictures_html
from hyperslab.report.prose import prose, verdict_html, whole_flags
from hyperslab.report.slices import Pictured
from hyperslab.report.slowest import Attempt, short_label, slowest
from hyperslab.report.summary import Summary, split
from hyperslab.report.verdict import Verdict, judge
from hyperslab.storage.whole import replace_text
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

if TYPE_CHECKING:
    from hyperslab.traffic import Traffic

PART_COLOURS = COLOURS | {"other": OTHER_COLOUR, "overhead": SHORT_COLOUR, "idle": STARTUP_COLOUR}
WORKERS_SHOWN = 24
CHARTS = Path(__file__).with_name("charts.js")
"What draws the charts in the page."

# The page may run its own scripts and load nothing: a browser enforces what the tests check.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
POLICY_WITH_FILES = f"{POLICY} 'self' file:"
"What a page may load that shows pictures which tasks have made: pictures beside it as well."

GANTT_HINT = (
    "One lane per slot, used or not. Click a bar to see all phases of its block, drag to zoom,"
    " click a name in the legend to hide its bars. Hatched: lost attempts. Time counts from when"
    " the engine was ready; grey: its start-up."
)
RUNNING_HINT = "Slots busy at a time, by phase; dashed: all slots."
THROUGHPUT_HINT = "Bytes read and written by all slots together"
GRAPH_HINT = (
    "Fused: one operator does all steps of a block, which the frame holds. Stepwise: every step is"
    " its own operator; the engine may join them again."
)
STYLE = """
:root { color-scheme: light }
* { box-sizing: border-box }
body { margin: 0; background: #f6f7f9; color: #1d2330; font: 15px/1.55 FONT;
  overflow-wrap: break-word }
main { max-width: 1120px; margin: 0 auto; padding: 40px 28px 64px }
h1 { margin: 0; font-size: 26px; line-height: 1.25; letter-spacing: -0.01em;
  overflow-wrap: anywhere }
h1, h2 { font-weight: 650 }
h2 { margin: 0 0 12px; font-size: 17px }
h2 + .hint { margin-top: -8px }
.about { margin: 4px 0 20px; color: #5b6475; font-size: 14px; overflow-wrap: anywhere }
.answer { margin: 0 0 12px; font-size: 20px; line-height: 1.4; overflow-wrap: anywhere }
.verdict { display: grid; grid-template-columns: auto 1fr; gap: 4px 16px; margin: 0 0 20px }
.verdict dt { color: #5b6475 }
.verdict dd { margin: 0; overflow-wrap: anywhere }
.flag { display: inline-block; max-width: 100%; overflow-wrap: anywhere }
abbr { text-decoration: underline dotted #8a93a3; cursor: help }
section { margin: 0 0 20px; padding: 22px 24px; background: #fff; border: 1px solid #e6e9ed;
  border-radius: 10px }
section h2:not(:first-child) { margin-top: 22px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  gap: 16px 20px }
.tiles b { display: block; font-size: 24px; line-height: 1.3; font-weight: 650;
  white-space: nowrap }
.tiles span, .key, .hint, .pictures figcaption { color: #5b6475; font-size: 13px }
.bar { display: flex; height: 22px; border-radius: 5px; overflow: hidden; background: #e9ebee }
.key { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 10px 0 18px }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 7px; border-radius: 3px }
.hint { margin: 0 0 12px }
.pictures figure { margin: 0 0 14px; overflow-wrap: anywhere }
.pictures img { margin: 0 8px 4px 0; max-width: 100%; background: #000; image-rendering: pixelated;
  vertical-align: bottom }
.picked { min-height: 21px; margin: 6px 0 0; font-size: 13px; font-weight: 600;
  overflow-wrap: anywhere }
.failures { border-color: #efb8a0; background: #fff8f5 }
.failures h2, .warning { color: #a83c00 }
.failures th { width: 30%; min-width: 190px; overflow-wrap: anywhere }
.failures td.text { width: 70%; min-width: 190px }
.failures pre { margin: 6px 0; overflow-x: auto; font-size: 12px }
.failures summary { cursor: pointer }
.scroll { overflow: auto; max-height: 420px }
.wide { overflow-x: auto }
table { width: 100%; border-collapse: collapse }
th, td { padding: 5px 18px 5px 0; border-top: 1px solid #eceef1; text-align: left;
  vertical-align: top }
tr:first-child > * { border-top: 0 }
th { font-weight: 400 }
.numbers th { white-space: nowrap }
.plot { position: relative }
.plot canvas { display: block; width: 100%; height: 100% }
.plot .cover { position: absolute; inset: 0; cursor: crosshair }
.legend, .tools { display: flex; flex-wrap: wrap; gap: 4px 8px; margin: 4px 0 }
.legend button, .tools button { padding: 2px 8px; border: 1px solid transparent; border-radius: 6px;
  background: none; color: #4a5160; font: 12px/1.5 FONT; cursor: pointer }
.tools button { border-color: #e6e9ed }
.legend button[aria-pressed="false"] { opacity: 0.4; text-decoration: line-through }
.tools button[aria-pressed="true"] { border-color: #0072b2; color: #0072b2 }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 6px; border-radius: 2px;
  vertical-align: -2px }
.legend .lost { border: 1.5px solid LOST; background:
  repeating-linear-gradient(135deg, LOST 0 2px, #fff 2px 5px) }
.note { margin: 4px 0; color: #5b6475; font-size: 12px }
.tip { display: none; position: fixed; z-index: 1; grid-template-columns: auto auto; gap: 0 12px;
  max-width: min(420px, 90vw); margin: 0; padding: 8px 12px; border: 1px solid #d5dae1;
  border-radius: 6px; background: #fff; box-shadow: 0 2px 10px rgba(29, 35, 48, 0.12);
  font-size: 12px; pointer-events: none }
.tip dt { color: #5b6475 }
.tip dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums }
thead th { color: #5b6475; font-size: 13px; white-space: nowrap }
tbody tr:first-child > * { border-top: 1px solid #eceef1 }
td.value { white-space: nowrap; font-weight: 600; font-variant-numeric: tabular-nums }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums }
td.definition { width: 100%; color: #5b6475 }
td.text { width: 100%; overflow-wrap: anywhere; white-space: pre-wrap }
td.task { min-width: 190px; overflow-wrap: anywhere }
td .bar { width: 150px; height: 12px; margin-top: 6px; border-radius: 3px }
.memory td { vertical-align: middle; white-space: nowrap }
.memory td:nth-child(2) { width: 100% }
.memory td .bar { width: 100%; min-width: 90px; margin: 0 }
.facts th { color: #5b6475; min-width: 120px }
svg { display: block; font-family: FONT }
@media (max-width: 640px) {
  body { font-size: 14px }
  main { padding: 24px 10px 40px }
  section { padding: 16px 14px }
  h1 { font-size: 21px }
  .answer { font-size: 17px }
  .verdict { display: block }
  .tiles { grid-template-columns: repeat(2, 1fr) }
  .tiles b { font-size: 20px }
  .numbers td.definition, .memory td.number { display: none }
  .facts table, .facts tbody, .facts tr, .facts th, .facts td { display: block; padding-right: 0 }
  .facts td, .failures td { border: 0; padding-top: 0 }
  .failures tbody, .failures tr, .failures th, .failures td.text { display: block; width: auto;
    padding-right: 0 }
  .failures pre { white-space: pre-wrap; overflow-wrap: anywhere }
  .slowest thead { display: none }
  .slowest tr { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 6px 0;
    border-top: 1px solid #eceef1 }
  .slowest tbody tr > td { padding: 0; border: 0 }
  .slowest td.task { flex: 0 0 100% }
  .slowest td.ratio::after { content: " of the median" }
  svg { max-width: 100%; height: auto }
}
@media print {
  body { background: #fff }
  section { break-inside: avoid }
  .scroll { max-height: none }
}
""".replace("FONT", FONT).replace("LOST", LOST_COLOUR)


def write_page(
    path: Path,
    trace: Trace,
    summary: Summary,
    title: str,
    facts: Mapping[str, str],
    failures: Sequence[Group],
    plan: Mapping[str, Any] | None = None,
    state: str = "done",
    pictures: Sequence[Pictured] = (),
    traffic: Traffic | None = None,
    made: Sequence[Made] = (),
) -> None:
    """Write the report of a run as one self-contained file that needs no network; it appears whole
    or not at all.

    `facts` are the run's provenance by name, `failures` its failed tasks, equal ones together,
    `plan` what the submission's plan.json holds, for the task graph, `state` how the run ended,
    `pictures` are of its data, `made` those that tasks have made, which stay files beside the page,
    and `traffic` holds the messages that were kept.
    """
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{escape(about(trace, facts, state))}</p>',
        _answer(trace, summary, headline_of(summary, failures, plan), has_verdict=not failures),
        failures_html(failures),
        pictures_html(pictures),
        made_html(made),
        charts_html(trace),
        links_html(trace.meta),
        _messages(traffic, trace),
        _files(trace.meta),
        _totals(summary),
        _slowest(trace),
        _graph(plan, trace),
        _memory(trace, summary),
        _facts({**facts, **circumstances(trace), **_expectation(trace, summary)}),
    ]
    style = ""
    policy = POLICY
    if made:
        style = MADE_STYLE
        policy = POLICY_WITH_FILES
    replace_text(path, document(title, sections, style, policy))


def _expectation(trace: Trace, summary: Summary) -> dict[str, str]:
    """How long the bytes take on the storage, where that was probed."""
    words = expected_words(trace, summary)
    if words:
        return {"expected of the storage": words}
    return {}


def document(title: str, sections: Sequence[str], style: str = "", policy: str = POLICY) -> str:
    """A whole page in the style of the reports, with rules of its own in `style`; empty sections
    are left out. `policy` is what a browser lets it load.
    """
    page = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>",
        *(section for section in sections if section),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(page)


def about(trace: Trace, facts: Mapping[str, str], state: str) -> str:
    """Engine, time and how it ended, in one line."""
    run = trace.meta.get("run", {})
    engine = run.get("engine") or facts.get("engine", "")
    slots = ""
    if run.get("workers"):
        slots = f"{show_count(run['workers'], 'worker')} x {show_count(run['threads'], 'thread')}"
    ended = {"done": "", "failed": "some tasks failed"}.get(state, f"{state} before its end")
    if state.startswith("ended early"):
        ended = state
    return " · ".join(part for part in (engine, slots, started(trace), ended) if part)


def headline_of(summary: Summary, failures: Sequence[Group], plan: Mapping[str, Any] | None) -> str:
    """What was done and how fast; of a failed run, which tasks failed, where and why."""
    if not failures:
        return headline(summary)
    return failure_headline(failures, planned_tasks(plan or {}, summary.tasks))


def _answer(trace: Trace, summary: Summary, answer: str, has_verdict: bool) -> str:
    """The headline, the verdict, unless what failed matters more, then the numbers that everybody
    asks for first.
    """
    verdict = judge(trace, summary)
    tiles = {
        "makespan": show_seconds(summary.makespan_s),
        "start-up in it": show_seconds(summary.startup_s),
        "read + write throughput": show_rate(summary.total_nbytes_per_s),
        f"slots busy, of {summary.slots:,}": f"{summary.average_parallelism:.2f}",
        "utilisation": show_share(summary.utilisation),
    }
    cells = "".join(
        f"<div><b>{escape(value)}</b><span>{prose(label)}</span></div>"
        for label, value in tiles.items()
    )
    limited = verdict_html(verdict) if has_verdict else ""
    warning = ""
    if summary.warning:
        warning = f'<p class="warning">Warning: {prose(summary.warning)}.</p>\n'
    if summary.odd_values:
        warning += f'<p class="warning">Note: {prose(summary.odd_values)}.</p>\n'
    return (
        f'<section>\n<p class="answer">{escape(answer)}</p>\n{warning}{limited}<div'
        f' class="tiles">{cells}</div>\n{_others(verdict)}</section>'
    )


def _others(verdict: Verdict) -> str:
    """What took time apart from the cause, and how far to trust all of it."""
    rows = "".join(
        f'<tr><td class="number">{show_share(f.share) if f.share else ""}</td>'
        f'<td class="text">{prose(f.text)}</td></tr>\n'
        for f in verdict.findings[1:]
    )
    if rows:
        return f"<h2>What else was seen</h2>\n<table>\n{rows}</table>\n"
    return ""


def charts_html(trace: Trace) -> str:
    """The charts over time with their script, all inside the page; zooming into one zooms all."""
    device = device_words(trace)
    line = "'hyperslab probe' measures what the device can do, --bandwidth says it"
    if device:
        line = f"dashed: what the device can do, {device}"
    return (
        f'<section>\n<h2>Every phase of every task</h2>\n<p class="hint">{prose(GANTT_HINT)}</p>\n'
        '<div id="gantt"></div>\n<p class="picked" id="picked" aria-live="polite"></p>\n'
        f'<h2>Running tasks</h2>\n<p class="hint">{prose(RUNNING_HINT)}</p>\n'
        '<div id="running"></div>\n<h2>Throughput</h2>\n'
        f'<p class="hint">{prose(f"{THROUGHPUT_HINT}; {line}.")}</p>\n'
        f'<div id="throughput"></div>\n{_embedded(trace)}\n</section>'
    )


def _embedded(trace: Trace) -> str:
    """Data and script of the charts; `<` is escaped so that no label can end a script."""
    data = charts_json(trace).replace("<", "\\u003c")
    script = CHARTS.read_text(encoding="utf-8")
    return (
        f'<script type="application/json" id="charts-data">{data}</script>\n'
        f"<script>\n{script}</script>"
    )


def charts_json(trace: Trace) -> str:
    """What all charts show, in one line of JSON, as charts.js reads it."""
    charts = {
        "startup_colour": STARTUP_COLOUR,
        "short_colour": SHORT_COLOUR,
        "lost_colour": LOST_COLOUR,
        "gantt": gantt(trace),
        "running": running_chart(trace),
        "throughput": throughput_chart(trace),
    }
    return json.dumps(charts, default=_packed, allow_nan=False, separators=(",", ":"))


def _packed(values: npt.NDArray[Any]) -> dict[str, str]:
    """An array as JSON: its dtype and its bytes, little-endian, in base64."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": values.dtype.name, "base64": b64encode(little.tobytes()).decode("ascii")}


def _bar(parts: Mapping[str, float]) -> str:
    """Parts of one, by the name of what they are, as a divided bar."""
    pieces = "".join(
        f'<div style="width:{100 * s:.3f}%;background:{PART_COLOURS[p]}"></div>'
        for p, s in parts.items()
    )
    return f'<div class="bar">{pieces}</div>'


def _messages(traffic: Traffic | None, trace: Trace) -> str:
    """The section about messages, where they were kept."""
    if traffic is None:
        return ""
    from hyperslab.report.messages.page import messages_html

    return messages_html(traffic, trace)


def _files(meta: Mapping[str, Any]) -> str:
    """The section about operations on files, where they were counted."""
    if files.META not in meta:
        return ""
    from hyperslab.report.files.page import files_html

    return files_html(meta)


def _totals(summary: Summary) -> str:
    """The slots' time as one bar divided into its parts, then every number with its definition."""
    parts = [part for part in split(summary) if part.seconds > 0]
    total = sum(part.seconds for part in parts)
    shares = {part.label: part.seconds / total for part in parts}
    key = "".join(
        f'<span><i style="background:{PART_COLOURS[p]}"></i>{p} {show_share(s)}</span>'
        for p, s in shares.items()
    )
    bar = ""
    if shares:
        bar = f'{_bar(shares)}\n<div class="key">{key}</div>\n'
    rows = "".join(
        f'<tr><th>{prose(m.label)}</th><td class="value">{escape(m.value)}</td>'
        f'<td class="definition">{escape(m.definition)}</td></tr>\n'
        for m in measures(summary)
    )
    return (
        '<section class="numbers">\n<h2>Where the time'
        f" went</h2>\n{bar}<table>\n{rows}</table>\n</section>"
    )


def _slowest(trace: Trace) -> str:
    attempts = slowest(trace)
    if not attempts:
        return ""
    longest = attempts[0].busy_s
    rows = "".join(_slow_row(attempt, longest) for attempt in attempts)
    heads = "".join(
        f"<th>{prose(name)}</th>"
        for name in ("task", "time", "of the median", "read, compute, write", "slot")
    )
    return (
        '<section class="slowest">\n<h2>Slowest tasks</h2>\n<div'
        f' class="wide"><table>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n</section>"
    )


def _slow_row(attempt: Attempt, longest_s: float) -> str:
    name = short_label(attempt.label) or f"task {attempt.task}"
    lost = ""
    if attempt.lost:
        lost = f' <span class="warning">attempt {attempt.number}, lost</span>'
    scale = max(longest_s, sum(attempt.phases_s.values()))
    shares = {}
    if scale:
        shares = {phase: seconds / scale for phase, seconds in attempt.phases_s.items()}
    return (
        f'<tr><td class="task" title="{escape(attempt.label)}">{escape(name)}{lost}</td>'
        f'<td class="value">{show_seconds(attempt.busy_s)}</td>'
        f'<td class="number ratio">{attempt.times_usual:.2f} x</td><td>{_bar(shares)}</td>'
        f'<td class="number">{escape(attempt.slot)}</td></tr>\n'
    )


def _graph(plan: Mapping[str, Any] | None, trace: Trace) -> str:
    if not plan:
        return ""
    return (
        f'<section>\n<h2>Task graph</h2>\n<p class="hint">{prose(GRAPH_HINT)}</p>\n'
        f'<div class="wide">{graph_svg(plan, trace)}</div>\n</section>'
    )


def _memory(trace: Trace, summary: Summary) -> str:
    """Peak memory of the workers, largest first, against what each of them was allowed."""
    peaks = sorted(summary.max_rss_nbytes.items(), key=lambda item: -item[1])
    if not peaks:
        return ""
    run = trace.meta.get("run", {})
    allowed = None
    if run.get("memory_nbytes") and run.get("workers"):
        allowed = run["memory_nbytes"] / run["workers"]
    scale = max(allowed or 0, peaks[0][1])
    rows = "".join(
        _memory_row(worker, nbytes, scale, allowed) for worker, nbytes in peaks[:WORKERS_SHOWN]
    )
    hint = "Largest resident set of each worker, Python and its libraries included"
    if allowed:
        hint += f"; allowed: {show_bytes(allowed)} per worker"
    hint += "."
    more = ""
    if len(peaks) > WORKERS_SHOWN:
        more = f" The {WORKERS_SHOWN} largest of {len(peaks)} workers."
    return (
        f'<section class="memory">\n<h2>Memory</h2>\n<p class="hint">{prose(hint + more)}</p>\n'
        f"<table>\n{rows}</table>\n</section>"
    )


def _memory_row(worker: str, nbytes: int, scale: float, allowed: float | None) -> str:
    colour = LOST_COLOUR
    if allowed is None or nbytes <= allowed:
        colour = COLOURS["read"]
    share = ""
    if allowed:
        share = f"{show_share(nbytes / allowed)} of allowed"
    return (
        f'<tr><th>{escape(worker)}</th><td><div class="bar">'
        f'<div style="width:{100 * nbytes / scale:.3f}%;background:{colour}"></div></div></td>'
        f'<td class="value">{show_bytes(nbytes)}</td><td class="number">{share}</td></tr>\n'
    )


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    rows = "".join(
        f'<tr><th>{escape(k)}</th><td class="text">{whole_flags(escape(v))}</td></tr>\n'
        for k, v in facts.items()
    )
    return f'<section class="facts">\n<h2>Provenance</h2>\n<table>\n{rows}</table>\n</section>'
