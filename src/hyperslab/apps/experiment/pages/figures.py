"""Figures: what an experiment came to, as files for documents: Markdown and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.published import published_for
from hyperslab.apps.experiment.pages.charts import (
    makespans_svg,
    ratios_svg,
    standing_alone,
    totals_svg,
)
from hyperslab.apps.experiment.pages.expected import expected_sheet, places_sheet
from hyperslab.apps.experiment.pages.links import links_sheet
from hyperslab.apps.experiment.pages.published import published_sheets
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.pages.sheets import cells_sheet, comparisons_sheet, sessions_sheet
from hyperslab.apps.experiment.pages.trends import numbers_sheet, phases_sheet, trends_sheets
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from hyperslab.storage.whole import replace_text


def write_figures(
    folder: Path, experiment: Experiment, record: Record, answer: Answer
) -> list[Path]:
    """Write `answer.md`, `tables.md` and charts into a folder, which is made if it is not there;
    returns the files. Raises UsageError.
    """
    texts = dict(_texts(experiment, record, answer))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_text(folder / name, text)
    except OSError as error:
        raise UsageError(f"--figures {folder}: {error.strerror}") from error
    return [folder / name for name in texts]


def _texts(experiment: Experiment, record: Record, answer: Answer) -> Iterator[tuple[str, str]]:
    yield "answer.md", answer_text(experiment, answer)
    sheets = sheets_of(experiment, record, answer)
    yield "tables.md", "\n".join(filter(None, [sheet.markdown() for sheet in sheets]))
    known = [result for result in answer.results if result.makespan_s is not None]
    if known:
        yield "makespans.svg", standing_alone(makespans_svg(known))
    if totals := totals_svg(known):
        yield "totals.svg", standing_alone(totals)
    if ratios := ratios_svg(answer.expected):
        yield "expected.svg", standing_alone(ratios)


def sheets_of(experiment: Experiment, record: Record, answer: Answer) -> list[Sheet]:
    """All tables of an experiment."""
    published = published_for(experiment.loaded.name)
    return [
        cells_sheet(answer),
        comparisons_sheet(answer),
        expected_sheet(answer),
        places_sheet(answer),
        links_sheet(answer),
        *published_sheets(answer, published),
        numbers_sheet(answer),
        phases_sheet(answer),
        *trends_sheets(answer, published),
        sessions_sheet(record),
    ]


def answer_text(experiment: Experiment, answer: Answer) -> str:
    """The answer as Markdown, with the command that runs its experiment."""
    loaded = experiment.loaded
    scale = ""
    if loaded.scale:
        scale = f" --scale {loaded.scale}"
    lines = [f"Made by `hyperslab experiment run {loaded.name}{scale}`.", ""]
    for title, sentences in (
        ("What this means", answer.decision),
        ("Evidence", answer.evidence),
        ("How sure", answer.certainty),
    ):
        lines += [f"## {title}", "", *_list(sentences), ""]
    return "\n".join(lines)


def _list(sentences: Sequence[str]) -> list[str]:
    return [f"- {text}" for text in sentences]
