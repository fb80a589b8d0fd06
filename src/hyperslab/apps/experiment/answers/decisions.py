"""Decisions: what to choose of each factor, in sentences, with the values of the other factors at
which that holds, and where it is otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hyperslab.apps.experiment.answers.asleep import is_more_sleep
from hyperslab.apps.experiment.answers.comparison import CellResult, Comparison, Verdict
from hyperslab.apps.experiment.design.cells import Cell, Key
from hyperslab.apps.experiment.design.factors import FACTORS
from hyperslab.apps.experiment.statistics.shown import show_bound, show_interval
from hyperslab.units import show_count, show_list, show_seconds, show_share

NOTHING_VARIED = "Nothing is varied: there is one cell, and no other one to compare it with."
ELSEWHERE_TOLD = 4
"Comparisons away from the baseline that a sentence names."
TOLD: Collection[Verdict] = ("faster", "slower", "equivalent")
ByKey = Mapping[Key, CellResult]
"What came of every cell, by its key."


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
    by_key = {one.cell.key: one for one in results}
    never_done = set()
    if not without:
        never_done = {one.cell.key for one in results if one.attempts and not one.ended}
    for factor in dict.fromkeys(one.factor for one in direct):
        own = [one for one in direct if one.factor == factor]
        others = [one for one in elsewhere if one.factor == factor]
        head = f"{factor}, {without}" if without else factor
        clauses = [*_choice(own, by_key), *_of_factor(own, margin, by_key, never_done)]
        if not without:
            clauses += _failed_clauses(own, by_key)
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


def _choice(own: Sequence[Comparison], by_key: ByKey) -> Iterator[str]:
    """Say which level to choose, as far as comparisons tell: none with trials that failed, and
    none of what is part of the work.
    """
    told = [one for one in own if one.verdict in TOLD]
    if not told or _is_work(told[0]):
        return
    so_far = ", as far as is told" if len(told) < len(own) else ""
    whole = [one for one in told if not by_key[one.cell.key].failed]
    faster = sorted(_of_verdict(whole, "faster"), key=_mean_ratio)
    if faster:
        among = ", the fastest by its mean" if len(faster) > 1 else ""
        yield f"choose {_level(faster[0])}{among}{so_far}"
        return
    reference = told[0].reference
    if by_key[reference.key].failed or _of_verdict(told, "faster"):
        return
    alike = [_level(one) for one in _of_verdict(whole, "equivalent")]
    if perhaps := [_level(one) for one in own if one not in told and _may_be_faster(one)]:
        so_far = f", unless {_either(perhaps)} is faster, which is open"
    yield f"choose {_either([reference.shown(told[0].factor), *alike])}{so_far}"


def _is_work(one: Comparison) -> bool:
    """Whether the levels of a factor are other work, of which nobody chooses the shortest."""
    return FACTORS[one.factor].is_work or is_more_sleep(one.factor, one.cell.levels)


def _may_be_faster(one: Comparison) -> bool:
    """Whether a level may be faster by more than the margin, by its 95 % interval."""
    if one.ratio is None or one.ratio.low is None:
        return False
    return one.ratio.low < 1 / (1 + one.margin)


def _either(words: Sequence[str]) -> str:
    """One of some words: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    if not others:
        return last
    return f"{', '.join(others)} or {last}"


def _mean_ratio(one: Comparison) -> float:
    assert one.ratio is not None
    return one.ratio.mean


def _of_factor(
    own: Sequence[Comparison], margin: float, by_key: ByKey, never_done: Collection[Key]
) -> Iterator[str]:
    """What is told of a factor, all others at the baseline."""
    known = [one for one in own if one.ratio is not None or one.is_scarce]
    yield from _clauses(known, margin, by_key)
    yield from _cut_clauses(own, never_done)
    yield from _never_done_clauses(own, never_done)


def _never_done_clauses(own: Sequence[Comparison], never_done: Collection[Key]) -> Iterator[str]:
    """Levels of which no trial was done, that of the baseline first: nothing is compared without
    it.
    """
    cells = [own[0].reference, *(one.cell for one in own)]
    failed = [cell.shown(own[0].factor) for cell in cells if cell.key in never_done]
    if not failed:
        return
    so = ", so that nothing is compared" if own[0].reference.key in never_done else ""
    yield f"no trial of {show_list(failed)} was done{so}"


