"""Words of a command that a user has written in one text, as a shell has them, and variables."""

from __future__ import annotations

import os
import re
import shlex

from hyperslab.errors import UsageError

_VARIABLE = re.compile(r"\$(?:(\w+)|\{([^}]+)\})", re.ASCII)
"A variable as `os.path.expandvars` knows it."


def unset_in(text: str) -> list[str]:
    """Names of variables in a text that have no value here, or an empty one."""
    names = [bare or braced for bare, braced in _VARIABLE.findall(text)]
    return [name for name in names if not os.environ.get(name)]


def words_of(text: str, named: str) -> list[str]:
    """The words; [] where there are none.

    `named` is what is before the text in messages, such as '--app '. Raises UsageError for quotes
    that are not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"{named}{text}: {error}; check its quotes, which are those of a shell"
        ) from error
