"""Commands as tasks against a bare loop over subprocesses: what a task costs.

    python -m benchmarks.bench_commands [--tasks 100] [--seconds 0.1] [--repeats 5]

The loop runs as many commands at a time and does nothing else: it keeps no output, no record, and
would leave half-written files behind. Commands sleep, so that both sides have the processors for
what they do beside them. Ratios are taken pair by pair, in turn, of whole runs with their start and
of their tasks alone.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hyperslab
from benchmarks.gates import Gates
from benchmarks.hand_written import PROCESSES
from hyperslab.plan.settings import Settings

ENGINES = ("threads", "processes", "dask-futures")
MOST_RATIO = 1.3


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    script = f"sleep {arguments.seconds}; echo done > $0/$1.txt"
    gates = Gates()
    print(f"{arguments.tasks} commands of {arguments.seconds} s, {PROCESSES} at a time", flush=True)
    try:
        for engine in ENGINES:
            _compare(engine, script, arguments.tasks, folder, arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.1, help="that each command takes")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def _compare(
    engine: str, script: str, tasks: int, folder: Path, repeats: int, gates: Gates
) -> None:
    rows = []
    for _ in range(repeats):
        loop_s = _by_hand(script, tasks, folder / "hand")
        run_s, tasks_s = _run(engine, script, tasks, folder / "ours")
        rows.append((loop_s, run_s, tasks_s, run_s / loop_s, tasks_s / loop_s))
    loop_s, run_s, tasks_s, whole, without = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    print(
        f"{engine:<14} loop {loop_s:.2f} s, run {run_s:.2f} s, its tasks {tasks_s:.2f} s; per task"
        f" {1e3 * (tasks_s - loop_s) * PROCESSES / tasks:+.1f} ms; ratio of whole runs {whole:.2f}",
        flush=True,
    )
    gates.at_most(f"{engine}, tasks / a bare loop over subprocesses", without, MOST_RATIO)


def _by_hand(script: str, tasks: int, out: Path) -> float:
    out.mkdir()

    def one(number: int) -> None:
        subprocess.run(["sh", "-c", script, str(out), str(number)], check=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(one, range(tasks)))
    taken = time.perf_counter() - began
    _require(out, tasks)
    return taken


def _run(engine: str, script: str, tasks: int, out: Path) -> tuple[float, float]:
    """Seconds of a run without its page, and of its tasks alone."""
    words = ("sh", "-c", script, "{out}", "{index}")
    commands = [hyperslab.CommandTask(f"t{n}", words) for n in range(tasks)]
    began = time.perf_counter()
    result = hyperslab.run_commands(commands, out, **_settings(engine))
    taken = time.perf_counter() - began
    _require(out, tasks)
    meta = result.trace.meta
    return taken, (meta["end_ns"] - meta["ready_ns"]) / 1e9


def _settings(engine: str) -> Settings:
    workers, threads = PROCESSES, 1
    if engine == "threads":
        workers, threads = 1, PROCESSES
    return {"engine": engine, "workers": workers, "threads": threads, "report": False}


def _require(out: Path, tasks: int) -> None:
    assert len(list(out.glob("*.txt"))) == tasks
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
