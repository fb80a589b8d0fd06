"""Decisions: what to choose of each factor, in sentences, with the values of the other factors at
which that holds, and where it is otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hyperslab.apps.experiment.comparison import CellResult, Comparison, Verdict
from hyperslab.apps.experiment.design import Cell, Key
from hyperslab.apps.experiment.shown import show_interval
from hyperslab.units import show_count, show_list, show_share

NOTHING_VARIED = "Nothing is varied: there is one cell, and no other one to compare it with."
ELSEWHERE_TOLD = 4
"Comparisons away from the baseline that a sentence names."
TOLD: Collection[Verdict] = ("faster", "slower", "equivalent")


def decisions(
    results: Sequence[CellResult],
    direct: Sequence[Comparison],
    elsewhere: Sequence[Comparison],
    margin: float,
    without: str = "",
) -> Iterator[str]:
    """What to choose of each factor, by comparisons with the baseline and by those away from it,
    each of both made together; `without` is what does not count of times, in words.
    """
    never_done = set()
    if not without:
        never_done = {one.cell.key for one in results if one.attempts and not one.ended}
    for factor in dict.fromkeys(one.factor for one in direct):
        own = [one for one in direct if one.factor == factor]
        others = [one for one in elsewhere if one.factor == factor]
        head = f"{factor}, {without}" if without else factor
        clauses = list(_of_factor(own, margin, never_done))
        if clauses:
            yield f"{head}{_where(results, factor)}: {'; '.join(clauses)}."
        yield from _elsewhere(head, own, others)


def _where(results: Sequence[CellResult], factor: str) -> str:
    """The baseline's levels of all other factors that are varied."""
    varied = dict.fromkeys(name for one in results for name in one.cell.changed)
    shown = _levels_of(results[0].cell, [name for name in varied if name != factor])
    if not shown:
        return ""
    return f", at {shown}"


def _levels_of(cell: Cell, factors: Sequence[str]) -> str:
    return show_list([f"{name} {cell.shown(name)}" for name in factors])


def _of_factor(
    own: Sequence[Comparison], margin: float, never_done: Collection[Key]
) -> Iterator[str]:
    """What to choose of a factor, all others at the baseline."""
    yield from _clauses([one for one in own if one.ratio is not None or one.is_scarce], margin)
    yield from _cut_clauses(own, never_done)
    failed = [one.cell.shown(one.factor) for one in own if one.cell.key in never_done]
    if failed:
        yield f"no trial of {show_list(failed)} was done"


def _clauses(own: Sequence[Comparison], margin: float) -> Iterator[str]:
    if not own:
        return
    reference = own[0].reference.shown(own[0].factor)
    within = f"within {show_share(margin)}"
    if faster := _levels(own, "faster"):
        yield f"{show_list(faster)} {_is(faster)} faster than {reference}"
    if equivalent := _levels(own, "equivalent"):
        yield f"{show_list(equivalent)} and {reference} are equivalent ({within})"
    if slower := _levels(own, "slower"):
        yield f"{show_list(slower)} {_is(slower)} slower than {reference}"
    scarce = [one.cell.shown(one.factor) for one in own if one.is_scarce]
    if unclear := [level for level in _levels(own, "open") if level not in scarce]:
        yield f"whether {show_list(unclear)} differ{_s(unclear)} from {reference} is open"
    if scarce:
        yield (
            f"whether {show_list(scarce)} differ{_s(scarce)} from {reference} is open, as too few"
            " trials had the processors for themselves"
        )
    if unknown := _levels(own, "unknown"):
        yield f"of {show_list(unknown)} there are too few replicates to tell"


def _cut_clauses(own: Sequence[Comparison], never_done: Collection[Key]) -> Iterator[str]:
    """What cannot be said of levels of which the longest trials were ended."""
    cut = [
        one.cell.shown(one.factor) for one in own if one.is_cut and one.cell.key not in never_done
    ]
    if cut:
        yield (
            f"trials of {show_list(cut)} were ended for their length, so that nothing is called"
            " faster or equivalent of them"
        )
    if own and own[0].is_reference_cut:
        reference = own[0].reference.shown(own[0].factor)
        yield (
            f"trials of {reference} were ended for their length, so that nothing is called slower"
            " than it or equivalent"
        )


def _levels(own: Sequence[Comparison], verdict: Verdict) -> list[str]:
    return [one.cell.shown(one.factor) for one in own if one.verdict == verdict]


def _is(words: Sequence[str]) -> str:
    if len(words) == 1:
        return "is"
    return "are"


def _s(words: Sequence[str]) -> str:
    if len(words) == 1:
        return "s"
    return ""


# Away from the baseline


def _elsewhere(head: str, own: Sequence[Comparison], others: Sequence[Comparison]) -> Iterator[str]:
    """Where a factor does otherwise than at the baseline, and where it does not."""
    known = [one for one in others if one.ratio is not None]
    if not known:
        return
    here = {one.level: one.verdict for one in own}
    told = [one for one in known if one.verdict in TOLD]
    otherwise = [one for one in told if one.verdict != here.get(one.level)]
    clauses = list(_otherwise(otherwise[:ELSEWHERE_TOLD]))
    if more := otherwise[ELSEWHERE_TOLD:]:
        clauses.append(f"{len(more)} more come out otherwise, too")
    alike = len(told) - len(otherwise)
    left = len(known) - len(told)
    count = f"of {show_count(len(known), 'comparison')}"
    if any(verdict in TOLD for verdict in here.values()):
        clauses.append(f"{count} {alike} as here, {left} open")
    else:
        clauses.append(f"{count} {len(told)} told, {left} open, as it is here")
    yield f"{head}, at other values: {'; '.join(clauses)}."


def _otherwise(found: Sequence[Comparison]) -> Iterator[str]:
    """What comes out otherwise, with the levels of other factors at which it does."""
    groups: dict[str, list[str]] = {}
    for one in found:
        assert one.ratio is not None
        where = _levels_of(one.reference, one.reference.changed)
        groups.setdefault(_said(one), []).append(f"at {where} ({show_interval(one.ratio)})")
    for said, places in groups.items():
        yield f"{said} {', '.join(places)}"


def _said(one: Comparison) -> str:
    level = one.cell.shown(one.factor)
    reference = one.reference.shown(one.factor)
    if one.verdict == "equivalent":
        return f"{level} and {reference} are equivalent"
    return f"{level} is {one.verdict} than {reference}"
