"""When Spark ran map tasks and result tasks, as its event logs have it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hyperslab.accesses import Window

NAMES = {"ShuffleMapTask": "map", "ResultTask": "result"}
"Names of windows by the types of their tasks, those first that a moment of both counts for."
EVENT_LOG = re.compile(r"(local-\d+|app-\d{14}-\d+|application_\d+_\d+)(_\d+)?(\.inprogress)?$")
"Name of a file that is an event log, as Spark calls it after its application."
_TASK_END = '{"Event":"SparkListenerTaskEnd"'
_IN_PROGRESS = ".inprogress"
_MILLISECOND_NS = 10**6


def logs_among(paths: Iterable[str]) -> list[Path]:
    """The event logs among files that were written, as far as they are still there."""
    named = {path.removesuffix(_IN_PROGRESS) for path in paths if _is_log(path)}
    found = []
    for name in sorted(named):
        either = (Path(name), Path(name + _IN_PROGRESS))
        found += [path for path in either if path.is_file()][:1]
    return found


def _is_log(path: str) -> bool:
    return EVENT_LOG.match(path.rpartition("/")[2]) is not None


def windows_of(logs: Iterable[Path]) -> list[Window]:
    """Time from the first to the last task of every stage, map stages first."""
    found: dict[tuple[str, Path, int], Window] = {}
    for log in logs:
        for name, stage, start_ns, end_ns in _tasks(log):
            key = (name, log, stage)
            known = found.get(key, Window(name, start_ns, end_ns))
            found[key] = Window(name, min(start_ns, known.start_ns), max(end_ns, known.end_ns))
    order = list(NAMES.values())
    return sorted(found.values(), key=lambda window: (order.index(window.name), window.start_ns))


def _tasks(log: Path) -> Iterator[tuple[str, int, int, int]]:
    """Every task that has ended: the name of its window, its stage, when it began and ended."""
    with log.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("}\n"):  # Java may be killed
                return
            if not line.startswith(_TASK_END):
                continue
            event = json.loads(line)
            name = NAMES.get(event["Task Type"])
            if name is not None:
                about = event["Task Info"]
                times = (about["Launch Time"], about["Finish Time"] + 1)
                yield name, event["Stage ID"], *(time * _MILLISECOND_NS for time in times)
