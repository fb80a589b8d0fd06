"""The page of an experiment: one HTML file that needs no network, with the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from hyperslab.apps.experiment.answer import Answer, show_interval
from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.record import Attempt, Record
from hyperslab.apps.experiment.runner import Experiment
from hyperslab.report.html import PART_COLOURS, document
from hyperslab.report.prose import prose
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_bytes, show_count, show_seconds, show_share

PARTS = ("read", "compute", "write", "other", "overhead", "idle")
"Parts of the slots' time, as fields of the summary without _s."
WIDTH = 760
ROW = 26
LABELS = 260
COLOUR = "#0072b2"
STYLE = """
.means li { margin: 4px 0 }
.means h3 { margin: 14px 0 4px; font-size: 14px; color: #5b6475; font-weight: 650 }
.means ul { margin: 0; padding-left: 20px }
.means .decision { font-size: 17px }
.bars { display: grid; grid-template-columns: auto 1fr auto; gap: 8px 14px; align-items: center }
.bars .bar { background: none }
.cells td, .cells th { white-space: nowrap; font-variant-numeric: tabular-nums }
.intervals svg { max-width: 100%; height: auto }
"""


def write_experiment_page(
    path: Path, experiment: Experiment, record: Record, answer: Answer
) -> None:
    """Write the page of what was recorded so far, and what it means. It appears whole or not at
    all.
    """
    spec = experiment.loaded.spec
    about = [experiment.loaded.name, experiment.loaded.scale, spec.workload]
    about.append(show_count(len(experiment.trials), "trial"))
    sections = [
        f"<h1>{escape(spec.title)}</h1>",
        f'<p class="about">{escape(" · ".join(filter(None, about)))}</p>',
        _means(answer, spec.question),
        _makespans(answer.results),
        _totals(answer.results),
        _comparisons(answer),
        _trials(record.attempts),
        _sessions(record),
    ]
    replace_text(path, document(spec.title, sections, STYLE))


def _means(answer: Answer, question: str) -> str:
    decision = "".join(f"<p class=decision>{prose(text)}</p>\n" for text in answer.decision)
    asked = ""
    if question:
        asked = f'<p class="hint">{escape(question)}</p>\n'
    return (
        f'<section class="means">\n<h2>What this means</h2>\n{asked}{decision}'
        f"<h3>Evidence</h3>\n{_list(answer.evidence)}"
        f"<h3>How sure</h3>\n{_list(answer.certainty)}</section>"
    )


def _list(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{prose(text)}</li>\n" for text in sentences)
    return f"<ul>\n{items}</ul>\n"


def _makespans(results: Sequence[CellResult]) -> str:
    """Mean makespans with their intervals, and every replicate as a dot."""
    known = [result for result in results if result.makespan_s is not None]
    if not known:
        return ""
    hint = "Mean over replicates with its 95 % interval; dots: replicates."
    return (
        f'<section class="intervals">\n<h2>Makespan</h2>\n<p class="hint">{hint}</p>\n'
        f'<div class="wide">{_intervals_svg(known)}</div>\n</section>'
    )


def _intervals_svg(results: Sequence[CellResult]) -> str:
    values = [value for result in results for value in result.by_replicate().values()]
    highs = [high for result in results if (high := _bounds(result)[1]) is not None]
    most = 1.05 * max([*values, *highs])
    height = ROW * len(results) + 30
    head = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
    parts = [f'{head} font-size="12"><title>Makespans</title>']
    for step in range(5):
        x = _x(step / 4 * most, most)
        parts.append(f'<path d="M{x:.1f} 0V{height - 24}" stroke="#eceef1"/>')
        label = show_seconds(step / 4 * most)
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for n, result in enumerate(results):
        parts += _interval_row(result, ROW * n + ROW / 2, most)
    return "".join([*parts, "</svg>"])


def _interval_row(result: CellResult, y: float, most: float) -> Iterator[str]:
    assert result.makespan_s is not None
    yield f'<text x="{LABELS - 12}" y="{y + 4:.1f}" text-anchor="end">'
    yield f"{escape(result.cell.name)}</text>"
    for value in result.by_replicate().values():
        yield f'<circle cx="{_x(value, most):.1f}" cy="{y:.1f}" r="2.5" fill="#8a93a3"/>'
    low, high = _bounds(result)
    if low is not None and high is not None:
        start = _x(max(0.0, low), most)
        yield f'<path d="M{start:.1f} {y:.1f}H{_x(high, most):.1f}" stroke="{COLOUR}"'
        yield ' stroke-width="2"/>'
    mean = _x(result.makespan_s.mean, most)
    yield f'<circle cx="{mean:.1f}" cy="{y:.1f}" r="4.5" fill="{COLOUR}"/>'


def _bounds(result: CellResult) -> tuple[float | None, float | None]:
    if result.makespan_s is None:
        return None, None
    return result.makespan_s.low, result.makespan_s.high


def _x(seconds: float, most: float) -> float:
    return LABELS + seconds / most * (WIDTH - LABELS - 20)


def _totals(results: Sequence[CellResult]) -> str:
    """The slots' time of every cell as a stacked bar, means over replicates, on one scale."""
    totals = [sum(result.mean(f"{part}_s") for part in PARTS) for result in results]
    most = max(totals, default=0.0)
    if not most:
        return ""
    bars = "".join(
        f'<span>{escape(result.cell.name)}</span><div class="bar">{_pieces(result, most)}</div>'
        f'<span class="hint">{show_seconds(total)}</span>\n'
        for result, total in zip(results, totals, strict=True)
        if total
    )
    key = "".join(
        f'<span><i style="background:{PART_COLOURS[part]}"></i>{part}</span>' for part in PARTS
    )
    hint = "Slots x makespan without start-up, mean over replicates, on one scale."
    return (
        f'<section>\n<h2>Where the slots\' time went</h2>\n<p class="hint">{hint}</p>\n'
        f'<div class="bars">{bars}</div>\n<div class="key">{key}</div>\n</section>'
    )


def _pieces(result: CellResult, most: float) -> str:
    return "".join(
        f'<div title="{part} {show_seconds(result.mean(f"{part}_s"))}"'
        f' style="width:{100 * result.mean(f"{part}_s") / most:.3f}%;'
        f'background:{PART_COLOURS[part]}"></div>'
        for part in PARTS
    )


def _comparisons(answer: Answer) -> str:
    """Every comparison, those away from the baseline included."""
    rows = "".join(
        f"<tr><th>{escape(one.cell.name)}</th><td>{escape(one.reference.name)}</td>"
        f"<td>{one.pairs}</td><td>{show_interval(one.ratio)}</td><td>{one.verdict}</td></tr>\n"
        for one in answer.comparisons
        if one.ratio is not None
    )
    if not rows:
        return ""
    heads = _heads("cell", "beside", "pairs", "ratio of makespans (95 % interval)", "verdict")
    return _table("cells", "Comparisons, one factor at a time", heads, rows)


def _trials(attempts: Sequence[Attempt]) -> str:
    rows = "".join(_trial(attempt) for attempt in attempts)
    names = ("trial", "replicate", "levels", "state", "makespan", "written", "others", "stolen")
    return _table("cells", "Trials in their order", _heads(*names), rows)


def _trial(attempt: Attempt) -> str:
    levels = ", ".join(f"{name} {level}" for name, level in attempt.levels.items())
    state: str = attempt.state
    if attempt.reason:
        state = f"{state}: {attempt.reason}"
    if attempt.starved:
        state = f"{state}; starved: {attempt.starved}"
    cells = (
        f"{attempt.number}.{attempt.attempt}",
        str(attempt.replicate),
        levels,
        state,
        _known(attempt, "makespan_s", show_seconds),
        _known(attempt, "written_nbytes", show_bytes),
        _share(attempt, "others_share"),
        _share(attempt, "stolen_share"),
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>\n"


def _known(attempt: Attempt, name: str, show: object) -> str:
    value = attempt.numbers.get(name)
    if value is None or not callable(show):
        return ""
    return str(show(value))


def _share(attempt: Attempt, name: str) -> str:
    share = attempt.load_during.get(name)
    if share is None:
        return "unknown"
    return show_share(share)


def _sessions(record: Record) -> str:
    """The machine of every session."""
    if not record.sessions:
        return ""
    names = list(dict.fromkeys(name for one in record.sessions for name in one.machine))
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{escape(str(one.machine.get(name, '')))}</td>" for one in record.sessions)
        + "</tr>\n"
        for name in names
    )
    heads = _heads("", *(f"session {one.number}" for one in record.sessions))
    return _table("facts", "Machine", heads, rows)


def _heads(*names: str) -> str:
    return "".join(f"<th>{escape(name)}</th>" for name in names)


def _table(style: str, title: str, heads: str, rows: str) -> str:
    return (
        f'<section class="{style}">\n<h2>{title}</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>"
    )
