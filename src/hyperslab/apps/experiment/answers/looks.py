"""Looks: at how many replicates an answer was given. Who may stop or go on with each of them has as
many chances to find something, so the tests of a later answer are stricter (`significance`).

An answer counts once for each number of replicates, from two on: before that nothing is decided. A
further answer about as many of them is the same one. The number is that of the cell which has most,
since one may add replicates of some cells alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.errors import UsageError
from hyperslab.storage.recordfile import load_record, save_record

VERSION = 1
LEAST = 2
"Replicates below which an answer decides nothing."
_REMEDY = "at how many replicates answers were given is lost; remove the file to count them anew"


def looks_of(directory: ExperimentDirectory, record: Record) -> list[int]:
    """Numbers of replicates at which answers were given, that of one which is given now included,
    in their order.
    """
    now = _replicates(record)
    earlier = [number for number in _noted(directory) if number < now]
    return sorted({*earlier, now} - set(range(LEAST)))


def note(directory: ExperimentDirectory, record: Record) -> None:
    """Keep that an answer is given now, where that can be written."""
    looks = looks_of(directory, record)
    known = _noted(directory)
    if looks and looks[-1] not in known:
        numbers = sorted({*known, *looks})
        with suppress(OSError):
            save_record(_path(directory), {"version": VERSION, "replicates": numbers})


def _path(directory: ExperimentDirectory) -> Path:
    return directory.root / "looks.json"


def _noted(directory: ExperimentDirectory) -> Sequence[int]:
    """Numbers that were kept; of an experiment from before there were any, that at which it was
    extended. Raises DamagedRecord, and UsageError for another version.
    """
    path = _path(directory)
    if not path.exists():
        return directory.first_replicates()
    found = load_record(path, _REMEDY)
    if found["version"] != VERSION:
        raise UsageError(f"{path} is of version {found['version']}, not {VERSION}: {_REMEDY}")
    numbers: list[int] = found["replicates"]
    return numbers


def _replicates(record: Record) -> int:
    """Replicates of the cell that has most of them."""
    counts: dict[object, int] = {}
    for attempt in record.counted():
        counts[attempt.key] = counts.get(attempt.key, 0) + 1
    return max(counts.values(), default=0)
