"""Agreement: what is advised about one cause never undoes what is advised about another.

Each rule pulls in some directions, and its cause rules some out. Memory and processors that were
short speak first, then what explains the largest share, and last what else a machine did beside the
run; later findings keep what they say, and of their advice what is not ruled out. Held by
`tests/report/test_verdict_contradictions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from hyperslab.report.verdict.finding import STARVED, Finding

Pull: TypeAlias = Literal[
    "more slots",
    "as many slots",
    "fewer slots",
    "larger blocks",
    "smaller blocks",
    "threads",
    "compressed input",
    "plain input",
    "nothing",
]
"A direction in which advice pulls; nothing: all is as it should be."
MORE: Pull = "more slots"
AS_MANY: Pull = "as many slots"
FEWER: Pull = "fewer slots"
LARGER: Pull = "larger blocks"
SMALLER: Pull = "smaller blocks"
THREADS: Pull = "threads"
COMPRESSED: Pull = "compressed input"
PLAIN: Pull = "plain input"
NOTHING: Pull = "nothing"

PULLS: Mapping[str, frozenset[Pull]] = {
    "storage-bandwidth": frozenset({FEWER, COMPRESSED}),
    "storage-latency": frozenset({MORE, LARGER}),
    "storage-wait": frozenset({FEWER, COMPRESSED}),
    "metadata-latency": frozenset({MORE, LARGER}),
    "inflating": frozenset({LARGER, PLAIN}),
    "gil": frozenset({AS_MANY}),
    "waiting-function": frozenset({MORE}),
    "compute-bound": frozenset({MORE, NOTHING}),
    "engine-overhead": frozenset({LARGER, FEWER, THREADS}),
    "too-few-partitions": frozenset({SMALLER, FEWER}),
    "network-distance": frozenset({LARGER}),
    "start-up": frozenset({THREADS}),
    "closing": frozenset({LARGER}),
    "stragglers": frozenset({SMALLER}),
    "memory-pressure": frozenset({FEWER, SMALLER}),
    STARVED: frozenset({FEWER}),
}
"Directions in which the advice of a rule may pull; others pull in none."
RULES_OUT: Mapping[str, frozenset[Pull]] = {
    "storage-bandwidth": frozenset({MORE, AS_MANY, PLAIN}),
    "storage-latency": frozenset({FEWER, SMALLER}),
    "storage-wait": frozenset({MORE, AS_MANY, PLAIN}),
    "metadata-latency": frozenset({FEWER, SMALLER}),
    "inflating": frozenset({SMALLER, COMPRESSED}),
    "gil": frozenset({FEWER, THREADS}),
    "waiting-function": frozenset({FEWER}),
    "compute-bound": frozenset({FEWER}),
    "engine-overhead": frozenset({MORE, AS_MANY, SMALLER}),
    "too-few-partitions": frozenset({MORE, AS_MANY, LARGER}),
    "closing": frozenset({SMALLER}),
    "stragglers": frozenset({LARGER}),
    "queueing": frozenset({MORE, AS_MANY}),
    "network-distance": frozenset({SMALLER}),
    "memory-pressure": frozenset({MORE, AS_MANY, LARGER}),
    STARVED: frozenset({MORE}),
}
"Directions against which the cause that a rule has found speaks."
FIRST = ("memory-pressure", STARVED)
"Shortages, of which more would be asked by advice against them, however little they explain."

Again: TypeAlias = Callable[[frozenset[Pull]], Sequence[Finding]]
"Findings of all rules once more, when directions are ruled out."


def agreed(findings: Sequence[Finding], again: Again) -> list[Finding]:
    """The same findings in the same order, the most important first, without advice against that
    of one before.
    """
    ruled_out: frozenset[Pull] = frozenset()
    if any(one.advice for one in findings if NOTHING not in PULLS.get(one.rule, ())):
        ruled_out |= {NOTHING}
    kept = {}
    for one in sorted(findings, key=_turn):
        if PULLS.get(one.rule, frozenset()) & ruled_out:
            kept[_name(one)] = _told_again(one, again(ruled_out))
        ruled_out |= RULES_OUT.get(one.rule, frozenset())
    return [kept.get(_name(one), one) for one in findings]


def _turn(finding: Finding) -> int:
    if finding.rule in FIRST:
        return FIRST.index(finding.rule)
    return len(FIRST)


def _told_again(one: Finding, others: Sequence[Finding]) -> Finding:
    return next(other for other in others if _name(other) == _name(one))


def _name(finding: Finding) -> tuple[str, str]:
    """What a finding is known by: reads and writes may both wait for storage."""
    return finding.rule, finding.sentence
