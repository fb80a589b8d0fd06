"""Published numbers beside those of an experiment, as its sheets."""

from __future__ import annotations

from hyperslab.apps.experiment.answer import Answer
from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.published import Beside, Published, PublishedTable, beside
from hyperslab.apps.experiment.sections import Sheet
from hyperslab.report.compare import show_ratio

NONE = "-"
COLUMNS = ("published cell", "published", "here", "here / published", "cell here")


def published_sheets(answer: Answer, published: Published | None) -> list[Sheet]:
    """Every published table, its ratios beside those of this experiment."""
    if published is None:
        return []
    return [_sheet(one, answer) for one in published.tables]


def _sheet(published: PublishedTable, answer: Answer) -> Sheet:
    found = beside(published, answer.results)
    baseline = ", ".join(f"{name} {level}" for name, level in published.baseline.items())
    told = [
        f"Makespans over that of one cell: {baseline}.",
        f"{published.source}.",
        f"{published.where}.",
        published.provenance,
    ]
    return Sheet(f"Published: {published.title}", COLUMNS, list(map(_row, found)), " ".join(told))


def _row(one: Beside) -> tuple[str, ...]:
    words = ", ".join(f"{name} {level}" for name, level in one.levels.items())
    if one.row.stands_for:
        words += f" (there: {one.row.stands_for})"
    published = f"{one.limit} {show_ratio(one.published)}".strip()
    measured = one.measured
    if measured is None:
        return words, published, NONE, NONE, _name(one.result)
    quotient = f"{measured / one.published:.2f}"
    return words, published, show_ratio(measured), quotient, _name(one.result)


def _name(result: CellResult | None) -> str:
    if result is None:
        return "none such"
    return ", ".join(f"{name} {result.cell.shown(name)}" for name in result.cell.levels)
