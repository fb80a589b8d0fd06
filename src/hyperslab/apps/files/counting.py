"""Counting of a command's operations on files, with what a page or a terminal shows of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.accesses import KNOWN, Accesses, Window
from hyperslab.apps.files.kept import count_kept
from hyperslab.engines.spark.phases import logs_among, windows_of
from hyperslab.errors import UsageError
from hyperslab.report.files.numbers import BY, FileNumbers, numbers_of, numbers_of_totals
from hyperslab.report.files.scratch import ADVICE, slow_scratch
from hyperslab.report.verdict.finding import NOTABLE
from hyperslab.storage.accounting import fuse, moved
from hyperslab.storage.accounting.choosing import Chosen
from hyperslab.storage.accounting.kinds import place_of
from hyperslab.trace import union_ns


@dataclass(frozen=True, slots=True)
class Counted:
    """A command that has ended, and its operations on files."""

    status: int
    "Exit status of the command, as a shell has it."
    chosen: Chosen
    numbers: FileNumbers
    accesses: Accesses | None
    "Every operation; None where the way knows sums alone."
    advice: str = ""
    "What keeps the command waiting for its scratch space, and what to do; ''."


def require_by(by: Sequence[str]) -> None:
    """Raise UsageError for what operations cannot be grouped by."""
    for name in by:
        if name not in BY:
            raise UsageError(f"--by {','.join(by)}: give some of {', '.join(BY)}")
    if len(set(by)) < len(by):
        raise UsageError(f"--by {','.join(by)}: name each once")


def count_files(
    command: Sequence[str],
    chosen: Chosen,
    by: Sequence[str] = ("kind", "directory"),
    environment: Mapping[str, str] | None = None,
) -> Counted:
    """Run a command, and count the operations on files of all the processes that it starts.

    Raises UsageError where there is no such program, before anything starts.
    """
    given = os.environ if environment is None else environment
    if chosen.knows_each:
        status, accesses = count_kept(command, given, chosen.way)
        return Counted(status, chosen, numbers_by(accesses, by), accesses, advice_of(accesses))
    if chosen.way == fuse.WAY:
        assert chosen.directory is not None
        status, totals = fuse.count(command, given, chosen.directory)
    else:
        status, totals = moved.count(command, given)
    return Counted(status, chosen, numbers_of_totals(totals), None)


def numbers_by(accesses: Accesses, by: Sequence[str]) -> FileNumbers:
    """Numbers of accesses, whose phases are those of Spark where it has written an event log."""
    windows: Sequence[Window] = ()
    if "phase" in by:
        windows = windows_of(logs_among(_written(accesses)))
    return numbers_of(accesses, place_of, by, windows)


def advice_of(accesses: Accesses) -> str:
    """What to do about a scratch space that keeps a command, or the stages of its Spark, waiting;
    '' for nothing.
    """
    windows = windows_of(logs_among(_written(accesses)))
    numbers = numbers_of(accesses, place_of, ("phase",), windows)
    found = slow_scratch(numbers.groups)
    seconds = union_ns([(one.start_ns, one.end_ns) for one in windows]) / 1e9
    if found is None or found.excess_s < NOTABLE * (seconds or numbers.seconds or 0.0):
        return ""
    return f"{found.sentence_of_command()} {found.evidence()} {ADVICE}"


def _written(accesses: Accesses) -> list[str]:
    """Paths of files that were made or written."""
    each = accesses.columns
    wanted = np.isin(each["operation"], [KNOWN[name] for name in ("create", "write", "rename")])
    return [accesses.paths[place] for place in np.unique(each["path"][wanted])]
