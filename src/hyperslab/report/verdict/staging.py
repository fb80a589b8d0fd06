"""A fast tier that could not be used for all that it was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.report.staging import degraded
from hyperslab.report.verdict.evidence import Evidence
from hyperslab.report.verdict.finding import Finding, listed


def lacking(evidence: Evidence) -> Iterator[Finding]:
    """What has become of the tiers that a run was to stage on."""
    notes = degraded(evidence.meta)
    if notes:
        sentence = "A fast tier was full or gone, so that a part of the run did without it."
        advice = "Give a larger tier, or leave out what does not fit."
        yield Finding("staging-degraded", sentence, listed(notes), advice, 0.0)
