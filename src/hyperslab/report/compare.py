"""The page that puts runs side by side: verdicts, measures, time totals, small Gantt pictures, what
differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol

from hyperslab.report.circumstances import circumstances
from hyperslab.report.failures import Failed, grouped
from hyperslab.report.html import PART_COLOURS, about, document, headline_of
from hyperslab.report.prose import verdict_html, whole_flags
from hyperslab.report.summary import Part, Summary, split
from hyperslab.report.thumbnail import FILLS, Axis, thumbnail
from hyperslab.report.verdict import judge
from hyperslab.storage.whole import replace_text
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

NOTABLE = 0.1
"Relative difference from which a number is marked; runs of one plan easily differ by less."
STRONG = 4.0
"Ratio whose mark has the full colour."
TRIFLE = 0.01
"Part of the slots' time below which a difference is not marked."
LOAD_DIFFERS = 0.1
"Difference in the share of all processors' time that others took, from which runs are not alike."
MORE, LESS = "230, 159, 0", "0, 114, 178"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

STYLE = """
.letter { display: inline-block; min-width: 22px; margin-right: 9px; padding: 0 6px;
  border-radius: 5px;
  background: #1d2330; color: #fff; font-size: 13px; font-weight: 650; line-height: 22px;
  text-align: center }
