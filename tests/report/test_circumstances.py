"""What a trace tells of the circumstances of its run, in words."""

from __future__ import annotations

from hyperslab.report.circumstances import circumstances
from hyperslab.trace import Trace

LOAD = {
    "cpus": 2,
    "load_average": 3.5,
    "own_share": 0.5,
    "others_share": 0.25,
    "stolen_share": 0.0,
    "stalled_shares": {"io_some": 0.12, "cpu_full": 0.0},
    "swapped_in_nbytes": 2_000_000,
    "swapped_out_nbytes": 0,
    "group": {"throttled_share": 0.3},
}


def test_every_circumstance_in_words() -> None:
    meta = {
        "start_ns": 5_000_000_000,
        "wall_anchor": {"monotonic_ns": 6_000_000_000, "time_ns": 1_700_000_001_000_000_000},
        "run": {
            "engine": "spark",
            "workers": 2,
            "threads": 1,
            "cpus": 2,
            "memory_nbytes": 8_000_000_000,
            "granularity": "fused",
            "connect": "spark://head:7077",
        },
        "load": LOAD,
        "clocks": {
            "head": {"offset_ns": 0, "error_ns": 0, "how": "same clock"},
            "node1": {"offset_ns": -3_200_000, "error_ns": 100_000, "how": "measured"},
            "node2": {"offset_ns": 4_000_000, "error_ns": None, "how": "wall clocks"},
        },
        "own_times": {
            "source": "Spark's event log",
            "tasks": 64,
            "engine_s": 12.5,
            "ours_s": 12.0,
            "worst_outside_ms": 0.25,
        },
        "probe": {"read_nbytes_per_s": 5e8, "write_nbytes_per_s": 5e8},
    }
    said = circumstances(Trace([], [], meta=meta))
    assert said.pop("started").startswith("2023-11-1")
    assert said.pop("cache policy").startswith("caches as they were: hyperslab drops none")
    assert said == {
        "slots": "2 workers x 1 thread on 2 processors with 8.00 GB for all tasks; fused",
        "connected to": "spark://head:7077",
        "load during the run": (
            "2 processors busy: 50 % by this run, 25 % by others; load average 3.50; "
            "some programs waited for input and output 12 % of the time; "
            "2.00 MB swapped in; throttled by the control group for 30 % of the time"
        ),
        "clocks": (
            "head: the driver's own; node1: -3.2 ms ± 0.1 ms against the driver, measured; "
            "node2: +4 ms against the driver, by wall clocks, not measured"
        ),
        "the engine's own times": (
            "Spark's event log: 64 tasks took 12.5 s, by our spans 12.0 s; "
            "at most 0.25 ms of a span lie outside its task"
        ),
        "device": "500 MB/s",
    }


def test_what_is_not_known_is_not_told() -> None:
    assert circumstances(Trace([], [], origin="predicted")) == {}
    assert circumstances(
        Trace([], [], meta={"load": {"cpus": None, "own_share": None}})
    ).keys() == {"cache policy"}
