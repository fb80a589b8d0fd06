"""What the kernel's counters say of a machine: made-up counters, missing ones, and the real ones of
a run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.machine import pressure
from hyperslab.trace import Trace

TICKS = pressure.TICKS_PER_S


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(proc: Path, second: int) -> None:
    """Two processors after so many seconds: 1.2 of them busy, 0.2 stolen; some waiting for memory
    and disks.
    """
    ticks = second * TICKS
    user, idle, stolen = ticks, 6 * ticks // 10, 2 * ticks // 10
    write(
        proc / "stat",
        f"cpu  {user} 0 {2 * ticks // 10} {idle} 0 0 0 {stolen} 0 0\ncpu0 0\ncpu1 0\nintr 5\n",
    )
    write(proc / "loadavg", "3.50 1.00 0.50 2/100 12345\n")
    write(
        proc / "pressure" / "memory",
        f"some avg10=0.00 total={second * 250_000}\nfull avg10=0.00 total=0\n",
    )
    write(
        proc / "vmstat",
        f"pgmajfault {7 * second}\npswpin {second}\nallocstall_dma {second}\nallocstall_normal"
        f" {second}\n",
    )


def looked(tmp_path: Path) -> dict[str, Any]:
    """From the tenth second to the twentieth."""
    samples = []
    for second in (10, 20):
        machine(tmp_path / "proc", second)
        samples.append(
            {**pressure.sample(tmp_path / "proc", tmp_path / "groups"), "at_s": float(second)}
        )
    return pressure.between(*samples)


def test_shares_and_counts_of_made_up_counters(tmp_path: Path) -> None:
    load = looked(tmp_path)
    assert (load["seconds"], load["cpus"], load["load_average"]) == (10.0, 2, 3.5)
    assert (load["busy_share"], load["stolen_share"]) == pytest.approx((0.6, 0.1))
    assert load["stalled_shares"] == {"memory_some": 0.25, "memory_full": 0.0}
    assert (load["major_faults"], load["allocation_stalls"]) == (70, 20)
    assert load["swapped_in_nbytes"] == 10 * pressure.PAGE_NBYTES


def test_what_is_not_told_is_none(tmp_path: Path) -> None:
    load = looked(tmp_path)
    assert (
        load["own_share"]
        is load["others_share"]
        is load["swapped_out_nbytes"]
        is load["oom_kills"]
        is None
    )
    nothing = pressure.sample(tmp_path / "none", tmp_path / "none")
    empty = pressure.between(nothing, nothing)
    assert empty["busy_share"] is empty["major_faults"] is empty["load_average"] is None
    assert (empty["stalled_shares"], empty["group"]["limit_nbytes"]) == ({}, None)
    assert json.loads(json.dumps(empty)) == empty


def test_a_counter_that_was_reset_has_not_grown(tmp_path: Path) -> None:
    machine(tmp_path, 10)
    late = pressure.sample(tmp_path, tmp_path)
    machine(tmp_path, 5)
    assert pressure.between(late, pressure.sample(tmp_path, tmp_path))["major_faults"] == 0


@pytest.mark.parametrize(
    ("files", "events"),
    [
        (
            {
                "memory.max": "1000",
                "memory.events": "high 1\nmax 2\noom 3\noom_kill {n}",
                "cpu.stat": "throttled_usec {n}000000",
            },
            {"limit_nbytes": 1000, "oom_kill": 4, "throttled_share": 0.4},
        ),
        (
            {
                "memory/memory.limit_in_bytes": "2000",
                "memory/memory.oom_control": "under_oom 0\noom_kill {n}",
                "memory/memory.failcnt": "{n}",
                "cpu/cpu.stat": "throttled_time {n}000000000",
            },
            {"limit_nbytes": 2000, "oom_kill": 4, "max": 4, "throttled_share": 0.4},
        ),
        (
            {"memory/memory.limit_in_bytes": "9223372036854771712"},
            {"limit_nbytes": None, "oom_kill": None},
        ),
    ],
    ids=["version 2", "version 1", "no limit"],
)
def test_limits_and_events_of_control_groups(
    tmp_path: Path, files: dict[str, str], events: dict[str, Any]
) -> None:
    samples = []
    for number in (1, 5):
        for name, text in files.items():
            write(tmp_path / name, text.replace("{n}", str(number)))
        samples.append({**pressure.sample(tmp_path / "proc", tmp_path), "at_s": 2.5 * number})
    group = pressure.between(*samples)["group"]
    assert {name: group[name] for name in events} == events


def test_descendants_count_as_own_while_they_live_and_when_they_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    before = pressure.sample()
    with subprocess.Popen([sys.executable, "-c", burn], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = pressure.sample()
        by_parents = pressure._ticks_by_parents(pressure.PROC)
        child.communicate(b"\n")
    ended = pressure.sample()
    assert by_parents is not None
    assert by_parents > 0.4 * TICKS, "where the kernel lists no children"
    assert alive["own_s"] - before["own_s"] > 0.4
    assert ended["own_s"] >= alive["own_s"] - 2 / TICKS
    load = pressure.between(before, ended)
    assert 0 < load["own_share"] <= load["busy_share"] <= 1
    assert load["host"] == os.uname().nodename


def test_children_of_every_thread_and_of_children_are_descendants() -> None:
    line = ["sh", "-c", "sleep 100 & echo; wait"]
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(
            subprocess.Popen, line, stdout=subprocess.PIPE, start_new_session=True
        ).result()
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            listed = pressure._children(pressure.PROC / str(os.getpid()))
            (below,) = pressure._children(pressure.PROC / str(child.pid))
            parent = pressure._parent_and_ticks(pressure.PROC / below)
            os.killpg(child.pid, signal.SIGKILL)
    assert str(child.pid) in listed
    assert parent is not None
    assert parent[0] == str(child.pid)


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_a_run_keeps_what_it_was_given_and_what_the_machine_did(
    engine: str, tmp_path: Path
) -> None:
    fold = hyperslab.Fold(lift=lambda block: int(block.sum()), merge=lambda a, b: a + b)
    result = hyperslab.run(
        hyperslab.Pipeline(np.ones((4, 4))).reduce(fold), engine=engine, workers=1, out=tmp_path
    )
    meta = Trace.load(result.folder / "trace.parquet").meta
    assert meta["run"] == {
        **meta["run"],
        "engine": engine,
        "workers": 1,
        "threads": 1,
        "granularity": "fused",
    }
    assert meta["run"]["cpus"] >= 1
    assert meta["run"]["memory_nbytes"] > 0
    assert meta["load"]["seconds"] > 0
    assert 0 < meta["load"]["own_share"] <= 1
