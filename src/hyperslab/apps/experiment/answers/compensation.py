"""Compensation: whether what an engine spends more on overhead it spends less on transfer, so that
both together are as much, as M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of
Dask and Apache Spark for data-intensive neuroimaging pipelines (2019) states where storage is
saturated.

Two engines are compared block by block. One makes up for its overhead if three tests say so: its
overhead differs, its transfer differs the other way, and both together are equivalent. It does not
if its overhead differs and both together differ by more than the margin. A slope of transfer over
overhead would not tell: both have errors, and the slope is too flat. Engines whose reading is
booked as overhead are left out, as they would make up for it by bookkeeping.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from hyperslab.apps.experiment.answers.comparison import CellResult, paired
from hyperslab.apps.experiment.answers.lines import amount
from hyperslab.apps.experiment.design.factors import ENGINE
from hyperslab.apps.experiment.design.setting import READ_BEFORE
from hyperslab.apps.experiment.statistics.intervals import mean_interval, ratio_interval
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.apps.experiment.statistics.significance import (
    beyond_p,
    differs_p,
    equivalent_p,
    holm,
    is_told,
)
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_count

TOLD = 3
"Pairs of engines that a sentence names."


@dataclass(frozen=True, slots=True)
class Traded:
    """Overhead and transfer of an engine beside those of another one, block by block, seconds of
    all slots.
    """

    engine: str
    reference: str
    own: Sequence[tuple[float, float]]
    "Overhead and transfer of the engine."
    others: Sequence[tuple[float, float]]
    "Overhead and transfer of the reference."

    @property
    def overheads(self) -> list[float]:
        """Overhead of the engine less that of the reference."""
        return [a[0] - b[0] for a, b in zip(self.own, self.others, strict=True)]

    @property
    def transfers(self) -> list[float]:
        """Transfer of the engine less that of the reference."""
        return [a[1] - b[1] for a, b in zip(self.own, self.others, strict=True)]

    @property
    def sums(self) -> list[float]:
        """Logarithms of the ratios of both together."""
        return [math.log(sum(a) / sum(b)) for a, b in zip(self.own, self.others, strict=True)]


def trades_of(results: Sequence[CellResult]) -> Iterator[Traded]:
    """Every two engines, all else at the baseline."""
    cells = [one for one in results if set(one.cell.changed) <= {ENGINE}]
    if not cells or ENGINE not in cells[0].cell.levels:
        return
    for reference, cell in combinations(cells, 2):
        yield from traded(cell, reference)


def traded(cell: CellResult, reference: CellResult) -> Iterator[Traded]:
    """What two cells of different engines spend; nothing where that is not known of both."""
    engines = [str(one.cell.levels[ENGINE]) for one in (cell, reference)]
    if any(engine in READ_BEFORE for engine in engines):
        return
    both = [pair for pair in paired(cell, reference, _costs).values() if _are_sums(pair)]
    if both:
        yield Traded(engines[0], engines[1], [own for own, _ in both], [one for _, one in both])


def _are_sums(pair: tuple[tuple[float, float], tuple[float, float]]) -> bool:
    """Whether both sums are more than nothing, so that they have a ratio."""
    return all(sum(costs) > 0 for costs in pair)


def _costs(attempt: Attempt) -> tuple[float, float] | None:
    """Overhead and transfer of a trial."""
    overhead = amount(attempt, "overhead")
    transfer = amount(attempt, "transfer")
    if overhead is None or transfer is None:
        return None
    return overhead, transfer


def signs_of(found: Sequence[Traded], margin: float) -> list[bool | None]:
    """Whether each engine makes up for its overhead by its transfer, allowing for their number;
    None: that is open.
    """
    bound = math.log(1 + margin)
    overheads = holm([differs_p(one.overheads) for one in found])
    transfers = holm([differs_p(one.transfers) for one in found])
    alike = holm([equivalent_p(one.sums, bound) for one in found])
    apart = holm([beyond_p(one.sums, bound) for one in found])
    signs: list[bool | None] = []
    for one, *by_chance in zip(found, overheads, transfers, alike, apart, strict=True):
        has_more, has_less, is_alike, is_apart = map(is_told, by_chance)
        are_opposite = fmean(one.overheads) * fmean(one.transfers) < 0
        if has_more and has_less and are_opposite and is_alike:
            signs.append(True)
        elif has_more and is_apart:
            signs.append(False)
        else:
            signs.append(None)
    return signs


def numbers(one: Traded) -> str:
    """What two engines spend, in words."""
    own = [sum(costs) for costs in one.own]
    others = [sum(costs) for costs in one.others]
    return (
        f"{one.engine} beside {one.reference}, seconds of all slots: overhead"
        f" {show_mean(one.overheads)} more, transfer {show_mean(one.transfers)} more; both together"
        f" {show_interval(ratio_interval(own, others))} as long"
    )


def why_open(found: Sequence[Traded]) -> list[str]:
    """What is not shown of every two engines, allowing for their number, if they are open."""
    overheads = holm([differs_p(one.overheads) for one in found])
    transfers = holm([differs_p(one.transfers) for one in found])
    return [_why(*one) for one in zip(found, overheads, transfers, strict=True)]


def _why(one: Traded, overheads: float | None, transfers: float | None) -> str:
    if not is_told(overheads):
        return "That overheads differ is not shown."
    if not is_told(transfers):
        return "That transfers differ is not shown."
    if fmean(one.overheads) * fmean(one.transfers) > 0:
        return "Both differ the same way, and whether by more than the margin is open."
    return "Whether both together are as much is open."


def sentences(found: Sequence[Traded], margin: float) -> Iterator[str]:
    """Say which engines trade overhead for transfer, as evidence."""
    if not found:
        return
    signs = signs_of(found, margin)
    counts = {sign: signs.count(sign) for sign in (True, False, None)}
    yield (
        "What an engine spends more on overhead than another one, all else at the baseline, it"
        f" spends less on transfer in {counts[True]} of {show_count(len(found), 'pair')} of"
        f" engines, and not in {counts[False]}; open: {counts[None]}."
    )
    for sign, words in ((True, "made up for"), (False, "not made up for")):
        own = [one for one, its in zip(found, signs, strict=True) if its is sign]
        for one in own[:TOLD]:
            yield f"{numbers(one)}: {words}."


def told(one: Traded) -> dict[str, Any]:
    """Two engines for programs."""
    return {
        "engine": one.engine,
        "reference": one.reference,
        "overhead_s": mean_interval(one.overheads)._asdict(),
        "transfer_s": mean_interval(one.transfers)._asdict(),
        "log_ratio_of_sums": mean_interval(one.sums)._asdict(),
    }
