"""Published numbers beside those of an experiment, as its sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.expectation import mean
from hyperslab.apps.experiment.answers.published import (
    Beside,
    Levels,
    Published,
    PublishedTable,
    Row,
    Split,
    beside,
    splits,
)
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.report.compare import show_ratio

NONE = "-"
SPLIT_COLUMNS = (
    "published cell",
    "beside",
    "processor time, published",
    "here",
    "input and output, published",
    "here",
    "cell here",
)
SPLIT_HINT = (
    "Ratios of sums over all programs, of means over replicates. Input and output: time that is no"
    " processor time, there and here."
)
COLUMNS = ("published cell", "published", "here", "here / published", "cell here")


def published_sheets(answer: Answer, published: Published | None) -> list[Sheet]:
    """Every published table, its ratios beside those of this experiment."""
    if published is None:
        return []
    found = []
    for one in published.tables:
        found.append(_sheet(one, answer))
        if told := splits(one, answer.results):
            found.append(_split_sheet(one, told))
    return found


def _sheet(published: PublishedTable, answer: Answer) -> Sheet:
    found = beside(published, answer.results)
    baseline = _words(published, published.baseline)
    told = [
        f"Makespans over that of one cell: {baseline}.",
        f"{published.source}.",
        f"{published.where}.",
        published.provenance,
    ]
    rows = [_row(published, one) for one in found]
    return Sheet(f"Published: {published.title}", COLUMNS, rows, " ".join(told))


def _row(table: PublishedTable, one: Beside) -> tuple[str, ...]:
    words = _words(table, one.levels, one.row)
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


def _words(table: PublishedTable, levels: Levels, row: Row | None = None) -> str:
    """Levels of a published cell, with what shares of the processors come to there."""
    told = []
    for name, level in levels.items():
        number = table.number_of(name, level)
        told.append(f"{name} {level}" if number == level else f"{name} {level} ({number})")
    words = ", ".join(told)
    if row is not None and row.stands_for:
        words += f" (there: {row.stands_for})"
    return words


# Processor time, and input and output


def _split_sheet(table: PublishedTable, found: Sequence[Split]) -> Sheet:
    rows = [tuple(_split_row(table, one)) for one in found]
    title = f"Published: {table.title}, processor time and input and output"
    return Sheet(title, SPLIT_COLUMNS, rows, f"{SPLIT_HINT} {table.source}. {table.provenance}")


def _split_row(table: PublishedTable, one: Split) -> Iterator[str]:
    yield _words(table, one.levels, one.row)
    yield _words(table, one.base)
    yield _told(one.cpu)
    yield _over(one, "processor time", processor_s)
    yield _told(one.io)
    yield _over(one, "time off the processor", waiting_s)
    yield _name(one.result)


def _told(ratio: float | None) -> str:
    if ratio is None:
        return NONE
    return show_ratio(ratio)


def _over(one: Split, what: str, seconds: Callable[[CellResult], float | None]) -> str:
    """A number of a cell over that of the other one, or why there is no ratio."""
    if one.result is None or one.reference is None:
        return NONE
    both = [seconds(one.result), seconds(one.reference)]
    if None in both:
        return f"{NONE} ({what} is not known)"
    own, other = (value for value in both if value is not None)
    if own <= 0 or other <= 0:
        return f"{NONE} (there is no {what})"
    return show_ratio(own / other)


def processor_s(result: CellResult) -> float | None:
    """Mean processor time of all tasks of a cell's trials; None where one does not know its own."""
    return mean([attempt.numbers.get("cpu_s") for attempt in result.done])


def waiting_s(result: CellResult) -> float | None:
    """Mean time of all tasks that is no processor time, as in the paper's formula: it is less than
    nothing where tasks computed on several processors. None where it is not known.
    """
    cpu_s = processor_s(result)
    if cpu_s is None:
        return None
    return result.mean("busy_s") - cpu_s
