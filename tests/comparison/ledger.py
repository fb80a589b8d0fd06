"""What cases have come to: how much was compared, in which ways, what was refused and why, and what
differs.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hyperslab.arrays import Array
from hyperslab.errors import HyperslabError
from tests.comparison import refusals

_FRAMES = 3
"Of a traceback: enough to see where an exception comes from."


@dataclass(slots=True)
class Ledger:
    """Sums over one case, or over all of a kind."""

    datasets: int = 0
    slabs: int = 0
    nbytes: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    "Comparisons by each way of reading."
    refused: Counter[str] = field(default_factory=Counter)
    "Refusals by way and reason; nothing was compared there."
    unmade: Counter[str] = field(default_factory=Counter)
    "Reasons for which a library did not make a dataset."
    unknown: Counter[str] = field(default_factory=Counter)
    "Values that no library gives and the generator does not know: nothing was compared with them."
    findings: list[str] = field(default_factory=list)
    "Differences, and exceptions that are no sentences."

    def __iadd__(self, other: Ledger) -> Self:
        self.datasets += other.datasets
        self.slabs += other.slabs
        self.nbytes += other.nbytes
        for name in ("ways", "refused", "unmade", "unknown"):
            getattr(self, name).update(getattr(other, name))
        self.findings += other.findings
        return self

    def compared(self, way: str, expected: Array) -> None:
        self.ways[way] += 1
        self.slabs += 1
        self.nbytes += expected.nbytes

    def check(self, way: str, where: str, said: str, expected: Array) -> None:
        """Note a comparison; `said` is what differs, '' for nothing."""
        self.compared(way, expected)
        if said:
            self.findings.append(f"{way} {where}: {said}")

    @contextmanager
    def attempt(self, way: str, folder: Path, may_refuse: bool = False) -> Iterator[None]:
        """Let hyperslab refuse with a reason that is known, or with any where the format's library
        refuses, too.

        Everything else that is raised is a finding.
        """
        try:
            yield
        except HyperslabError as error:
            said = str(error)
            reason = refusals.reason(way, said)
            if reason:
                self.refused[f"{way}: {reason}"] += 1
            elif may_refuse:
                self.refused[f"{way}: as the format's library"] += 1
            else:
                self.findings.append(
                    f"{way}: refused, {type(error).__name__}: {without(said, folder)}"
                )
        except Exception as error:  # noqa: BLE001  # whatever it is, it is to be told
            self.findings.append(f"{way}: {told(error, folder)}")


def without(text: str, folder: Path) -> str:
    """A text without what differs from run to run."""
    return re.sub(r"\s+", " ", text.replace(f"{folder}/", ""))


def told(error: Exception, folder: Path) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {without(str(error), folder)[:600]} ({places})"
