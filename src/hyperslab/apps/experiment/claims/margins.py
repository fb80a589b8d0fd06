"""Margins: whether comparisons come out as a claim has it.

A claim on a comparison says where the true ratio lies. Two settings "take as long" whose ratio lies
within the margin, so that a difference alone is no refutation: it has to be beyond the margin. Two
tests ask whether the ratio lies where the claim has it, and whether it lies elsewhere:

- equivalent: within the margin, by two one-sided tests; elsewhere by a difference beyond it
- slower or faster: beyond the margin, and the other way round
- equivalent or slower: not below the margin, by one one-sided test; elsewhere by its opposite
- equivalent or faster: not above the margin, likewise
- slower: above the margin; elsewhere by a ratio that is not above it. A difference that is there,
  and smaller than the margin, is told as such
- faster: below the margin, likewise
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hyperslab.apps.experiment.answers.answer import show_equivalence
from hyperslab.apps.experiment.answers.comparison import Comparison, Verdict, as_far_as
from hyperslab.apps.experiment.statistics.shown import is_apart
from hyperslab.apps.experiment.statistics.significance import (
    LEVEL,
    above_p,
    below_p,
    beyond_p,
    holm,
    is_told,
    level,
)
from hyperslab.units import show_list, show_share

AS_LONG = frozenset[Verdict](("equivalent",))
NOT_AS_LONG = frozenset[Verdict](("slower", "faster"))
NOT_FASTER = frozenset[Verdict](("equivalent", "slower"))
NOT_SLOWER = frozenset[Verdict](("equivalent", "faster"))
SLOWER = frozenset[Verdict](("slower",))
FASTER = frozenset[Verdict](("faster",))
Wanted = tuple[Collection[Verdict], Comparison]
"A comparison with the verdicts of which it should have one."


def signs_of(found: Sequence[Wanted]) -> list[bool | None]:
    """Whether each comparison came out as claimed, allowing for their number; None: it tells
    nothing.
    """
    shown = holm([_shown_p(frozenset(verdicts), one) for verdicts, one in found])
    refuted = holm([_refuted_p(frozenset(verdicts), one) for verdicts, one in found])
    return [_sign(*by_chance) for by_chance in zip(shown, refuted, strict=True)]


def _sign(shown: float | None, refuted: float | None) -> bool | None:
    if is_told(refuted):
        return False
    if is_told(shown):
        return True
    return None


def _shown_p(verdicts: frozenset[Verdict], one: Comparison) -> float | None:
    """Probability by chance of a ratio that lies so clearly where it is claimed to be."""
    margin = math.log(1 + one.margin)
    if verdicts == AS_LONG:
        return one.equivalent_p
    if verdicts == NOT_AS_LONG:
        return _beyond(one, margin)
    if verdicts == NOT_FASTER:
        return _above(one, -margin)
    if verdicts == NOT_SLOWER:
        return _below(one, margin)
    if verdicts == SLOWER:
        return _above(one, margin)
    return _below(one, -margin)


def _refuted_p(verdicts: frozenset[Verdict], one: Comparison) -> float | None:
    """Probability by chance of a ratio that lies so clearly elsewhere."""
    margin = math.log(1 + one.margin)
    if verdicts == AS_LONG:
        return _beyond(one, margin)
    if verdicts == NOT_AS_LONG:
        return one.equivalent_p
    if verdicts == NOT_FASTER:
        return _below(one, -margin)
    if verdicts == NOT_SLOWER:
        return _above(one, margin)
    if verdicts == SLOWER:
        return _below(one, margin)
    return _above(one, -margin)


def _beyond(one: Comparison, margin: float) -> float | None:
    """Probability by chance of a ratio so far beyond the margin, on its side of 1."""
    return as_far_as(one.may_be_told, beyond_p(one.logarithms, margin))


def _above(one: Comparison, bound: float) -> float | None:
    """Probability by chance of a ratio so far above a bound."""
    return as_far_as(not one.is_reference_cut, above_p(one.logarithms, bound))


def _below(one: Comparison, bound: float) -> float | None:
    """Probability by chance of a ratio so far below a bound."""
    return as_far_as(not one.is_cut, below_p(one.logarithms, bound))


def words(one: Comparison, verdicts: Collection[Verdict], sign: bool | None) -> str:
    """What a comparison says of a claim. Its verdict is one among all that were made together."""
    if one.verdict == "unknown":
        return "one replicate alone, which tells nothing"
    asked = frozenset(verdicts)
    if sign is None:
        return _words_of_open(one)
    if asked in (SLOWER, FASTER):
        return _words_of_side(one, asked, sign)
    if asked in (NOT_FASTER, NOT_SLOWER):
        return _words_of_bound(one, asked, sign)
    if sign == (asked == AS_LONG):
        return show_equivalence(one)
    return f"{_side(one)} {_by_more(one)}"


def _words_of_side(one: Comparison, asked: frozenset[Verdict], sign: bool) -> str:
    if sign:
        return f"{_side(one)} {_by_more(one)}"
    if _side(one) in asked:
        return _words_of_less(one)
    if one.verdict == "equivalent":
        return show_equivalence(one)
    if one.verdict in NOT_AS_LONG:
        return one.verdict
    return _not(_only(asked), one)


def _words_of_less(one: Comparison) -> str:
    """An effect that is on the side of a claim, and smaller than the margin."""
    if one.ratio is not None and is_apart(one.ratio):
        return f"{_side(one)}, though by less than {show_share(one.margin)}"
    if one.verdict == "equivalent":
        return show_equivalence(one)
    return _not(_side(one), one)


def _only(asked: frozenset[Verdict]) -> Verdict:
    (one,) = asked
    return one


def _words_of_open(one: Comparison) -> str:
    if one.verdict in NOT_AS_LONG:
        return f"{one.verdict}, and whether {_by_more(one)} is open"
    return _open(one)


def _words_of_bound(one: Comparison, asked: frozenset[Verdict], sign: bool) -> str:
    if not sign:
        return f"{_side(one)} {_by_more(one)}"
    if one.verdict == "equivalent":
        return show_equivalence(one)
    if one.verdict in asked:
        return one.verdict
    opposite: Verdict = "faster" if asked == NOT_FASTER else "slower"
    return _not(opposite, one)


def _not(verdict: Verdict, one: Comparison) -> str:
    """What is ruled out, with the interval whose end a one-sided test at 5 % looks at."""
    shown = ""
    if one.inner is not None and one.inner.low is not None:
        shown = f" (90 % interval {one.inner.low:.3g} to {one.inner.high:.3g})"
    return f"not {verdict} {_by_more(one)}{shown}"


def _by_more(one: Comparison) -> str:
    return f"by more than {show_share(one.margin)}"


def _side(one: Comparison) -> Verdict:
    assert one.ratio is not None
    return "slower" if one.ratio.mean > 1 else "faster"


def _open(one: Comparison) -> str:
    if one.cut:
        return f"open, as trials of {show_list(one.cut)} were ended for their length"
    if one.ratio is None or not is_apart(one.ratio):
        return "too few replicates to tell"
    if level() < LEVEL:
        return "a difference alone, but not at the level of a further answer"
    return "a difference alone, but not among so many comparisons"
