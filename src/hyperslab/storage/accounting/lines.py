"""Lines of strace, as the calls that they tell of.

A call that others interrupt has two lines, of which the second one resumes the first. What a line
says is taken apart from its beginning, so that no name of a file can be taken for more than a name:
strace escapes quotes in texts, and angle brackets in paths.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?'
_PATH = r"<[^<>]*>"
# Possessive: what one part has taken no other one is tried for.
_ARGUMENTS = rf'(?:[^"<()]++|{_TEXT}|{_PATH}|<<|\([^()]*\))*+'
_CALL = re.compile(
    rf"(?P<name>\w+)\((?P<arguments>{_ARGUMENTS})\)\s+= "
    r"(?P<result>-?\d+|0x[0-9a-f]+|\?)(?:<(?P<path>[^<>]*)>(?:\(deleted\))?)?"
    r"(?: (?P<error>E[A-Z0-9]+) )?.*?(?:<(?P<seconds>[\d.]+)>)?$"
)
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>,? ?")
_UNFINISHED = " <unfinished ...>"
_ENDED = ("+++ exited", "+++ killed")
_TOLD = "+++ "
_SIGNALLED = "--- "
_GIVEN_UP = "?"
"Result of a call that does not return, or that the kernel begins again."


class Call(NamedTuple):
    """One call of the kernel by one thread."""

    thread: int
    start_ns: int
    "Wall clock."
    duration_ns: int
    name: str
    arguments: str
    "Arguments as strace writes them: descriptors with their paths."
    result: int
    path: str
    "Path of the descriptor that it returned, escaped; ''."
    error: str
    "Name of its error, such as ENOENT; ''."


class Ended(NamedTuple):
    """The end of a thread."""

    thread: int


class Lines:
    """Lines of one strace, in their order."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, str]] = {}
        self.unread = 0
        "Lines that tell of a call, and could not be read."
        self.first_unread = ""

    def begun(self) -> list[str]:
        """Calls that threads are in, as far as these are written."""
        return [text for _, text in self._begun.values()]

    def take(self, line: str) -> Call | Ended | None:
        """What a line says; None for one that says nothing new of files."""
        words = line.split(None, 2)
        if len(words) < 3:
            self._give_up(line)
            return None
        thread = int(words[0])
        start_ns = _nanoseconds(words[1])
        text = words[2]
        if text.startswith(_ENDED):
            self._begun.pop(thread, None)
            return Ended(thread)
        if text.startswith((_SIGNALLED, _TOLD)):
            return None
        if text.endswith(_UNFINISHED):
            self._begun[thread] = (start_ns, text.removesuffix(_UNFINISHED))
            return None
        if resumed := _RESUMED.match(text):
            if thread not in self._begun:
                self._give_up(line)
                return None
            start_ns, beginning = self._begun.pop(thread)
            text = beginning + text[resumed.end() :]
        return self._call(thread, start_ns, text)

    def _call(self, thread: int, start_ns: int, text: str) -> Call | None:
        found = _CALL.match(text)
        if found is None:
            self._give_up(text)
            return None
        if found["result"] == _GIVEN_UP:
            return None
        duration_ns = 0
        if found["seconds"]:
            duration_ns = _nanoseconds(found["seconds"])
        return Call(
            thread,
            start_ns,
            duration_ns,
            found["name"],
            found["arguments"],
            int(found["result"], 0),
            found["path"] or "",
            found["error"] or "",
        )

    def _give_up(self, text: str) -> None:
        self.unread += 1
        self.first_unread = self.first_unread or text


def _nanoseconds(seconds: str) -> int:
    """Seconds of a decimal text, exactly."""
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part[:9].ljust(9, "0"))
