"""The page of an experiment: one HTML file that needs no network, with the answer first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.published import published_for
from hyperslab.apps.experiment.pages.charts import makespans_svg, ratios_svg, totals_svg
from hyperslab.apps.experiment.pages.expected import expected_section
from hyperslab.apps.experiment.pages.gantts import gantt_section, page_of, write_trial_pages
from hyperslab.apps.experiment.pages.links import links_sheet
from hyperslab.apps.experiment.pages.published import published_sheets
from hyperslab.apps.experiment.pages.sections import html_list
from hyperslab.apps.experiment.pages.sheets import comparisons_sheet, sessions_sheet
from hyperslab.apps.experiment.pages.trends import numbers_sheet, phases_sheet, trends_sheets
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.report.html import document
from hyperslab.report.prose import prose
from hyperslab.storage.whole import replace_text, sweep
from hyperslab.units import show_bytes, show_count, show_seconds, show_share

STYLE = """
.means li { margin: 4px 0 }
.means h3 { margin: 14px 0 4px; font-size: 14px; color: #5b6475; font-weight: 650 }
.means ul { margin: 0; padding-left: 20px }
.means .decision { font-size: 17px }
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
    published = published_for(experiment.loaded.name)
    write_trial_pages(experiment.directory, record.counted())
    sections = [
        f"<h1>{escape(spec.title)}</h1>",
        f'<p class="about">{escape(" · ".join(filter(None, about)))}</p>',
        _means(answer, spec.question),
        _makespans(answer.results),
        _totals(answer.results),
        comparisons_sheet(answer).html(),
        links_sheet(answer).html(),
        _ratios(answer),
        expected_section(answer),
        *(sheet.html() for sheet in published_sheets(answer, published)),
        numbers_sheet(answer).html(),
        phases_sheet(answer).html(),
        *(sheet.html() for sheet in trends_sheets(answer, published)),
        gantt_section(experiment.directory, answer.results),
        _trials(experiment.directory, record.attempts),
        sessions_sheet(record).html("facts"),
    ]
    sweep(path)
    replace_text(path, document(spec.title, sections, STYLE))


def _means(answer: Answer, question: str) -> str:
    decision = "".join(f"<p class=decision>{prose(text)}</p>\n" for text in answer.decision)
    asked = ""
    if question:
        asked = f'<p class="hint">{escape(question)}</p>\n'
    return (
        f'<section class="means">\n<h2>What this means</h2>\n{asked}{decision}'
        f"<h3>Evidence</h3>\n{html_list(answer.evidence)}"
        f"<h3>How sure</h3>\n{html_list(answer.certainty)}</section>"
    )


def _makespans(results: Sequence[CellResult]) -> str:
    """Mean makespans with their intervals, and every replicate as a dot."""
    known = [result for result in results if result.makespan_s is not None]
    if not known:
        return ""
    hint = "Mean over replicates with its 95 % interval; dots: replicates."
    return (
        f'<section class="intervals">\n<h2>Makespan</h2>\n<p class="hint">{hint}</p>\n'
        f'<div class="wide">{makespans_svg(known)}</div>\n</section>'
    )


def _totals(results: Sequence[CellResult]) -> str:
    """The slots' time of every cell as a stacked bar."""
    chart = totals_svg(results)
    if not chart:
        return ""
    hint = "Slots x makespan without start-up, mean over replicates, on one scale."
    return (
        f'<section class="intervals">\n<h2>Where the slots\' time went</h2>\n<p class="hint">{hint}'
        f'</p>\n<div class="wide">{chart}</div>\n</section>'
    )


def _ratios(answer: Answer) -> str:
    """How far every cell is off both models."""
    chart = ratios_svg(answer.expected)
    if not chart:
        return ""
    return (
        '<section class="intervals">\n<h2>Measured over expected</h2>\n'
        f'<div class="wide">{chart}</div>\n</section>'
    )


def _trials(directory: ExperimentDirectory, attempts: Sequence[Attempt]) -> str:
    rows = "".join(_trial(attempt, page_of(directory, attempt)) for attempt in attempts)
    columns = "trial", "replicate", "levels", "state", "makespan", "written", "others", "stolen"
    heads = "".join(f"<th>{column}</th>" for column in columns)
    return (
        '<section class="cells">\n<h2>Trials in their order</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</section>"
    )


def _trial(attempt: Attempt, page: str) -> str:
    levels = ", ".join(f"{name} {level}" for name, level in attempt.levels.items())
    state: str = attempt.state
    if attempt.reason:
        state = f"{state}: {attempt.reason}"
    if attempt.starved:
        state = f"{state}; starved: {attempt.starved}"
    if attempt.rejected:
        state = f"{state}; kept out: {attempt.rejected}"
    name = f"{attempt.number}.{attempt.attempt}"
    replicate = str(attempt.replicate)
    if attempt.is_warm_up:
        name = f"warm-up {attempt.attempt}"
        replicate = ""
    cells = (
        replicate,
        levels,
        state,
        _known(attempt, "makespan_s", show_seconds),
        _known(attempt, "written_nbytes", show_bytes),
        _share(attempt, "others_share"),
        _share(attempt, "stolen_share"),
    )
    if page:
        name = f'<a href="{escape(page)}">{name}</a>'
    values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr><td>{name}</td>{values}</tr>\n"


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
