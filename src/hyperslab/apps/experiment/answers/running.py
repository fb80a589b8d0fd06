"""Running estimates: what a cell has come to while other trials are still to be run."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.apps.experiment.answers.answer import makespan_words
from hyperslab.apps.experiment.answers.comparison import MEASURE, measured, paired, results_of
from hyperslab.apps.experiment.design.cells import Cell
from hyperslab.apps.experiment.statistics.intervals import ratio_interval
from hyperslab.apps.experiment.statistics.shown import show_interval
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.units import show_count


def so_far(cell: Cell, baseline: Cell, record: Record) -> str:
    """Mean makespan of a cell, with half of its 95 % interval, from two replicates on, and its
    ratio to the baseline by pairs of the same replicate, in words; '' while neither is known.
    """
    return ", ".join(_so_far(cell, baseline, record))


def _so_far(cell: Cell, baseline: Cell, record: Record) -> Iterator[str]:
    own, other = results_of([cell, baseline], record)
    replicates = len(own.by_replicate())
    if replicates > 1:
        yield f"{makespan_words(own)} over {show_count(replicates, 'replicate')}"
    pairs = paired(own, other, measured(MEASURE)).values()
    if pairs and cell.key != baseline.key:
        ratio = ratio_interval([value for value, _ in pairs], [other for _, other in pairs])
        yield f"{show_interval(ratio)} as long as the baseline"
