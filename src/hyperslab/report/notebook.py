"""A run as notebooks show it: state, numbers, verdict and a bar of where the slots' time went,
without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from hyperslab.markup import FONT, fragment
from hyperslab.report.failures import Group, where_words
from hyperslab.report.html import PART_COLOURS
from hyperslab.report.summary import Part, Summary, split
from hyperslab.report.verdict import judge
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

WIDTH, BAR, LINE = 300, 16, 18
FAILURES_SHOWN = 3


def run_html(
    title: str,
    trace: Trace,
    summary: Summary,
    failures: Sequence[Group],
    more: Mapping[str, str],
) -> str:
    """A run as a fragment of HTML; `failures` are its failed tasks, equal ones together, `more`
    further rows of its table.
    """
    verdict = judge(trace, summary)
    peak = max(summary.max_rss_nbytes.values(), default=0)
    busy = f"{summary.average_parallelism:.2f} of {summary.slots:,} slots busy on average"
    rows = {
        "makespan": (
            f"{show_seconds(summary.makespan_s)}, start-up {show_seconds(summary.startup_s)} of it"
        ),
        "tasks": show_count(summary.tasks, "task") + _lost(summary),
        "slots": busy,
        "throughput": _throughput(summary.total_nbytes_per_s),
        "peak memory": _in_one_worker(peak),
        "failed": ("\n".join(map(_reason, failures[:FAILURES_SHOWN])) + _further(len(failures))),
        **verdict.told(),
        **more,
    }
    note = ""
    if not verdict.findings:
        note = verdict.paragraph
    return fragment(title, rows, time_bar(split(summary)), note)


def _reason(group: Group) -> str:
    tasks = group.first.task
    if group.count > 1:
        tasks = show_count(group.count, "task")
    where = where_words(group.first)
    if where:
        where = f" ({where})"
    return f"{tasks}: {group.first.message}{where}"


def _lost(summary: Summary) -> str:
    if summary.lost_attempts:
        return f", {show_count(summary.lost_attempts, 'attempt')} lost"
    return ""


def _throughput(nbytes_per_s: float) -> str:
    if nbytes_per_s:
        return f"{show_rate(nbytes_per_s)} read and written"
    return ""


def _in_one_worker(peak_nbytes: int) -> str:
    if peak_nbytes:
        return f"{show_bytes(peak_nbytes)} in one worker"
    return ""


def _further(failures: int) -> str:
    if failures > FAILURES_SHOWN:
        return f"\nand {show_count(failures - FAILURES_SHOWN, 'other reason')}"
    return ""


def time_bar(parts: Sequence[Part]) -> str:
    """The slots' time as one bar divided into its parts, each with its name and share, as SVG
    text.
    """
    used = [part for part in parts if part.seconds > 0]
    total = sum(part.seconds for part in used)
    if not used:
        return ""
    left = 0.0
    pieces = []
    key = []
    for n, part in enumerate(used):
        width = part.seconds / total * WIDTH
        colour = PART_COLOURS[part.label]
        y = BAR + 8 + n * LINE
        pieces.append(
            f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
        )
        told = f"{part.label} {show_share(part.seconds / total)}, {show_seconds(part.seconds)}"
        key.append(f'<rect x="0" y="{y}" width="10" height="10" rx="2" fill="{colour}"/>')
        key.append(f'<text x="17" y="{y + 9}" fill="currentColor">{escape(told)}</text>')
        left += width
    height = BAR + 8 + len(used) * LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img" '
        f'style="font:12px {FONT};color:inherit;flex:none">{"".join(pieces)}{"".join(key)}</svg>'
    )
