"""Operations on files of a run, counted from its first process to its last, in its records."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab.accesses import FILE, ON_DATA, ON_NAMES, Accesses, Window
from hyperslab.apps.files.kept import count_kept
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import add_to_trace, load_records, try_report
from hyperslab.engines.spark.phases import windows_of
from hyperslab.errors import UsageError
from hyperslab.report.files import META
from hyperslab.report.files.numbers import FileNumbers, numbers_of
from hyperslab.report.files.page import DIRECTORIES, PHASES
from hyperslab.report.files.phases import SHUFFLE_READ, SHUFFLE_WRITE
from hyperslab.storage.accounting.choosing import choose_of_each
from hyperslab.storage.accounting.kinds import place_of
from hyperslab.storage.recordfile import save_json
from hyperslab.trace import Trace

NUMBERS = "numbers.json"
"Record of numbers that the summary of a run does not have, beside it."
SPARK_EVENTS = "spark-events"
"Folder of a run in which Spark keeps its event logs."
MOST_DIRECTORIES = 50
SHUFFLE = "shuffle"
"Kind of files that tasks exchange."
_OF_SHUFFLES = {SHUFFLE_WRITE: "write", SHUFFLE_READ: "read"}
"Phases of such files, and words for their numbers."


@dataclass(frozen=True, slots=True)
class CountedRun:
    """A run that has ended, and its operations on files."""

    status: int
    numbers: FileNumbers | None
    "Numbers by phase and kind; None of a run that has left no trace."
    unreported: str = ""
    "Why its page could not be written with these numbers; '' where it was, or was not to be."


def count_run(command: Sequence[str], out: Path, has_page: bool) -> CountedRun:
    """Run a command that leaves the records of a run in the directory or file `out`, and give these
    its operations on files. Raises UsageError where they cannot be counted.
    """
    try:
        chosen = choose_of_each()
    except UsageError as why:
        raise UsageError(f"--count-files: {why}") from None
    earlier = RunDirectory.of(out).newest()
    status, accesses = count_kept(command, os.environ, chosen.way)
    folder = RunDirectory.of(out).newest()
    if folder is None or folder == earlier or not (folder / "trace.parquet").is_file():
        return CountedRun(status, None)
    accesses.save(folder / FILE)
    phases = _keep(folder, accesses)
    found = {**numbers_of_run(phases), **_of_shuffles(folder, accesses)}
    _add_numbers(folder / NUMBERS, found)
    unreported = ""
    if has_page:
        unreported = try_report(load_records(folder))
    return CountedRun(status, phases, unreported)


def _add_numbers(path: Path, found: Mapping[str, float]) -> None:
    """Add numbers to those that a run has left."""
    known: dict[str, float] = {}
    if path.is_file():
        known = json.loads(path.read_text())
    save_json(path, {**known, **found})


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


def _of_shuffles(folder: Path, accesses: Accesses) -> dict[str, float]:
    """Operations on files that were shuffled, by phase, until the last task had ended: when Spark
    ends, it opens their directories to remove them. Nothing where none was shuffled.
    """
    meta = Trace.load(folder / "trace.parquet").meta
    numbers = numbers_of(_before(accesses, _wall_ns(meta, "end_ns")), place_of, ("phase", "kind"))
    groups = [one for one in numbers.groups if one.names["kind"] == SHUFFLE]
    if not groups:
        return {}
    found: dict[str, float] = {}
    for operation in ("open", "create", "unlink"):
        found[f"shuffle_{operation}s"] = sum(one.requested(operation) for one in groups)
    for phase, name in _OF_SHUFFLES.items():
        own = [one for one in groups if one.names["phase"] == phase]
        found[f"shuffle_{name}_operations"] = sum(one.requested() for one in own)
        found[f"shuffle_{name}_opens"] = sum(one.requested("open") for one in own)
    return found


def _before(accesses: Accesses, end_ns: int) -> Accesses:
    rows = accesses.columns["start_ns"] <= end_ns
    columns = {name: column[rows] for name, column in accesses.columns.items()}
    return replace(accesses, columns=columns)


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
    ready_ns = _wall_ns(meta, "ready_ns")
    end_ns = _wall_ns(meta, "end_ns")
    return [
        Window("start", 0, ready_ns),
        Window("tasks", ready_ns, end_ns),
        Window("end", end_ns, 2**63 - 1),
    ]


def _wall_ns(meta: Mapping[str, Any], name: str) -> int:
    """Moment of a run by the wall clock."""
    anchor = meta["wall_anchor"]
    moment: int = meta[name] + anchor["time_ns"] - anchor["monotonic_ns"]
    return moment
