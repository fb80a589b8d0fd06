"""Words of a command that a user has written in one text, as a shell has them."""

from __future__ import annotations

import shlex

from hyperslab.errors import UsageError


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
