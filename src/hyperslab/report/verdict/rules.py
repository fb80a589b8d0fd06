"""Rules: what all of them find in the evidence of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.report.summary import Summary
from hyperslab.report.verdict import (
    memory,
    network,
    processors,
    queueing,
    scratch,
    staging,
    storage,
    tasks,
)
from hyperslab.report.verdict.evidence import Evidence
from hyperslab.report.verdict.finding import Finding


def findings(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Findings of all rules; where two claim as much, what can be changed comes before what is as
    it should be.
    """
    return list(_asked(evidence, summary))


def _asked(evidence: Evidence, summary: Summary) -> Iterator[Finding]:
    yield from network.network(evidence)
    yield from storage.bandwidth(evidence)
    yield from storage.metadata(evidence)
    yield from scratch.slow_metadata(evidence, summary)
    yield from tasks.overhead(evidence, summary)
    yield from processors.gil(evidence)
    yield from tasks.few(evidence)
    yield from tasks.straggling(evidence)
    yield from memory.pressure(evidence, summary)
    yield from tasks.losing(evidence, summary)
    yield from tasks.unfed(evidence)
    yield from queueing.queueing(evidence, summary)
    yield from tasks.starting(evidence, summary, queueing.waited_s(evidence))
    yield from tasks.closing(evidence)
    yield from processors.inflating(evidence)
    yield from processors.waiting_function(evidence)
    yield from processors.bound(evidence)
    yield from processors.starved(evidence)
    yield from staging.lacking(evidence)


def is_explained(finding: Finding, evidence: Evidence, others: Sequence[Finding]) -> bool:
    """Whether another finding says why what a finding tells is so."""
    is_of_queue = queueing.is_explained(finding, evidence, others)
    return is_of_queue or network.is_explained(finding, others)
