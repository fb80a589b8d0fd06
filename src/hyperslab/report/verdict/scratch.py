"""Rule about scratch space: files that are shuffled or evicted on slow metadata."""

from __future__ import annotations

from hyperslab.report.files.page import phases_in
from hyperslab.report.files.scratch import ADVICE, slow_scratch
from hyperslab.report.summary import Summary
from hyperslab.report.verdict.evidence import Evidence
from hyperslab.report.verdict.finding import NOTABLE, Finding


def slow_metadata(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Time that names and attributes of shuffled or evicted files took, where it was counted."""
    numbers = phases_in(evidence.meta)
    total_s = summary.slots * summary.makespan_without_startup_s
    if numbers is None or not total_s:
        return []
    found = slow_scratch(numbers.groups)
    if found is None:
        return []
    share = min(1.0, found.excess_s / total_s)
    if share < NOTABLE:
        return []
    return [Finding("slow-scratch", found.sentence(share), found.evidence(), ADVICE, share)]
