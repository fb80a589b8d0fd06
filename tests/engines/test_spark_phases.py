"""Windows of Spark's stages, from lines such as its event log has."""

from __future__ import annotations

import json
from pathlib import Path

from hyperslab.accesses import Window
from hyperslab.engines.spark.phases import logs_among, windows_of

MS = 10**6


def task(kind: str, stage: int, launched_ms: int, finished_ms: int) -> str:
    about = {"Launch Time": launched_ms, "Finish Time": finished_ms}
    event = {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Type": kind,
        "Task Info": about,
    }
    return json.dumps(event, separators=(",", ":")) + "\n"


def test_a_window_is_from_the_first_task_of_a_stage_to_its_last(tmp_path: Path) -> None:
    log = tmp_path / "local-1700000000000"
    log.write_text(
        '{"Event":"SparkListenerLogStart"}\n'
        + task("ResultTask", 1, 30, 40)
        + task("ShuffleMapTask", 0, 12, 20)
        + task("ShuffleMapTask", 0, 10, 15)
        + task("ResultTask", 1, 25, 33)
        + task("ShuffleMapTask", 3, 50, 60)
        + task("ResultTask", 1, 25, 90)[:-10]
    )
    assert windows_of([log]) == [
        Window("map", 10 * MS, 21 * MS),
        Window("map", 50 * MS, 61 * MS),
        Window("result", 25 * MS, 41 * MS),
    ]


def test_event_logs_are_known_by_their_names(tmp_path: Path) -> None:
    names = ("local-17", "app-20260101000000-0000.inprogress", "application_1_0002_1", "local-x")
    for name in names:
        (tmp_path / name).touch()
    written = [str(tmp_path / name) for name in (*names, "local-99", "local-17.inprogress")]
    assert logs_among(written) == [tmp_path / name for name in sorted(names[:3])]