def _clauses(own: Sequence[Comparison], margin: float, by_key: ByKey) -> Iterator[str]:
    if not own:
        return
    reference = own[0].reference.shown(own[0].factor)
    mean_s = by_key[own[0].reference.key].mean(own[0].measure)
    timed = f"{reference} ({show_seconds(mean_s)})"
    within = f"within {show_share(margin)}"
    if faster := _of_verdict(own, "faster"):
        words, are = _named(faster)
        yield f"{words} {are} faster than {timed}: {_each(faster, by_key)}"
    if equivalent := _of_verdict(own, "equivalent"):
        words, _ = _named(equivalent)
        if len(equivalent) > 1:
            yield f"{words} are each equivalent to {reference} ({within})"
        else:
            yield f"{words} and {reference} are equivalent ({within})"
    if slower := _of_verdict(own, "slower"):
        words, are = _named(slower)
        yield f"{words} {are} slower than {timed}: {_each(slower, by_key)}"
    scarce = [_level(one) for one in own if one.is_scarce]
    if unclear := [one for one in _of_verdict(own, "open") if not one.is_scarce]:
        levels = [_level(one) for one in unclear]
        bounds = _bounds(unclear)
        yield f"whether {show_list(levels)} differ{_s(levels)} from {reference} is open{bounds}"
    if scarce:
        yield (
            f"whether {show_list(scarce)} differ{_s(scarce)} from {reference} is open, as too few"
            " trials had the processors for themselves"
        )
    if unknown := [_level(one) for one in _of_verdict(own, "unknown")]:
        yield f"of {show_list(unknown)} there are too few replicates to tell"


def _named(own: Sequence[Comparison]) -> tuple[str, str]:
    """Levels in words, and the verb that goes with them."""
    verb = "is" if len(own) == 1 else "are"
    return show_list([_level(one) for one in own]), verb


def _each(own: Sequence[Comparison], by_key: ByKey) -> str:
    """How long levels take, beside the reference and in seconds."""
    told = []
    for one in own:
        assert one.ratio is not None
        mean_s = by_key[one.cell.key].mean(one.measure)
        name = f"{_level(one)} " if len(own) > 1 else ""
        told.append(f"{name}{show_interval(one.ratio)}, {show_seconds(mean_s)}")
    return ", ".join(told)


def _bounds(own: Sequence[Comparison]) -> str:
    """How far levels that may differ or not do so at most, by their 95 % intervals; nothing of
    those with trials that were ended for their length.
    """
    told = []
    for one in own:
        if one.ratio is None or one.cut or not (bound := show_bound(one.ratio)):
            continue
        name = f"{_level(one)} " if len(own) > 1 else ""
        told.append(f"{name}{bound}")
    if not told:
        return ""
    return f" ({', '.join(told)})"


def _failed_clauses(own: Sequence[Comparison], by_key: ByKey) -> Iterator[str]:
    """Levels of which some trials failed, and others were done."""
    cells = [own[0].reference, *(one.cell for one in own)]
    told = []
    for cell in cells:
        result = by_key[cell.key]
        if result.failed and result.ended:
            tried = show_count(len(result.attempts), "trial")
            told.append(f"{len(result.failed):,} of {tried} of {cell.shown(own[0].factor)}")
    if told:
        yield f"{show_list(told)} failed, and what is said is by those that were done"


def _cut_clauses(own: Sequence[Comparison], never_done: Collection[Key]) -> Iterator[str]:
    """What cannot be said of levels of which the longest trials were ended."""
    cut = [_level(one) for one in own if one.is_cut and one.cell.key not in never_done]
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


def _of_verdict(own: Sequence[Comparison], verdict: Verdict) -> list[Comparison]:
    return [one for one in own if one.verdict == verdict]


def _level(one: Comparison) -> str:
    return one.cell.shown(one.factor)


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
        verb = "comes" if len(more) == 1 else "come"
        clauses.append(f"{len(more)} more {verb} out otherwise, too")
    alike = len(told) - len(otherwise)
    left = len(known) - len(told)
    count = f"of {show_count(len(known), 'comparison')}"
    if any(verdict in TOLD for verdict in here.values()):
        other = f", {len(otherwise)} otherwise" if otherwise else ""
        clauses.append(f"{count} {alike} as here{other}, {left} open")
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
    level = _level(one)
    reference = one.reference.shown(one.factor)
    if one.verdict == "equivalent":
        return f"{level} and {reference} are equivalent"
    return f"{level} is {one.verdict} than {reference}"
