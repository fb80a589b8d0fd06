"""What functions have printed, and whether it says more than the failures of their run do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperslab.report.failures import Failed

MOST_NBYTES = 2**24
"Bytes of a log that is looked through; a larger one says more."


def says_more(log: Path, failures: Sequence[Failed], own: str = "") -> bool:
    """Whether a log has a line of functions that is not empty."""
    if log.stat().st_size > MOST_NBYTES:
        return True
    return any(line.strip() for line in printed_lines(log, failures, own))


def printed_lines(log: Path, failures: Sequence[Failed], own: str = "") -> Iterator[str]:
    """Lines of a log that are in no failure's message or traceback, and not the engine's own, which
    the regular expression `own` matches from their start.
    """
    texts = [text for one in failures for text in (one.message, one.traceback)]
    told = {line.strip() for text in texts for line in text.splitlines()} - {""}
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.strip()
            if text not in told and not _matches(own, text):
                yield line


def _matches(own: str, text: str) -> bool:
    return bool(own) and re.match(own, text) is not None
