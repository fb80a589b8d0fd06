"""Ahead: the first worker of a run starts while its verb is imported, which takes as long.

What the line asks for is guessed from its words. A worker that was started for nothing ends with
the command, and one that does not fit is not taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

VERBS = ("run", "convert")
"Verbs that run tasks on the engine that --engine names."
NOT_HERE = {
    *("--help", "-h", "--dry-run", "--check-locality"),
    *("--connect", "--netlab", "--detach", "--scratch", "--count-files"),
}
"Flags with which no task runs, or none in a worker of this process."


def worker_ahead(words: Sequence[str]) -> AbstractContextManager[None]:
    """A block in which a worker waits for the run that a line will begin, if it is to."""
    names = {word.partition("=")[0] for word in words}
    if not words or words[0] not in VERBS or names & NOT_HERE:
        return nullcontext()
    return _waiting(words)


def _waiting(words: Sequence[str]) -> AbstractContextManager[None]:
    from hyperslab import engines
    from hyperslab.engines.facts import DEFAULT, ENGINES
    from hyperslab.machine.host import Host

    name = _value(words, "--engine") or DEFAULT
    if name not in ENGINES:
        return nullcontext()
    host = Host.here()
    workers, threads = engines.slots(
        name, host, _number(words, "--workers"), _number(words, "--threads")
    )
    example = next(filter(os.path.isfile, words), "")
    return engines.ahead(name, engines.slot_cpus(host, workers, threads), example)


def _number(words: Sequence[str], flag: str) -> int | None:
    """The number that a flag is given; None where it is given none."""
    value = _value(words, flag)
    if not value.isdecimal():
        return None
    return int(value)


def _value(words: Sequence[str], flag: str) -> str:
    """What a flag is given on a line; '' where it is not there."""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, text = word.partition("=")
        if name != flag:
            continue
        found = following
        if equals:
            found = text
    return found
