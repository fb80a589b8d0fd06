"""What functions have printed, and whether it says more than the failures of their run do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hyperslab.report.failures import Failed

MOST_NBYTES = 2**24
"Bytes of a log that is looked through; a larger one says more."


def says_more(log: Path, failures: Sequence[Failed], own: str = "") -> bool:
    """Whether a log has a line that is not empty, not told by a failure's message or traceback, and
    not of the engine's own, which the regular expression `own` matches from their start.
    """
    if log.stat().st_size > MOST_NBYTES:
        return True
    told = "\n".join(text for one in failures for text in (one.message, one.traceback))
    with log.open(encoding="utf-8", errors="replace") as lines:
        texts = (line.strip() for line in lines)
        return any(text not in told and not _matches(own, text) for text in texts if text)


def _matches(own: str, text: str) -> bool:
    return bool(own) and re.match(own, text) is not None
