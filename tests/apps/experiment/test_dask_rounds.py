"""What is counted of a program of Dask arrays: its own messages, and none of the recorder's."""

from __future__ import annotations

from hyperslab.apps.experiment.programs.dask_rounds import message_numbers
from hyperslab.traffic import Message, Traffic

START_NS, END_NS = 10_000, 20_000
SCHEDULER, ONE, OTHER = "10.0.0.1:8786", "10.0.0.2:1", "10.0.0.3:1"
NODES = {SCHEDULER: "scheduler", ONE: "worker w1", OTHER: "worker w2"}


def said(time_ns: int, source: str, target: str, operation: str, nbytes: int) -> Message:
    return Message(time_ns, source, target, ((operation, 1),), nbytes, "sent")


COUNTED = [
    said(11_000, SCHEDULER, ONE, "compute-task", 500),
    said(12_000, ONE, OTHER, "reply:get_data", 90_000),
    said(13_000, OTHER, ONE, "reply:get_data", 60_000),
    said(14_000, ONE, SCHEDULER, "task-finished", 300),
    said(15_000, SCHEDULER, ONE, "free-keys", 100),
]
OF_RECORDER = [
    said(9_999, SCHEDULER, ONE, "plugin-add", 70_000),
    said(9_000, ONE, SCHEDULER, "reply:plugin-add", 70),
    said(20_001, SCHEDULER, OTHER, "plugin-remove", 80),
]


def numbers(messages: list[Message]) -> dict[str, float]:
    traffic = Traffic.of(messages, meta={"nodes": NODES})
    return message_numbers(traffic, START_NS, END_NS)


def test_what_brings_the_recorder_is_not_counted() -> None:
    counted = numbers([*OF_RECORDER[:2], *COUNTED, *OF_RECORDER[2:]])
    assert counted == numbers(COUNTED)
    assert counted["scheduler_operations"] == 2
    assert counted["scheduler_message_nbytes"] == 600
    assert counted["task_share"] == 0.5
    assert counted["worker_message_nbytes"] == (90_000 + 60_000 + 300) / 2
    assert counted["data_share"] == 150_000 / 150_300
    assert counted["between_workers_nbytes"] == 150_000
    assert counted["with_scheduler_nbytes"] == 900


def test_nothing_is_counted_where_nothing_was_said() -> None:
    assert numbers(OF_RECORDER) == {}
