"""Numbers of cells, and what grows with workers and blocks, as sheets of an experiment."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.apps.experiment.answer import Answer
from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.expectation import mean
from hyperslab.apps.experiment.intervals import ratio_of
from hyperslab.apps.experiment.phases import CellPhases, first_reads, kinds_of, reads_itself
from hyperslab.apps.experiment.published import Published
from hyperslab.apps.experiment.sections import Sheet
from hyperslab.apps.experiment.shown import show_interval, show_mean
from hyperslab.apps.experiment.spreads import Spread
from hyperslab.units import show_rate, show_seconds, show_share

UNKNOWN = "not known"
GARBAGE = "java_gc_s"
NUMBERS_HINT = (
    "Means over replicates; sums are over all slots. Average parallelism: integral of the number of"
    " busy slots / makespan without start-up. Input and output: time in phases less processor time,"
    " so that sleeping counts there, too. Garbage: time in which tasks waited for Java to collect"
    " it, where they ran in Java."
)
GROWTH_HINT = (
    "Slopes of least squares over the levels of workers, all else at the baseline, in seconds of"
    " all slots for each further worker: means over replicates, with 95 % intervals."
)
PHASES_HINT = (
    "Mean time of a task in each kind of phase, over all trials. First reads: those of the first"
    " task of each slot, beside those of all later tasks, with 95 % intervals over replicates; none"
    " where somebody else reads before tasks begin, as Java does for Spark's binaryFiles. It is"
    " what a first touch costs, as of files and libraries that nobody has opened yet, beside that"
    " all slots begin at once: the two cannot be told apart by times alone."
)
SPREAD_HINT = (
    "Standard deviations over replicates of logarithms, which are about those in proportion to the"
    " mean, all else at the baseline; what all trials of a replicate share is left out where there"
    " are several engines."
)


def numbers_sheet(answer: Answer) -> Sheet:
    """Rates, parallelism and processor time of every cell."""
    columns = [
        "cell",
        "read",
        "written",
        "average parallelism",
        "processor time",
        "input and output",
    ]
    told = [result for result in answer.results if result.done]
    rows = [tuple(_numbers(result)) for result in told]
    collected = [_garbage(result) for result in told]
    if any(collected):
        columns.append("garbage")
        rows = [(*row, words or "-") for row, words in zip(rows, collected, strict=True)]
    return Sheet("Numbers of the cells", columns, rows, NUMBERS_HINT)


def _garbage(result: CellResult) -> str:
    """Time in which tasks of a cell waited for Java to collect garbage; '' where none did."""
    known = [one for one in result.done if one.numbers.get(GARBAGE) is not None]
    if not known:
        return ""
    return show_seconds(result.mean(GARBAGE))


def _numbers(result: CellResult) -> Iterator[str]:
    yield result.cell.name
    for name in ("read_nbytes_per_s", "written_nbytes_per_s"):
        yield _shown_rate(result.mean(name))
    yield f"{result.mean('average_parallelism'):.2f}"
    cpu_s = mean([attempt.numbers.get("cpu_s") for attempt in result.done])
    if cpu_s is None:
        yield from (UNKNOWN, UNKNOWN)
        return
    yield show_seconds(cpu_s)
    yield show_seconds(max(0.0, result.mean("busy_s") - cpu_s))


def _shown_rate(nbytes_per_s: float) -> str:
    """A rate in words; what programs read by themselves nobody has counted."""
    if not nbytes_per_s:
        return UNKNOWN
    return show_rate(nbytes_per_s)


def phases_sheet(answer: Answer) -> Sheet:
    """Phases of a task of every cell, and the first reads of slots beside later ones."""
    kinds = kinds_of(answer.phases)
    columns = ("cell", *kinds, "first / later reads")
    rows = [
        (
            one.result.cell.name,
            *(show_seconds(one.mean(kind)) for kind in kinds),
            _first(one),
        )
        for one in answer.phases
    ]
    return Sheet("Phases of a task", columns, rows, PHASES_HINT)


def _first(cell: CellPhases) -> str:
    ratios = first_reads([cell])
    if not ratios or not reads_itself(cell.result):
        return "-"
    return show_interval(ratio_of(ratios))


def trends_sheets(answer: Answer, published: Published | None) -> list[Sheet]:
    """What grows with each worker, and how variance goes with blocks."""
    return [_growth(answer, published), *map(_spread, answer.trends.spreads)]


def _growth(answer: Answer, published: Published | None) -> Sheet:
    columns = ["engine", "overhead", "transfer"]
    hint = GROWTH_HINT
    told: dict[str, tuple[str, ...]] = {}
    if published is not None and published.slopes is not None:
        slopes = published.slopes
        columns += ["published overhead", "published transfer"]
        hint += f" Published: {slopes.about}"
        for engine, overhead_s in slopes.overhead_s.items():
            told[engine] = (f"{overhead_s:g} s", f"{slopes.transfer_s[engine]:g} s")
    none = ("-",) * (len(columns) - 3)
    rows = [
        (
            growth.engine,
            show_mean(list(growth.overhead_s.values()), " s"),
            show_mean(list(growth.transfer_s.values()), " s"),
            *told.get(growth.engine, none),
        )
        for growth in answer.trends.growths
    ]
    return Sheet("What each further worker costs", columns, rows, hint)


def _spread(spread: Spread) -> Sheet:
    rows = [
        (f"{blocks:g}", show_share(makespan), _shown_deviation(overhead))
        for blocks, makespan, overhead in spread.deviations
    ]
    columns = (spread.factor, "makespan varies by", "overhead varies by")
    title = f"Variance against {spread.factor}: {spread.engine or 'all'}"
    return Sheet(title, columns, rows, SPREAD_HINT)


def _shown_deviation(deviation: float | None) -> str:
    if deviation is None:
        return UNKNOWN
    return show_share(deviation)
