"""Numbers of cells, and what grows with workers and blocks, as sheets of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.expectation import mean
from hyperslab.apps.experiment.answers.phases import (
    CellPhases,
    first_reads,
    has_one_file,
    kinds_of,
    reads_itself,
)
from hyperslab.apps.experiment.answers.published import Published, Slopes
from hyperslab.apps.experiment.answers.spreads import Spread
from hyperslab.apps.experiment.answers.trends import Growth
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.statistics.intervals import Interval, ratio_of
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.report.compare import show_ratio
from hyperslab.units import show_rate, show_seconds, show_share

UNKNOWN = "not known"
GARBAGE = "java_gc_s"
NUMBERS_HINT = (
    "Means over replicates; sums are over all slots. Average parallelism: integral of the number of"
    " busy slots / makespan without start-up. Input and output: time in phases less processor time,"
    " so that sleeping counts there, too; it says nothing where tasks used several processors."
    " Garbage: time in which tasks waited for Java to collect"
    " it, where they ran in Java."
)
GROWTH_HINT = (
    "Slopes of least squares over the levels of workers, all else at the baseline, in seconds of"
    " all slots for each further worker: means over the replicates that have all of these levels,"
    " with 95 % intervals."
)
GROWTH_TITLE = "What each further worker costs"
RATIOS_HINT = (
    "Ratios to the slope of one engine, where that is shown to be more than 0, as seconds of other"
    " machines compare with nothing."
)
NONE = "-"
PHASES_HINT = (
    "Mean time of a task in each kind of phase, over all trials. First reads: those of the first"
    " task of each slot, beside those of all later tasks, with 95 % intervals over replicates; none"
    " where somebody else reads before tasks begin, as Java does for Spark's binaryFiles. It is"
    " what a first touch costs, as of files and libraries that nobody has opened yet, beside that"
    " all slots begin at once: the two cannot be told apart by times alone. Of one file that all"
    " share, opening it and its header (open), the first touch of each slot and later ones are"
    " apart."
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
    yield _waiting(result.mean("busy_s"), cpu_s)


def _waiting(busy_s: float, cpu_s: float) -> str:
    """Time in phases that is no processor time, in words; there is none where a task computes on
    several processors.
    """
    if cpu_s > busy_s:
        return f"none (tasks used {cpu_s / busy_s:.3g} processors)" if busy_s else UNKNOWN
    return show_seconds(busy_s - cpu_s)


def _shown_rate(nbytes_per_s: float) -> str:
    """A rate in words; what programs read by themselves nobody has counted."""
    if not nbytes_per_s:
        return UNKNOWN
    return show_rate(nbytes_per_s)


def phases_sheet(answer: Answer) -> Sheet:
    """Phases of a task of every cell, and the first reads of slots beside later ones."""
    kinds = kinds_of(answer.phases)
    are_one_file = any(has_one_file(one.result) for one in answer.phases)
    touches = ("first touch", "later touches") if are_one_file else ()
    columns = ("cell", *kinds, *touches, "first / later reads")
    rows = [
        (
            one.result.cell.name,
            *(show_seconds(one.mean(kind)) for kind in kinds),
            *(_touches(one) if touches else ()),
            _first(one),
        )
        for one in answer.phases
    ]
    return Sheet("Phases of a task", columns, rows, PHASES_HINT)


def _touches(cell: CellPhases) -> tuple[str, str]:
    """Time in which the first task of each slot reads from the file that all share, and all others,
    without opening it; '-' where nobody knows.
    """
    if not has_one_file(cell.result) or not reads_itself(cell.result):
        return "-", "-"
    first = [one.first_touch_s for one in cell.trials if one.first_touch_s is not None]
    later = [one.later_touch_s for one in cell.trials if one.later_touch_s is not None]
    return _mean_words(first), _mean_words(later)


def _mean_words(seconds: Sequence[float]) -> str:
    return show_seconds(fmean(seconds)) if seconds else "-"


def _first(cell: CellPhases) -> str:
    ratios = first_reads([cell])
    if not ratios or not reads_itself(cell.result):
        return "-"
    return show_interval(ratio_of(ratios))


def trends_sheets(answer: Answer, published: Published | None) -> list[Sheet]:
    """What grows with each worker, and how variance goes with blocks."""
    return [_growth(answer, published), *map(_spread, answer.trends.spreads)]


def _growth(answer: Answer, published: Published | None) -> Sheet:
    columns = ["engine", "overhead", "transfer", "replicates"]
    growths = answer.trends.growths
    rows = [tuple(_slopes(growth)) for growth in growths]
    if published is None or published.slopes is None:
        return Sheet(GROWTH_TITLE, columns, rows, GROWTH_HINT)
    slopes = published.slopes
    base = next(iter(slopes.overhead_s))
    for name in ("overhead", "transfer"):
        columns += [f"{name} beside {base}", "published"]
    reference = answer.trends.growth(base)
    rows = [
        (*row, *_beside_base(growth, reference, slopes, base))
        for row, growth in zip(rows, growths, strict=True)
    ]
    hint = f"{GROWTH_HINT} {RATIOS_HINT} Published: {slopes.about}"
    return Sheet(GROWTH_TITLE, columns, rows, hint)


def _slopes(growth: Growth) -> Iterator[str]:
    yield growth.engine
    yield show_mean(list(growth.overhead_s.values()), " s")
    yield show_mean(list(growth.transfer_s.values()), " s")
    yield str(len(growth.overhead_s))


def _beside_base(
    growth: Growth, reference: Growth | None, slopes: Slopes, base: str
) -> Iterator[str]:
    """Slopes of an engine over those of another one, here and as published."""
    others: tuple[Interval | None, Interval | None] = (None, None)
    if reference is not None:
        others = (reference.overhead, reference.transfer)
    yield _ratio_to(growth.overhead, others[0])
    yield _published_ratio(slopes.overhead_s, growth.engine, base)
    yield _ratio_to(growth.transfer, others[1])
    yield _published_ratio(slopes.transfer_s, growth.engine, base)


def _ratio_to(own: Interval, other: Interval | None) -> str:
    """One slope over another, which has to be shown to be more than 0."""
    if other is None or other.low is None or other.low <= 0:
        return NONE
    return show_ratio(own.mean / other.mean)


def _published_ratio(slopes: Mapping[str, float], engine: str, base: str) -> str:
    if engine not in slopes:
        return NONE
    return show_ratio(slopes[engine] / slopes[base])


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
