"""Finding and Verdict: what limited a run, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOTABLE = 0.15
"""Share of the slots' time: what takes less is not worth a change, and within what two runs of the
same plan differ by.
"""


SHORT_S = 1.0
"""Runs, and their work beside the start-up, that took less are not judged: chance, and the start of
anything, weigh too much, and nobody waits for them.
"""

STARVED = "cpu-starved"
"Rule of a machine that had not enough processors, which may make what limited a run less certain."
LONGER = 0.25
"""Share of the slots' time that a lack of processors took: a run that takes a third longer for it
had better be repeated.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that took a part of a run's time."""

    rule: str
    "Name of the rule that found it, such as storage-bandwidth."
    sentence: str
    "What it is."
    evidence: str
    "The numbers that it rests on."
    advice: str
    "What to change; '' where there is nothing to."
    share: float
    """The part of the slots' time that it explains, 0 to 1; of the makespan for start-up. 0 where
    that cannot be seen.
    """

    @property
    def text(self) -> str:
        """Sentence, evidence and advice."""
        return " ".join(part for part in (self.sentence, self.evidence, self.advice) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limited a run."""

    paragraph: str
    "The answer: what limited it, the evidence and what to change, as plain text."
    findings: tuple[Finding, ...]
    """What limited the run, the largest share first; then the circumstances that make all of it
    more or less certain.
    """
    is_doubtful: bool = False
    "Whether a lack of processors alone may have put the first cause first."

    @property
    def cause(self) -> str:
        """What limited the run, in a sentence; '' where there is nothing to say."""
        if not self.findings:
            return ""
        return self.findings[0].sentence

    @property
    def remedy(self) -> str:
        """What to change about that; '' where there is nothing to."""
        if not self.findings:
            return ""
        return self.findings[0].advice

    @property
    def caution(self) -> str:
        """Why the run took much longer than it need have, or the cause is less certain than it
        sounds, and what to do about that; '' where neither is so.
        """
        for finding in self.findings:
            if finding.rule == STARVED and (self.is_doubtful or finding.share >= LONGER):
                return f"{finding.sentence} {finding.advice}"
        return ""

    def told(self) -> dict[str, str]:
        """Cause, evidence and remedy by their names, those that there are."""
        if not self.findings:
            return {}
        first = self.findings[0]
        told = {"cause": first.sentence, "evidence": first.evidence, "remedy": first.advice}
        return {name: text for name, text in told.items() if text}


def listed(parts: Sequence[str]) -> str:
    """Clauses as one sentence."""
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]
