"""Published: what a paper has measured, beside the same cells of an experiment, as ratios.

Times of other machines and other sizes compare with nothing; how much longer one level takes than
another may. A published row is joined to the cell with the same names of engines, tiers and
workloads, and, of a number, with the level that is as far from the baseline, or nearly so: 4 of 8
workers beside 1 of 2. Workers that are a share of the processors are numbers, too: what the share
comes to there and here. Both levels are told, as they need not be quite as far. A level that is
further than `TOLERANCE` from all that were tried is joined to none.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

from pydantic import Field, model_validator

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.plan.mistakes import Table

WORKERS = "workers"
TOLERANCE = 1.5
"Factor by which distances of joined levels from their baselines may differ."
ROUNDING = 1e-9
"What logarithms may be off by."
Positive = Annotated[float, Field(gt=0)]
Levels = dict[str, str | int | float]


class Row(Table):
    """A published cell."""

    levels: Levels
    "Levels that may differ from the table's baseline."
    makespan_s: Positive | None = None
    ratio: Positive | None = None
    "Makespan over that of the baseline, where no makespan is told."
    cpu_s: Positive | None = None
    "Processor time of all programs, where it is told."
    io_s: Positive | None = None
    "Time of all programs that is no processor time, where it is told."
    sd_s: float | None = None
    repetitions: int | None = None
    is_least: bool = False
    "Whether it took that long at least."
    stands_for: str = ""
    "Level of the paper, where another one takes its place here."

    @model_validator(mode="after")
    def _one_of_both(self) -> Row:
        if (self.makespan_s is None) == (self.ratio is None):
            raise ValueError("give one of makespan_s and ratio")
        return self


class PublishedTable(Table):
    """A table of a paper."""

    title: str
    source: str
    provenance: str
    "How its numbers came here: printed, recomputed, read off."
    where: str
    "Machine and data."
    baseline: Levels
    workers: dict[str, int] = Field(default_factory=dict)
    "Workers that levels which are shares of the processors, such as 0.25x, come to there."
    rows: list[Row]

    def number_of(self, name: str, level: Level) -> Level:
        """A level, or the number of workers that a share of the processors comes to there."""
        if name == WORKERS and isinstance(level, str):
            return self.workers.get(level, level)
        return level

    def levels_of(self, row: Row) -> Levels:
        """All levels of a row."""
        return {**self.baseline, **row.levels}


class Slopes(Table):
    """What grows with the workers, in seconds of all slots for each, by engine."""

    about: str
    overhead_s: dict[str, float]
    transfer_s: dict[str, float]


class Published(Table):
    """All that is shipped of published numbers for a spec."""

    tables: list[PublishedTable]
    slopes: Slopes | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """A published ratio beside that of the experiment."""

    levels: Levels
    "Levels of the published cell that differ from its reference, or all of the reference's."
    published: float
    "Makespan / that of the published reference."
    row: Row
    result: CellResult | None
    "The cell that it is joined to; None: the experiment has none such."
    reference: CellResult | None
    "The cell that stands for the reference."
    limit: str = ""
    "Words on a published ratio that is known from one side alone, such as 'at most'."

    @property
    def measured(self) -> float | None:
        """The same ratio, of the experiment."""
        cells = (self.result, self.reference)
        means = [one.makespan_s.mean for one in cells if one is not None and one.makespan_s]
        if len(means) < 2:
            return None
        return means[0] / means[1]


@dataclass(frozen=True, slots=True)
class Split:
    """Published processor time and input and output of a cell, over those of another one, beside
    the cells of the experiment.
    """

    levels: Levels
    "Levels of the published cell that differ from the table's baseline."
    base: Levels
    "Levels of the cell that it is compared with that do."
    cpu: float | None
    "Ratio of processor times; None where one of them is not told."
    io: float | None
    "Ratio of times of input and output; None where one of them is not told."
    row: Row
    result: CellResult | None
    "The cell that it is joined to; None: the experiment has none such."
    reference: CellResult | None
    "The cell that stands for the one that it is compared with."


def published_for(name: str) -> Published | None:
    """What is shipped for a spec of the package; None where there is nothing."""
    root = resources.files("hyperslab.apps.experiment") / "published"
    try:
        text = root.joinpath(*f"{name}.toml".split("/")).read_text(encoding="utf-8")
    except OSError:
        return None
    return Published.model_validate(tomllib.loads(text))


def beside(table: PublishedTable, results: Sequence[CellResult]) -> list[Beside]:
    """Every row of a table beside the experiment, as ratios to the table's baseline cell."""
    if not results:
        return []
    own = results[0].cell.levels
    reference_s = _seconds(table, table.baseline)
    reference = _joined(table, table.baseline, results, own)
    is_least = any(row.is_least for row in table.rows if table.levels_of(row) == table.baseline)
    found = []
    for row in table.rows:
        levels = table.levels_of(row)
        changed = _changed(table, levels)
        ratio = row.ratio
        if row.makespan_s is not None and reference_s is not None:
            ratio = row.makespan_s / reference_s
        if ratio is None:
            continue
        result = _joined(table, levels, results, own)
        limit = _limit(row, is_reference=not changed, reference_is_least=is_least)
        found.append(Beside(changed or levels, ratio, row, result, reference, limit))
    return found


