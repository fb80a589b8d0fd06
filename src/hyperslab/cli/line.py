"""Line: the words of the command that is being run, for one that has to be run again elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

_words: list[str] = []


def keep_line(words: Sequence[str]) -> None:
    """Keep the words of this command, without the program's name."""
    _words[:] = words


def line_without(*flags: str, switches: Sequence[str] = ()) -> list[str]:
    """The words of this command, without flags and their values, and without flags that have
    none.
    """
    kept = []
    is_value = False
    for word in _words:
        if is_value:
            is_value = False
        elif word in flags:
            is_value = True
        elif word in switches:
            continue
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept
