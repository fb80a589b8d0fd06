"""Result: what a run left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

from hyperslab.driver.directory import RunState
from hyperslab.driver.submission import PAGE
from hyperslab.engines import SCRATCH_LOGS
from hyperslab.errors import TasksFailed
from hyperslab.report.failures import (
    GROUPS_SHOWN,
    Failed,
    flags_to_resume,
    grouped,
    kept_words,
    where_words,
)
from hyperslab.report.summary import Summary
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count, show_seconds

if TYPE_CHECKING:
    from hyperslab.driver.unkept import Unkept

LOG = "worker.log"
"File of a submission that has what its workers printed."


def told_of_scratch(folder: Path) -> list[str]:
    """What became of the scratch of a submission's workers, each sentence once for a host."""
    told = [path.read_text(errors="replace") for path in sorted(folder.glob(SCRATCH_LOGS))]
    return list(dict.fromkeys(line for text in told for line in text.splitlines()))


class Output(PosixPath):
    """A file that a run wrote, or a Zarr store: a path that knows how large it is."""

    @property
    def nbytes(self) -> int:
        """Bytes of the file now, or of all files of the store. Raises FileNotFoundError."""
        if not self.is_dir():
            return self.stat().st_size
        return sum(file.stat().st_size for file in self.rglob("*") if file.is_file())

    def __repr__(self) -> str:
        size = "gone"
        if self.exists():
            size = show_bytes(self.nbytes)
        return f"<hyperslab.Output: {self}, {size}>"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a run left behind."""

    state: RunState
    outputs: list[Output]
    "Paths of the files that hold what the run made, with their sizes."
    value: Any
    "Result of a reduction; None after a write, or when tasks failed."
    failures: list[Failed]
    tasks: int
    "Tasks of the whole plan, those of earlier submissions included."
    trace: Trace
    summary: Summary
    folder: Path
    "Folder of this submission's records."
    ended_early: str = ""
    "Why the run ended before all tasks had been tried; '' if it did not."
    done: int = 0
    "Tasks that have succeeded, those of earlier submissions included."
    unreported: str = ""
    "Why the report could not be written, and what writes it; '' where that is not so."
    unkept: tuple[Unkept, ...] = ()
    "Files that commands have made under a name which another one has given before, and differ."
    unfinished: tuple[str, ...] = ()
    """Sentences on the files that several tasks write to, where some have failed: which are there,
    which are missing, and what else has kept any from its name.
    """

    @property
    def ok(self) -> bool:
        return self.state == "done"

    @property
    def page(self) -> Path | None:
        """The report, where it was written."""
        page = self.folder / PAGE
        return page if page.is_file() else None

    @property
    def printed(self) -> Path | None:
        """The file of what functions printed, where workers kept any of it; the engines serial and
        threads leave it on the terminal.
        """
        log = self.folder / LOG
        if log.is_file() and log.stat().st_size:
            return log
        return None

    def __repr__(self) -> str:
        told = [self.state, show_count(self.tasks, "task")]
        if self.failures:
            told.append(f"{len(self.failures):,} failed")
        if self.outputs:
            told.append(show_count(len(self.outputs), "output"))
        told.append(show_seconds(self.summary.makespan_s))
        if self.printed is not None:
            told.append(f"printed lines in {self.printed.name}")
        return f"<hyperslab.Result: {', '.join(told)}, records in {self.folder}>"

    def _repr_html_(self) -> str:
        from hyperslab.report.notebook import run_html

        outputs = ""
        if self.outputs:
            written = show_count(len(self.outputs), "file")
            outputs = f"{written} in {self.folder.parent.parent}"
        files = {"printed": self.printed, "report": self.page}
        named = {name: str(path) for name, path in files.items() if path is not None}
        more = {"outputs": outputs, **named}
        groups = grouped(self.failures)
        title = f"run {self.state}"
        return run_html(title, self.trace, self.summary, groups, more)


def together(results: Sequence[Result]) -> Result:
    """What submissions of different tasks have come to; times and records are those of the one that
    has run most of them.
    """
    if len(results) == 1:
        return results[0]
    failures = [failure for one in results for failure in one.failures]
    state: RunState = "done"
    if failures:
        state = "failed"
    return replace(
        max(results, key=lambda one: one.summary.attempts),
        state=state,
        outputs=[output for one in results for output in one.outputs],
        failures=failures,
        tasks=sum(one.tasks for one in results),
        done=sum(one.done for one in results),
        ended_early=results[-1].ended_early,
        unreported="; ".join(one.unreported for one in results if one.unreported),
        unkept=tuple(gone for one in results for gone in one.unkept),
        unfinished=tuple(text for one in results for text in one.unfinished),
    )


def checked(result: Result) -> Result:
    """The result of a run all of whose tasks are done. Raises TasksFailed for any other."""
    if not result.failures:
        return result
    told = (result, result.failures, _traceback(result))
    raise TasksFailed(_sentence(result), *told, _resuming(result))


def _resuming(result: Result) -> str:
    """What to do besides mending what has failed."""
    flags = flags_to_resume(result.failures, result.done)
    verb = "does" if len(flags) == 1 else "do"
    advice = f"{' and '.join(flags)} {verb} only what is missing"
    return "; ".join(filter(None, (advice, kept_words(result.failures, result.done))))


def _sentence(result: Result) -> str:
    groups = grouped(result.failures)
    reasons = []
    for group in groups[:GROUPS_SHOWN]:
        where = where_words(group.first)
        told = group.first.message
        if len(groups) > 1:
            told = f"{show_count(group.count, 'task')}: {told}"
        if where:
            told += f" ({where})"
        reasons.append(told)
    if len(groups) > GROUPS_SHOWN:
        reasons.append(f"and {show_count(len(groups) - GROUPS_SHOWN, 'other reason')}")
    ended = ""
    if result.ended_early:
        ended = (
            f"; the run ended early, because {result.ended_early} (--keep-going tries all tasks)"
        )
    told = "; ".join([*reasons, *result.unfinished])
    return f"{len(result.failures):,} of {show_count(result.tasks, 'task')} failed: {told}{ended}"


def _traceback(result: Result) -> str:
    """The traceback of the most frequent failure; '' where there is none."""
    found = (group.first.traceback for group in grouped(result.failures))
    return next((text for text in found if text), "")
