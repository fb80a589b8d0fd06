"""Claims on the files of a shuffle: how often they are opened, how many are made, and what of that
reaches the storage beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.claims.claim import Evidence, Judged, by_signs

SHARED, IMAGE = "shared", "image:shared"
"Levels of the factor scratch: plain files on shared storage, and one file on it."
WORST = "group-by-worst-java"
FEW = 0.01
"Share of operations up to which they are hardly any."
NEAR = 0.01
"Relative difference of counts up to which they are those of a formula."
NOT_COUNTED = "No trial has counted operations on files."


class Shuffle(NamedTuple):
    """What was counted of one shuffle."""

    partitions: int
    "Number of map tasks, and of reduce tasks."
    is_sorted: bool
    "Whether there are more reduce tasks than the threshold up to which each has a file at first."
    numbers: Mapping[str, float]

    @property
    def words(self) -> str:
        """The shuffle in words."""
        how = "beyond the threshold" if self.is_sorted else "up to the threshold"
        return f"M = R = {self.partitions}, {how}"


def _shuffles(evidence: Evidence) -> list[Shuffle]:
    """All that were counted: means of trials, which differ by what else Spark writes."""
    found = []
    for result in evidence.answer.results:
        numbers = _counts(result)
        if numbers:
            partitions = int(result.cell.levels["partitions"])
            is_sorted = partitions > int(result.cell.levels["threshold"])
            found.append(Shuffle(partitions, is_sorted, numbers))
    return found


def _counts(result: CellResult) -> dict[str, float]:
    counted_in = [one for one in result.ended if "shuffle_opens" in one.numbers]
    names = [name for one in counted_in[:1] for name in one.numbers if name.startswith("shuffle_")]
    return {name: fmean(_number(one.numbers[name]) for one in counted_in) for name in names}


def _number(value: float | None) -> float:
    return value or 0.0


def _judged_counts(
    evidence: Evidence, name: str, formula: Callable[[Shuffle], tuple[str, int]]
) -> Judged:
    """Judge that counts are those of a formula."""
    shuffles = _shuffles(evidence)
    if not shuffles:
        return Judged("not tested", [NOT_COUNTED])
    signs = []
    told = []
    for one in shuffles:
        words, expected = formula(one)
        found = one.numbers[name]
        signs.append(abs(found / expected - 1) <= NEAR)
        told.append(f"{one.words}: {found:,.0f}; {words} = {expected:,}.")
    return by_signs(signs, told)


def opens(evidence: Evidence) -> Judged:
    """Look at how often shuffled files are opened: as often as map tasks times reduce tasks."""
    return _judged_counts(evidence, "shuffle_opens", _opens_of)


def _opens_of(one: Shuffle) -> tuple[str, int]:
    pairs = one.partitions**2
    if one.is_sorted:
        return "2 M R", 2 * pairs
    return "3 M R", 3 * pairs


def reads(evidence: Evidence) -> Judged:
    """Look at reduce tasks alone: every block is read by opening an index and data."""
    return _judged_counts(
        evidence, "shuffle_read_opens", lambda one: ("2 M R", 2 * one.partitions**2)
    )


def files(evidence: Evidence) -> Judged:
    """Look at how many files are made: as many as tasks, or as pairs of tasks."""
    found = _judged_counts(evidence, "shuffle_creates", lambda one: ("3 M", 3 * one.partitions))
    if found.outcome == "not tested":
        return found
    told = (
        "Up to the threshold (spark.shuffle.sort.bypassMergeThreshold, 200 reduce tasks by default;"
        " the paper has set 0) Spark makes M R more, and removes them again."
    )
    return found.beside(after=[told])


def always_written(evidence: Evidence) -> Judged:
    shuffles = _shuffles(evidence)
    if not shuffles:
        return Judged("not tested", [NOT_COUNTED])
    signs = [one.numbers["shuffle_creates"] > 0 for one in shuffles]
    told = [
        f"{one.words}: {one.numbers['shuffle_write_operations']:,.0f} operations to write,"
        f" {one.numbers['shuffle_read_operations']:,.0f} to read, of data that fit in memory many"
        " times."
        for one in shuffles
    ]
    return by_signs(signs, told)


def one_open(evidence: Evidence) -> Judged:
    """Look at what the metadata server of an emulated tier is asked for in a round."""
    served = [_served(evidence, level) for level in (SHARED, IMAGE)]
    if not all(served):
        return Judged("not tested", ["No trial was on an emulated tier, which counts."])
    plain, image = (fmean(values) for values in served)
    if not plain:
        return Judged("not tested", ["Plain files asked the shared storage for nothing either."])
    told = (
        f"A round asks the shared storage for {plain:,.0f} operations on names with plain files,"
        f" and for {image:,.1f} with one file."
    )
    return Judged("reproduced" if image <= FEW * plain else "refuted", [told])


def _served(evidence: Evidence, scratch: str) -> list[float]:
    cell = evidence.cell(scratch=scratch, workload=WORST)
    if cell is None:
        return []
    told = [one.numbers.get("tier_operations") for one in cell.ended]
    return [number for number in told if number is not None]
