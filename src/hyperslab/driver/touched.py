"""Touched: inputs of commands that have other times than when they were read, and the same sizes.

What is in them is compared with the checksum that was taken when their task had ended, so that a
file which was copied, fetched again or touched repeats nothing, and one with other content does.
Each is read once, however many submissions there are. Held by tests/apps/commands/test_touched.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from hyperslab.blocks.gathering import Tell
from hyperslab.plan.command import CommandTask
from hyperslab.plan.contents import checksum, digest_of
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome

Holds = Callable[[int, CommandTask], bool]
"Whether the inputs of a task, with its number in an earlier submission, are what they were then."


class Touched:
    """Inputs that are compared with what earlier submissions have recorded."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._now: dict[tuple[str, ...], str] = {}
        self._digest = cache(digest_of)

    def since(self, folder: Path) -> Holds:
        """What tells of a submission whether inputs are what its tasks have read."""
        return partial(self._holds, cache(lambda: _recorded(folder)))

    def _holds(self, recorded: Callable[[], _Recorded], there: int, command: CommandTask) -> bool:
        before = recorded()
        if there not in before.checksums:
            return not before.is_damaged  # it has made nothing there
        known = before.checksums[there]
        return known != "" and known == self._checksum(command.inputs)

    def _checksum(self, inputs: tuple[str, ...]) -> str:
        if not self._now:
            self._tell("reading    inputs that have another time than when they were read before")
        if inputs not in self._now:
            self._now[inputs] = checksum(inputs, self._digest)
        return self._now[inputs]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a submission has recorded of what its tasks have read."""

    checksums: dict[int, str]
    """Checksums of the inputs of all tasks that have made something; '' where it is not known what
    they have read.
    """
    is_damaged: bool
    "Whether more tasks may have made something."


def _recorded(folder: Path) -> _Recorded:
    tail = Tail(folder)
    found: dict[int, str] = {}
    for outcome in sorted(tail.poll(), key=_rank):
        if outcome.ran is not None and outcome.status in ("done", "staged"):
            found[outcome.task] = outcome.ran.inputs
    return _Recorded(found, tail.damaged > 0)


def _rank(outcome: Outcome) -> tuple[bool, int]:
    """The attempt that ranks highest is the one whose files are there."""
    return outcome.status == "done", outcome.attempt
