"""Operations on files of a run, counted from its first process to its last, in its records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.accesses import FILE, ON_DATA, ON_NAMES, Accesses, Window
from hyperslab.apps.files.kept import count_kept
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import PAGE, add_to_trace, load_records, write_report
from hyperslab.engines.environment import itself
from hyperslab.engines.spark.phases import windows_of
from hyperslab.errors import UsageError
from hyperslab.report.files.numbers import FileNumbers, numbers_of
from hyperslab.report.files.page import DIRECTORIES, META, PHASES
from hyperslab.storage.accounting import strace
from hyperslab.storage.accounting.kinds import place_of
from hyperslab.storage.recordfile import save_json
from hyperslab.trace import Trace

NUMBERS = "numbers.json"
"Record of numbers that the summary of a run does not have, beside it."
SPARK_EVENTS = "spark-events"
"Folder of a run in which Spark keeps its event logs."
MOST_DIRECTORIES = 50


@dataclass(frozen=True, slots=True)
class CountedRun:
    """A run that has ended, and its operations on files."""

    status: int
    numbers: FileNumbers | None
    "Numbers by phase and kind; None of a run that has left no trace."


def count_run(arguments: Sequence[str], out: Path, has_page: bool) -> CountedRun:
    """Run `hyperslab` with these arguments; the records of its run, in the directory or file `out`,
    are given its operations on files. Raises UsageError where they cannot be counted.
    """
    if why := strace.why_not():
        raise UsageError(f"--count-files: {why}")
    earlier = RunDirectory.of(out).newest()
    status, accesses = count_kept(itself(arguments), os.environ)
    folder = RunDirectory.of(out).newest()
    if folder is None or folder == earlier or not (folder / "trace.parquet").is_file():
        return CountedRun(status, None)
    accesses.save(folder / FILE)
    phases = _keep(folder, accesses)
    save_json(folder / NUMBERS, numbers_of_run(phases))
    if has_page:
        write_report(load_records(folder), folder / PAGE)
    return CountedRun(status, phases)


def numbers_of_run(numbers: FileNumbers) -> dict[str, float]:
    """What an experiment records of a run's operations."""
    total = numbers.total
    return {
        "file_operations": total.requested(),
        "file_opens": total.requested("open", "create"),
        "file_creates": total.requested("create"),
        "file_unlinks": total.requested("unlink"),
        "file_names_s": total.seconds(*ON_NAMES) or 0.0,
        "file_data_s": total.seconds(*ON_DATA) or 0.0,
    }


def _keep(folder: Path, accesses: Accesses) -> FileNumbers:
    """Put the numbers into the trace of a run; returns those by phase."""
    windows = _windows(folder)
    phases = numbers_of(accesses, place_of, ("phase", "kind"), windows)
    directories = numbers_of(accesses, place_of, ("kind", "directory"))
    told = {PHASES: phases.as_json(), DIRECTORIES: directories.as_json()}
    told[DIRECTORIES]["groups"] = told[DIRECTORIES]["groups"][:MOST_DIRECTORIES]
    add_to_trace(folder, META, told)
    return phases


def _windows(folder: Path) -> list[Window]:
    """Stages of Spark, where it ran any, then the parts of the run itself."""
    found: list[Window] = []
    events = folder / SPARK_EVENTS
    if events.is_dir():
        found += windows_of(sorted(events.iterdir()))
    return [*found, *_parts(Trace.load(folder / "trace.parquet").meta)]


def _parts(meta: dict[str, Any]) -> list[Window]:
    """Start, tasks and end of a run, by the wall clock."""
    anchor = meta["wall_anchor"]
    wall_ns = anchor["time_ns"] - anchor["monotonic_ns"]
    ready_ns = meta["ready_ns"] + wall_ns
    end_ns = meta["end_ns"] + wall_ns
    return [
        Window("start", 0, ready_ns),
        Window("tasks", ready_ns, end_ns),
        Window("end", end_ns, 2**63 - 1),
    ]
