"""Line: the words of the command that is being run, for one that has to be run again elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

_words: list[str] = []


def keep_line(words: Sequence[str]) -> None:
    """Keep the words of this command, without the program's name."""
    _words[:] = words


def line_without(
    *flags: str, switches: Sequence[str] = (), instead: Sequence[str] = ()
) -> list[str]:
    """The words of this command, without flags and their values, and without flags that have none.
    Other words stand `instead` where the first flag with a value was.
    """
    kept: list[str] = []
    others = list(instead)
    is_value = False
    for word in _words:
        flag, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif flag in flags:
            kept += others
            others.clear()
            is_value = not equals
        elif word not in switches:
            kept.append(word)
    return kept
