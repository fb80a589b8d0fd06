"""Failures as people read them: equal ones together, each with the line of the user's own code."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hyperslab.errors import in_callers_words
from hyperslab.plan.failure import DIED, Failure, Frame, own_frame, place_of
from hyperslab.plan.function import is_library
from hyperslab.redaction import redact
from hyperslab.report.prose import whole_flags
from hyperslab.units import show_count

GROUPS_SHOWN = 5
"Reasons that a terminal shows; the page has all of them."
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGABRT", "SIGILL")
"Signals by which faults of native code end a process."
_FRAME = r'  File "(?P<file>.+)", line (?P<line>\d+), in '
"First line of a frame in Python's tracebacks."


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that did not succeed, whatever was tried."""

    task: str
    "File and region of its block."
    error: str
    "Name of the exception, or of what ended the worker."
    message: str
    attempts: int
    file: str = ""
    "Where the user's own code was; '' where it is not from there."
    line: int = 0
    function: str = ""
    text: str = ""
    "The line itself; '' if its source is not available."
    traceback: str = ""

    def __repr__(self) -> str:
        why = " ".join(self.message.split())
        attempts = show_count(self.attempts, "attempt")
        return f"<hyperslab.Failed: {self.task}: {why} ({attempts})>"

    @property
    def place(self) -> str:
        """File and line of the user's own code, as editors and terminals link them; '' for none."""
        return place_of(self.file, self.line)


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that failed for the same reason."""

    first: Failed
    count: int
    "Number of the tasks."
    tasks: tuple[str, ...]
    "Files and regions of their blocks."


def failed(task: str, why: Failure, attempts: int) -> Failed:
    """The record of a task whose last attempt failed for this reason."""
    frame: dict[str, Any] = {}
    if why.frame is not None:
        frame = asdict(why.frame)
        # a worker has not the cells of a notebook
        frame["text"] = frame["text"] or _line_here(why.frame.file, why.frame.line)
    message = in_callers_words(why.message)
    told = _whole(why.traceback.replace(why.message, message))
    return Failed(task, why.error, message, attempts, **frame, traceback=told)


def _line_here(file: str, line: int) -> str:
    """A line of code as this process knows it; '' where it does not."""
    return redact(linecache.getline(file, line).strip())


def _whole(traceback: str) -> str:
    """A traceback with the lines of code that the worker did not know."""
    lines = traceback.splitlines(keepends=True)
    whole = []
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        whole.append(line)
        found = re.match(_FRAME, line)
        if found and not after.startswith("    "):
            code = _line_here(found["file"], int(found["line"]))
            whole += [f"    {code}\n"] * bool(code)
    return "".join(whole)


def likeness(failure: Failure) -> tuple[str, ...]:
    """What equal failures have in common: the error, its place, and its message but for numbers."""
    place = ""
    if failure.frame is not None:
        place = failure.frame.place
    return _likeness(failure.error, place, failure.message)


def _likeness(error: str, place: str, message: str) -> tuple[str, ...]:
    return error, place, re.sub(r"\d+", "0", message)


def grouped(failures: Iterable[Failed]) -> list[Group]:
    """Equal failures together, the most frequent reason first."""
    groups: dict[tuple[str, ...], list[Failed]] = {}
    for each in failures:
        groups.setdefault(_likeness(each.error, each.place, each.message), []).append(each)
    found = [Group(same[0], len(same), tuple(one.task for one in same)) for same in groups.values()]
    return sorted(found, key=lambda group: -group.count)


def records_of(failures: Sequence[Failed]) -> list[dict[str, Any]]:
    """Failures as failures.json keeps them; one traceback for each reason."""
    told = set()
    records = []
    for each in failures:
        reason = _likeness(each.error, each.place, each.message)
        traceback = ""
        if reason not in told:
            traceback = each.traceback
        told.add(reason)
        fields = {"task": each.task, "reason": each.message, "attempts": each.attempts}
        frame = {"file": each.file, "line": each.line, "function": each.function}
        more = {"error": each.error, **frame, "text": each.text, "traceback": traceback}
        records.append({**fields, **more})
    return records


def load_failed(record: Mapping[str, Any]) -> Failed:
    """A failure of failures.json; earlier versions kept neither error nor place."""
    return Failed(
        record["task"],
        record.get("error", ""),
        record["reason"],
        record["attempts"],
        record.get("file", ""),
        record.get("line", 0),
        record.get("function", ""),
        record.get("text", ""),
        record.get("traceback", ""),
    )


def line_behind(error: BaseException) -> str:
    """Place, function and line of the user's own code that an error has gone through; '' for
    none.
    """
    frame = own_frame(error)
    if frame is None:
        return ""
    return where_words(frame)


def where_words(one: Failed | Frame) -> str:
    """Place, function and line of the user's own code in one line; '' for none."""
    if not one.place:
        return ""
    words = one.place
    if one.function:
        words += f", in {one.function}"
    if one.text:
        return f"{words}: {one.text}"
    return words


