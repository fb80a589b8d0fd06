"""Sentences on a page: flags that no line breaks, words of the trade that explain themselves."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperslab.report.verdict import Verdict

WORDS = {
    "slot": "a place where one task can run at a time: a thread of a worker",
    "makespan": "time from the start of a run to its end",
    "start-up": "time until the engine could run its first task",
    "block": "the part of an array that one task works on",
    "chunk": "the part of an array that its file stores, and compresses, as one",
    "halo": "voxels around a block that the function needs, read again with each block",
    "partition": "how an array is cut into blocks",
    "overhead": "time that a slot spends between its tasks: scheduling, sending, recording",
    "page cache": "memory in which the system keeps what was read from files",
    "utilisation": "the share of the slots' time in which they ran tasks",
    "throughput": "bytes that all slots together read and wrote, per second of the run",
    "median": "what half of the tasks took less than",
    "phase": "what a slot does for a task at a time: read, compute, or write",
    "lane": "a row of the chart, of one slot",
    "attempt": "one time that a task was tried",
    "operator": "what an engine plans and runs as one piece of work",
    "fused": "all steps of a block are one piece of work",
    "stepwise": "each step of a block is a piece of work of its own",
    "resident set": "the memory of a process that is in the machine's own, not on its disk",
    "GIL": "the lock that lets one thread of a Python process run at a time",
}
"What words mean that a reader of a page may not know; shown where the pointer rests on them."
_ANY_CASE = (*WORDS, *(word.capitalize() for word in WORDS if word.islower()))
_WORD = re.compile(
    rf"(?<![\w-])({'|'.join(map(re.escape, _ANY_CASE))})(?=s?(?:&#x27;s?)?(?![\w-]))"
)
_FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]*(?:[ =](?:\d[\w.,x]*|[A-Z]+\b))?")


def prose(text: str) -> str:
    """A sentence as HTML: flags stay whole, and each word of the trade is explained once."""
    told: set[str] = set()

    def explained(found: re.Match[str]) -> str:
        word = found[1]
        if word in told:
            return word
        told.add(word)
        return f'<abbr title="{escape(meaning(word))}">{word}</abbr>'

    return whole_flags(_WORD.sub(explained, escape(text)))


def meaning(word: str) -> str:
    """What a word means, also at the beginning of a sentence."""
    if word in WORDS:
        return WORDS[word]
    return WORDS[word.lower()]


def whole_flags(html: str) -> str:
    """A text without tags, or none that hold flags, whose flags stay whole where lines end."""
    return _FLAG.sub(lambda found: f'<span class="flag">{found[0]}</span>', html)


def verdict_html(verdict: Verdict) -> str:
    """Cause, evidence and remedy of what limited a run, apart, as HTML."""
    if not verdict.findings:
        return f'<p class="hint">{prose(verdict.paragraph)}</p>\n'
    rows = "".join(
        f"<dt>{name.capitalize()}</dt><dd>{prose(text)}</dd>\n"
        for name, text in verdict.told().items()
    )
    return f'<dl class="verdict">\n{rows}</dl>\n'