.run + .run { margin-top: 18px; padding-top: 16px; border-top: 1px solid #eceef1 }
.run h2 { margin: 0; overflow-wrap: anywhere }
.run p, .run .verdict { margin: 6px 0 0 }
.compared td, .compared thead th { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums }
.compared tbody th { white-space: nowrap }
.compared td span { display: inline-block; min-width: 66px; margin-left: 10px; padding: 0 6px;
  border-radius: 4px;
  color: #5b6475; font-size: 13px }
.compared .most th { font-weight: 650 }
.bars { display: grid; grid-template-columns: auto 1fr auto; gap: 8px 14px; align-items: center }
.bars .bar { background: none }
.bars + .key { margin-bottom: 0 }
.bars .hint { margin: 0 }
.pictures svg { min-width: 640px }
.pictures > div { margin-top: 12px }
.pictures p { margin: 0 0 4px; font-size: 13px }
.warnings { border-color: #efb8a0; background: #fff8f5 }
.warnings h2 { color: #a83c00 }
.warnings ul { margin: 0; padding-left: 20px }
.differing td { overflow-wrap: anywhere; white-space: pre-wrap; min-width: 160px }
@media (max-width: 640px) {
  .compared thead, .differing thead { display: none }
  .compared tr, .differing tr { display: block; padding: 6px 0; border-top: 1px solid #eceef1;
    counter-reset: run }
  .compared tbody tr > *, .differing tbody tr > * { display: block; padding: 0; border: 0;
    text-align: left }
  .differing tbody th { color: #5b6475 }
  .compared tbody tr td { display: inline-block; margin-right: 14px }
  .compared td::before, .differing td::before { counter-increment: run;
    content: counter(run, upper-alpha) "  "; font-weight: 650; white-space: pre }
  .compared td span { min-width: 0 }
  .pictures svg { min-width: 0 }
}
"""


class Run(Protocol):
    """What is read of a run: `hyperslab.driver.submission.Records` has it."""

    @property
    def folder(self) -> Path: ...
    @property
    def trace(self) -> Trace: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def title(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, str]: ...
    @property
    def failures(self) -> Sequence[Failed]: ...
    @property
    def state(self) -> str: ...
    @property
    def plan(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One number of every run; None where it is not known."""

    label: str
    values: Sequence[float | None]
    show: Callable[[float], str]
    of_slots: bool = False
    "A part of the slots' time."


def write_comparison(path: Path, runs: Sequence[Run]) -> None:
    """Write the comparison of runs with the first of them as one self-contained HTML file without
    scripts.

    The file appears whole or not at all. Raises ValueError for fewer than two runs.
    """
    if len(runs) < 2:
        raise ValueError(f"a comparison needs two runs or more, not {len(runs)}")
    names = names_of([run.folder for run in runs])
    heading = f"{show_count(len(runs), 'run')} compared"
    sections = [
        f"<h1>{heading}</h1>",
        f'<p class="about">{escape("; ".join(dict.fromkeys(run.title for run in runs)))}</p>',
        _warnings(runs),
        _verdicts(runs, names),
        _measures(runs),
        _totals(runs),
        _pictures(runs, names),
        _differing(runs),
    ]
    replace_text(path, document(heading, sections, STYLE))


def names_of(folders: Sequence[Path]) -> list[str]:
    """Names of runs: as few of the last folders of their paths as tell them apart, the records' own
    left out.
    """
    paths = [folder.absolute().parts for folder in folders]
    outputs = [parts[:-2] if parts[-2:-1] == (".hyperslab",) else parts for parts in paths]
    shown = outputs
    if len(set(outputs)) != len(outputs):
        shown = [tuple(p for p in q if p != ".hyperslab") for q in paths]
    for depth in range(1, max(len(parts) for parts in shown) + 1):
        names = ["/".join(parts[-depth:]) for parts in shown]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(parts[-1:])} ({n + 1})" for n, parts in enumerate(shown)]


def letter(n: int) -> str:
    """What a run is called on the page, by its place."""
    if n < len(LETTERS):
        return LETTERS[n]
    return str(n + 1)


def _badge(n: int) -> str:
    return f'<span class="letter">{letter(n)}</span>'


def warnings_of(runs: Sequence[Run]) -> Iterator[str]:
    """Why numbers of these runs may not compare: other work, machines, load, or ends before their
    time.
    """
    if len({run.summary.origin for run in runs}) > 1:
        yield (
            "Some runs are predicted, others measured:"
            f" {_each(run.summary.origin for run in runs)}."
        )
    yield from _work_differs(runs)
    for name in ("host", "processor", "system"):
        if len({run.facts.get(name) for run in runs}) > 1:
            yield (
                f"The machines differ in their {name}:"
                f" {_each(run.facts.get(name, 'unknown') for run in runs)}."
            )
            break
    cpus = [run.trace.meta.get("run", {}).get("cpus") for run in runs]
    if len(set(cpus)) > 1:
        yield (
            f"The runs had different numbers of processors: {_each(c or 'unknown' for c in cpus)}."
        )
    yield from _load_differs(runs)
    if any(run.state != "done" for run in runs):
        yield f"Not every run did all of its work: {_each(run.state for run in runs)}."


def _each(values: Iterator[Any]) -> str:
    return ", ".join(f"{letter(n)} {value}" for n, value in enumerate(values))


def _work_differs(runs: Sequence[Run]) -> Iterator[str]:
    plans = [run.plan for run in runs]
    if len({plan["fingerprint"] for plan in plans}) > 1:
        prints = _each(plan["fingerprint"][:8] for plan in plans)
        yield f"The plans differ, so the runs did different work: fingerprints {prints}."
    if len({str(plan["summary"]["sources"]) for plan in plans}) > 1:
        yield "The runs read different sources."
    if len({plan["code"] for plan in plans}) > 1:
        yield "The code of the functions differs."
    tasks = [run.summary.tasks for run in runs]
    if len(set(tasks)) > 1:
        yield f"The runs ran different numbers of tasks: {_each(f'{n:,}' for n in tasks)}."


def _load_differs(runs: Sequence[Run]) -> Iterator[str]:
    """Time that others took from the runs' processors."""
    loads = [run.trace.meta.get("load") or {} for run in runs]
    for key, what in (
        ("others_share", "other programs"),
        ("stolen_share", "other virtual machines"),
    ):
        shares = [load.get(key) for load in loads]
        known = [share for share in shares if share is not None]
        if known and max(known) - min(known) > LOAD_DIFFERS:
            told = _each(_known_share(share) for share in shares)
            yield f"The load differs: {what} took of all processors' time {told}."
    unknown = [n for n, load in enumerate(loads) if load.get("others_share") is None]
    if unknown:
        yield f"The load on the machine during {', '.join(map(letter, unknown))} is not known."


def _known_share(share: float | None) -> str:
    if share is None:
        return "unknown"
    return show_share(share)


def _warnings(runs: Sequence[Run]) -> str:
    items = "".join(f"<li>{escape(text)}</li>\n" for text in warnings_of(runs))
    if not items:
        return ""
    return (
        f'<section class="warnings">\n<h2>Before you compare</h2>\n<ul>\n{items}</ul>\n</section>'
    )


def _verdicts(runs: Sequence[Run], names: Sequence[str]) -> str:
    answer = f'<p class="answer">{escape(" ".join(answers(runs)))}</p>\n'
    verdicts = "".join(_verdict(n, run, names[n]) for n, run in enumerate(runs))
    return f"<section>\n{answer}{verdicts}</section>"


def _verdict(n: int, run: Run, name: str) -> str:
    mark = ""
    if run.failures:
        mark = ' class="warning"'
    answer = headline_of(run.summary, grouped(run.failures), run.plan)
    return (
        f'<div class="run"><h2>{_badge(n)}{escape(name)}</h2>\n'
        f'<p class="hint">{escape(about(run.trace, run.facts, run.state))}</p>\n'
        f"<p{mark}>{escape(answer)}</p>\n"
        f"{verdict_html(judge(run.trace, run.summary))}</div>\n"
    )


def answers(runs: Sequence[Run]) -> Iterator[str]:
    """Say of each run but the first how its makespan compares, and which part of the slots' time
    differs most.
    """
    first = runs[0].summary
    for n, run in enumerate(runs[1:], 1):
        own = run.summary
        ratio = 1.0
        if first.makespan_s:
            ratio = own.makespan_s / first.makespan_s
        how = f"{show_ratio(ratio)} as long"
        if abs(ratio - 1) < NOTABLE:
            how = "about as long"
        changes = [
            (b.seconds - a.seconds, b.noun) for a, b in zip(split(first), split(own), strict=True)
        ]
        change, noun = max(changes, key=lambda item: abs(item[0]))
        times = f"{show_seconds(own.makespan_s)} against {show_seconds(first.makespan_s)}"
        yield f"{letter(n)} took {how} as A ({times}){_most(change, noun)}."


def _most(change_s: float, noun: str) -> str:
    """What differs most between two runs, in words; '' where nothing does."""
    if not change_s:
        return ""
    direction = "less"
    if change_s > 0:
        direction = "more"
    return f"; what differs most is {noun}, {show_seconds(abs(change_s))} {direction}"


def show_ratio(ratio: float) -> str:
    """A ratio with two decimals, small ones with two digits: `0.52 x`."""
    if ratio >= 0.1 or ratio == 0:
        return f"{ratio:.2f} x"
    return f"{ratio:.2g} x"


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """The numbers that are compared."""
    each = [run.summary for run in runs]
    parts = [{part.label: part.seconds for part in split(s)} for s in each]
    return [
        Row("makespan", [s.makespan_s for s in each], show_seconds),
        Row("start-up", [s.startup_s for s in each], show_seconds),
        *(
            Row(label, [own[label] for own in parts], show_seconds, of_slots=True)
            for label in parts[0]
        ),
        Row("CPU time", [s.cpu_s for s in each], show_seconds),
        Row("run-queue wait", [s.runq_s for s in each], show_seconds),
        Row("slots", [s.slots for s in each], _show_number),
        Row("average parallelism", [s.average_parallelism for s in each], _show_number),
        Row("throughput", [s.total_nbytes_per_s for s in each], show_rate),
        Row("bytes read", [s.read_nbytes for s in each], show_bytes),
        Row("bytes written", [s.written_nbytes for s in each], show_bytes),
        Row("bytes moved", [s.moved_nbytes for s in each], show_bytes),
        Row(
            "peak memory", [max(s.max_rss_nbytes.values(), default=None) for s in each], show_bytes
        ),
        Row("tasks", [s.tasks for s in each], _show_number),
        Row("lost attempts", [s.lost_attempts for s in each], _show_number),
    ]


def _show_number(value: float) -> str:
    return f"{value:,.2f}".removesuffix(".00")


def _measures(runs: Sequence[Run]) -> str:
    """One line per number, one column per run, with the ratio to the first run; the more they
    differ, the darker.
    """
    rows = [row for row in rows_of(runs) if any(row.values)]
    most = max((row for row in rows if row.of_slots), key=_spread, default=None)
    trifle = TRIFLE * max(sum(part.seconds for part in split(run.summary)) for run in runs)
    heads = "<th></th>" + "".join(f"<th>{_badge(n)}</th>" for n in range(len(runs)))
    body = "".join(_line(row, row is most, trifle) for row in rows)
    hint = (
        "Read to idle are sums over all slots. Beside each number: its ratio to A; orange is more,"
        " blue less. Bold: the part of the slots' time that differs most."
    )
    return (
        f'<section class="compared">\n<h2>Measures</h2>\n<p class="hint">{hint}</p>\n<div'
        ' class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n</section>"
    )


def _line(row: Row, is_most: bool, trifle: float) -> str:
    mark = ""
    if is_most:
        mark = " class=most"
    if not row.of_slots:
        trifle = 0.0
    cells = "".join(_cell(row, n, trifle) for n in range(len(row.values)))
    return f"<tr{mark}><th>{escape(row.label)}</th>{cells}</tr>\n"


def _spread(row: Row) -> float:
    known = [value for value in row.values if value is not None]
    return max(known) - min(known)


def _cell(row: Row, n: int, trifle: float) -> str:
    value = row.values[n]
    first = row.values[0]
    if value is None:
        return "<td>unknown</td>"
    if n == 0 or first is None:
        return f"<td>{row.show(value)}</td>"
    ratio = math.inf
    if first:
        ratio = value / first
    elif value == first:
        ratio = 1.0
    told = "new"
    if math.isfinite(ratio):
        told = show_ratio(ratio)
    return (
        f"<td>{row.show(value)}<span{_mark(ratio, abs(value - first) < trifle)}>{told}</span></td>"
    )


def _mark(ratio: float, trifling: bool) -> str:
    """Background of a ratio: how strongly it differs from 1, and to which side."""
    if trifling or abs(ratio - 1) < NOTABLE:
        return ""
    strength = 1.0
    if 0 < ratio < math.inf:
        strength = min(1.0, abs(math.log(ratio)) / math.log(STRONG))
    colour = LESS
    if ratio > 1:
        colour = MORE
    return f' style="background:rgba({colour}, {0.12 + 0.38 * strength:.2f});color:#1d2330"'


def _totals(runs: Sequence[Run]) -> str:
    """The slots' time of every run as a stacked bar, all on one scale."""
    splits = [split(run.summary) for run in runs]
    totals = [sum(part.seconds for part in parts) for parts in splits]
    scale = max(totals)
    if not scale:
        return ""
    bars = "".join(
        f'{_badge(n)}<div class="bar">'
        + "".join(_piece(part, scale) for part in parts)
        + f'</div><span class="hint">{show_seconds(totals[n])}</span>\n'
        for n, parts in enumerate(splits)
    )
    used = {part.label for parts in splits for part in parts if part.seconds}
    colours = {label: colour for label, colour in PART_COLOURS.items() if label in used}
    hint = "Slots x makespan without start-up, over all slots, on one scale."
    return (
        f'<section>\n<h2>Where the slots\' time went</h2>\n<p class="hint">{hint}</p>\n'
        f'<div class="bars">{bars}</div>\n{_key(colours)}\n</section>'
    )


def _piece(part: Part, scale: float) -> str:
    style = f"width:{100 * part.seconds / scale:.3f}%;background:{PART_COLOURS[part.label]}"
    return f'<div title="{part.label} {show_seconds(part.seconds)}" style="{style}"></div>'


def _key(colours: Mapping[str, str]) -> str:
    entries = "".join(
        f'<span><i style="background:{colour}"></i>{label}</span>'
        for label, colour in colours.items()
    )
    return f'<div class="key">{entries}</div>'


def _pictures(runs: Sequence[Run], names: Sequence[str]) -> str:
    axis = Axis([run.trace for run in runs])
    drawn = "".join(
        f"<div><p>{_badge(n)}{escape(names[n])}</p>\n"
        f'<div class="wide">{thumbnail(run.trace, axis, names[n])}</div></div>\n'
        for n, run in enumerate(runs)
    )
    hint = (
        "One lane per slot, all on one time axis, in seconds since the engine was ready; grey"
        " before: its start-up. Every column has the colour of what took most of it, pale where the"
        " slot was free for most of it."
    )
    return (
        '<section class="pictures">\n<h2>Over time</h2>\n<p'
        f' class="hint">{hint}</p>\n{_key(FILLS)}\n{drawn}</section>'
    )


def _differing(runs: Sequence[Run]) -> str:
    """Provenance that is not the same for all."""
    facts = [{**run.facts, **circumstances(run.trace)} for run in runs]
    labels = list(dict.fromkeys(label for own in facts for label in own))
    differing = [label for label in labels if len({own.get(label) for own in facts}) > 1]
    heads = "<th></th>" + "".join(f"<th>{_badge(n)}</th>" for n in range(len(runs)))
    rows = "".join(
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td>{whole_flags(escape(own.get(label, '')))}</td>" for own in facts)
        + "</tr>\n"
        for label in differing
    )
    same = show_count(len(labels) - len(differing), "fact")
    table = f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>"
    return (
        f'<section class="differing">\n<h2>What differs</h2>\n<p class="hint">{same} are the same'
        f' for all.</p>\n<div class="wide"><table>\n{table}</table></div>\n</section>'
    )
