"""Warned: who calls from Python is warned at the line of the call, of wrong data and of a report
that could not be written.

The command line says the same itself, also where it is to be quiet.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from pathlib import Path

from hyperslab.errors import in_callers_words, speaks_flags
from hyperslab.plan.failure import PACKAGE

_BLOCKS = Path(contextlib.__file__)
"File whose functions begin and end a block of a caller's."


def warn_of(text: str, kind: type[Warning]) -> None:
    """Warn of what is said, if anything is, unless the command line has called."""
    if text and not speaks_flags():
        warnings.warn(in_callers_words(text), kind, stacklevel=_callers_level())


def _callers_level() -> int:
    """The level, for a function that is called from this file, of the first frame that is neither
    hyperslab's own nor that of a block's beginning or end.
    """
    frame = inspect.currentframe()
    level = 0
    while frame is not None and _is_between(Path(frame.f_code.co_filename)):
        frame = frame.f_back
        level += 1
    return level


def _is_between(file: Path) -> bool:
    return PACKAGE in file.parents or file == _BLOCKS