def failure_headline(groups: Sequence[Group], tasks: int) -> str:
    """How many tasks failed, where and why, in a sentence; `tasks` is the number of all tasks of
    the run.
    """
    text = f"{failure_count(groups, tasks)}: {groups[0].first.message}"
    if len(groups) > 1:
        text += f" (and {show_count(len(groups) - 1, 'other reason')})"
    return text


def planned_tasks(plan: Mapping[str, Any], otherwise: int) -> int:
    """How many tasks a run has by its plan, with those that begin when all others have ended."""
    if "tasks" not in plan:
        return otherwise
    return int(plan["tasks"]) + len(plan.get("then", ()))


def failure_count(groups: Sequence[Group], tasks: int) -> str:
    """How many of a run's tasks failed, and where the most of them."""
    first = groups[0].first
    count = sum(group.count for group in groups)
    text = f"{count:,} of {show_count(max(count, tasks), 'task')} failed"
    if first.place:
        text += f" in {first.function} ({first.place})"
    return text


def lie_in_function(failures: Iterable[Failed]) -> bool:
    """Whether any failure is in the user's own code, or in what that has called and what ended its
    process, so that it has to be edited.
    """
    return any(_is_own(one) or _has_crashed(one) for one in failures)


def _is_own(one: Failed) -> bool:
    return bool(one.file) and not is_library(Path(one.file))


def _has_crashed(one: Failed) -> bool:
    """Whether the process of a task ended by what ran in it, such as a fault in C, not by others,
    or for want of memory.
    """
    return one.error == DIED and any(name in one.message for name in _CRASHES)


def flags_to_resume(failures: Sequence[Failed], done: int, has_function: bool = True) -> list[str]:
    """What continues a run after its failures are mended, `done` of whose tasks have succeeded.
    Without a function of its user's none can be edited.
    """
    if done and has_function and lie_in_function(failures):
        return ["--resume", "--accept-changed-function"]
    return ["--resume"]


def kept_words(failures: Sequence[Failed], done: int, has_function: bool = True) -> str:
    """What becomes of tasks that have succeeded where the function is edited; '' for none."""
    if not done or not has_function or not lie_in_function(failures):
        return ""
    if done == 1:
        return "the task that has succeeded keeps what the function made before it was edited"
    return (
        f"the {done:,} tasks that have succeeded keep what the function made before it was edited"
    )


def _beside_task(one: Failed) -> str:
    """The message without the name of the file that the task has, too."""
    return one.message.removeprefix(f"{one.task}: ")


def group_lines(group: Group, with_traceback: bool = False) -> list[str]:
    """A group as a terminal shows it, headline first."""
    first = group.first
    attempts = f"after {show_count(first.attempts, 'attempt')}"
    lines = [f"failed: {first.task}: {_beside_task(first)} ({attempts})"]
    if group.count > 1:
        lines = [
            f"failed: {show_count(group.count, 'task')}: {first.message}",
            f"    first of them: {first.task} ({attempts})",
        ]
    if where := where_words(first):
        lines.insert(1, f"    {where}")
    if with_traceback and first.traceback:
        lines += first.traceback.rstrip("\n").splitlines()
    return lines


def failures_html(groups: Sequence[Group]) -> str:
    """The section of a page: a row for each reason, with its tasks and its traceback."""
    if not groups:
        return ""
    rows = "".join(map(_row, groups))
    title = show_count(sum(group.count for group in groups), "failed task")
    return (
        f'<section class="failures">\n<h2>{title}</h2>\n<div class="scroll"><table>\n'
        f"{rows}</table></div>\n</section>"
    )


def _row(group: Group) -> str:
    first = group.first
    tasks = escape(first.task)
    if group.count > 1:
        listed = "\n".join(map(escape, group.tasks))
        summary = f"{show_count(group.count, 'task')}, the first: {tasks}"
        tasks = f"<details><summary>{summary}</summary><pre>{listed}</pre></details>"
    attempts = show_count(first.attempts, "attempt")
    why = f"{whole_flags(escape(_beside_task(first)))} ({attempts})"
    if where := where_words(first):
        why += f"<br><code>{escape(where)}</code>"
    if first.traceback:
        trace = escape(first.traceback)
        what = "what it printed last"  # a command, which has no place in a source file
        if where or "Traceback" in trace:
            what = "traceback"
        why += f"<details><summary>{what}</summary><pre>{trace}</pre></details>"
    return f'<tr><th>{tasks}</th><td class="text">{why}</td></tr>\n'