def splits(table: PublishedTable, results: Sequence[CellResult]) -> list[Split]:
    """Processor time and input and output of every row that tells one of them, over the table's
    baseline cell, and over its own with the baseline's workers.
    """
    if not results:
        return []
    return [
        found
        for row in table.rows
        if row.cpu_s or row.io_s
        for base in _bases(table, row)
        if (found := _split(table, row, base, results)) is not None
    ]


def _bases(table: PublishedTable, row: Row) -> list[Levels]:
    """Levels of the cells that a row is compared with, which it is not itself."""
    levels = table.levels_of(row)
    found = [table.baseline]
    if WORKERS in table.baseline:
        found.append({**levels, WORKERS: table.baseline[WORKERS]})
    unique = [base for n, base in enumerate(found) if base not in found[:n]]
    return [base for base in unique if base != levels]


def _split(
    table: PublishedTable, row: Row, base: Levels, results: Sequence[CellResult]
) -> Split | None:
    """A row over the one of these levels; None where the table has none such."""
    own = results[0].cell.levels
    other = _row(table, base)
    if other is None:
        return None
    levels = table.levels_of(row)
    return Split(
        _changed(table, levels),
        _changed(table, base) or base,
        _over(row.cpu_s, other.cpu_s),
        _over(row.io_s, other.io_s),
        row,
        _joined(table, levels, results, own),
        _joined(table, base, results, own),
    )


def _over(own: float | None, other: float | None) -> float | None:
    if own is None or other is None:
        return None
    return own / other


def _changed(table: PublishedTable, levels: Levels) -> Levels:
    """Levels that differ from the table's baseline."""
    return {name: level for name, level in levels.items() if level != table.baseline[name]}


def _limit(row: Row, is_reference: bool, reference_is_least: bool) -> str:
    """Tell the side that a ratio is known from, where a makespan took that long at least."""
    if is_reference or row.is_least == reference_is_least:
        return ""
    if row.is_least:
        return "at least"
    return "at most"


def _seconds(table: PublishedTable, levels: Levels) -> float | None:
    found = _row(table, levels)
    return None if found is None else found.makespan_s


def _row(table: PublishedTable, levels: Levels) -> Row | None:
    """The row of these levels; None where the table has none such."""
    for row in table.rows:
        if table.levels_of(row) == levels:
            return row
    return None


def _joined(
    table: PublishedTable,
    levels: Levels,
    results: Sequence[CellResult],
    baseline: Mapping[str, Level],
) -> CellResult | None:
    """The cell that a published one is joined to."""
    wanted = dict(baseline)
    for name, level in levels.items():
        if name not in baseline:
            continue
        tried = {result.cell.levels[name]: _number(result, name) for result in results}
        there = table.number_of(name, level)
        base = table.number_of(name, table.baseline[name])
        found = matching(there, base, list(tried.values()), tried[baseline[name]])
        if found is None:
            return None
        wanted[name] = next(own for own, number in tried.items() if number == found)
    for result in results:
        if dict(result.cell.levels) == wanted:
            return result
    return None


def _number(result: CellResult, name: str) -> Level:
    """A level of a cell, or the number of workers that a share of the processors comes to on the
    machine of its trials; the share where they ran on machines of several sizes.
    """
    if name == WORKERS and len(result.cell.workers) == 1:
        return result.cell.workers[0]
    return result.cell.levels[name]


def matching(level: Level, base: Level, tried: Sequence[Level], own_base: Level) -> Level | None:
    """The level of those tried that is to the own baseline what a published level is to its own:
    the same word; of numbers the nearest ratio on the same side of the baseline, within the
    tolerance. None: there is none.
    """
    if not _is_number(level) or not _is_number(base) or not _is_number(own_base):
        return level if level in tried else None
    if level == base:
        return own_base
    wanted = _distance(level, base)
    far = {one: _distance(one, own_base) for one in tried if _is_number(one)}
    sided = [one for one, distance in far.items() if distance * wanted > 0]
    apart = {one: _apart(far[one], wanted) for one in sided}
    alike = [one for one in sided if apart[one] <= math.log(TOLERANCE) + ROUNDING]
    return min(alike, key=lambda one: apart[one], default=None)


def _is_number(level: Level) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def _apart(one: float, other: float) -> float:
    """How much two distances differ; two that nothing measures, not at all."""
    if one == other:
        return 0.0
    return abs(one - other)


def _distance(level: Level, base: Level) -> float:
    """Logarithm of the ratio of two numbers; of one to 0, the sign of the difference."""
    level = float(level)
    base = float(base)
    if level == base:
        return 0.0
    if level > 0 and base > 0:
        return math.log(level / base)
    return math.copysign(math.inf, level - base)
