"""Trial: one job on one engine in a process of its own, and what it took.

Every trial starts a fresh interpreter, because an engine's first run in a process imports its
library and starts its Java, and the second does not. Python's own start and the import of hyperslab
are not counted, on either side.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

import hyperslab
from benchmarks import hand_written, null_tasks
from hyperslab import workloads
from hyperslab.machine.host import lines_of, peak_rss_bytes
from hyperslab.report.verdict import judge
from hyperslab.report.verdict.evidence import collect

HAND = "hand-written"
THICKNESS, SMALL_THICKNESS = 16, 8
"Planes of a block: the small volume has half as many."
SAMPLE_S = 0.25
LIMIT_S = 900
"A trial that takes longer hangs."


@dataclass(frozen=True, slots=True)
class Trial:
    """What is run."""

    part: str
    """Which question it belongs to: volume, small (the same in as many but smaller blocks), growth
    or lock.
    """
    job: str
    "increment, histogram, histogram-python or null."
    engine: str
    "Name of an engine, or hand-written."
    workers: int = 2
    threads: int = 1
    tasks: int = 0
    "Of a null job."
    round: int = 0

    @property
    def thickness(self) -> int:
        """Planes of a block."""
        return SMALL_THICKNESS if self.part == "small" else THICKNESS


@dataclass(frozen=True, slots=True)
class Measured:
    """What a trial took; seconds and bytes."""

    trial: Trial
    startup_s: float
    """From the call to the moment the engine was ready: its library imported, the plan made, its
    workers there.
    """
    run_s: float
    "From there to the end of the last phase of the last task."
    ending_s: float
    "From there to the end of the makespan: values merged, outputs made visible, workers ended."
    records_s: float
    "From there until the call returns: trace, summary and report page written."
    tasks: int
    nbytes: int
    "Of the array."
    driver_peak_nbytes: int
    overhead_s: float = 0.0
    "Time of slots beside the phases of their tasks; 0 where nobody tells it."
    scheduler_peak_nbytes: int = 0
    "Of the process that schedules for the driver: Dask's scheduler, Spark's Java."
    cpu_share: float = 0.0
    "Of the time of compute phases, like the next two."
    queued_share: float = 0.0
    blocked_share: float = 0.0
    findings: tuple[tuple[str, str], ...] = ()
    "Rule and sentence of what the verdict found, the most important first."

    @property
    def total_s(self) -> float:
        return self.startup_s + self.makespan_s + self.records_s

    @property
    def makespan_s(self) -> float:
        """Without start-up."""
        return self.run_s + self.ending_s

    @property
    def without_startup_s(self) -> float:
        """With the records."""
        return self.makespan_s + self.records_s

    @classmethod
    def parse(cls, line: str) -> Measured:
        """Read back what `dump` wrote."""
        values = json.loads(line)
        findings = tuple((rule, sentence) for rule, sentence in values.pop("findings"))
        return cls(Trial(**values.pop("trial")), **values, findings=findings)

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


def measure(trial: Trial, volume: Path, folder: Path) -> Measured:
    """Run a trial in a process of its own. Raises RuntimeError with what it said when it fails."""
    asked = json.dumps([asdict(trial), str(volume), str(folder)])
    command = [sys.executable, "-m", "benchmarks.trial", asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{trial} ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return Measured.parse(done.stdout.splitlines()[-1])


def _main() -> None:
    about, volume, folder = json.loads(sys.argv[1])
    trial, out = Trial(**about), Path(folder) / "out"
    shutil.rmtree(out, ignore_errors=True)
    os.sync()  # no write-back of the trial before is under way
    run = _run_by_hand if trial.engine == HAND else _run
    measured = run(trial, Path(volume), out)
    shutil.rmtree(out, ignore_errors=True)
    print(measured.dump())


def _run_by_hand(trial: Trial, volume: Path, out: Path) -> Measured:
    began = time.perf_counter()
    if trial.job == "null":
        null_tasks.by_hand(trial.tasks, trial.workers)
    else:
        getattr(hand_written, trial.job)(volume, out, trial.thickness)
    took = time.perf_counter() - began
    os.sync()  # a run ends when its outputs are on the disk
    ending = time.perf_counter() - began - took
    width, height, depth = hyperslab.open(str(volume)).shape
    tasks, nbytes = (
        trial.tasks or -(-depth // trial.thickness),
        0 if trial.tasks else width * height * depth * 2,
    )
    return Measured(trial, 0.0, took, ending, 0.0, tasks, nbytes, peak_rss_bytes())


def _run(trial: Trial, volume: Path, out: Path) -> Measured:
    """A run with all its records, the report page included."""
    pipeline, rule = _pipeline(trial, volume, out)
    with _children_watched() as peaks:
        began_ns = time.monotonic_ns()
        result = hyperslab.run(
            pipeline,
            out=out,
            engine=trial.engine,
            workers=trial.workers,
            threads=trial.threads,
            rule=rule,
        )
        ended_ns = time.monotonic_ns()
    meta, last_ns = result.trace.meta, max(span.end_ns for span in result.trace.spans)
    return Measured(
        trial,
        startup_s=(meta["ready_ns"] - began_ns) / 1e9,
        run_s=(last_ns - meta["ready_ns"]) / 1e9,
        ending_s=(meta["end_ns"] - last_ns) / 1e9,
        records_s=(ended_ns - meta["end_ns"]) / 1e9,
        tasks=result.tasks,
        nbytes=result.summary.read_nbytes,
        driver_peak_nbytes=peak_rss_bytes(),
        overhead_s=result.summary.overhead_s,
        scheduler_peak_nbytes=(
            max(peaks.values(), default=0) if trial.engine.startswith(("dask", "spark")) else 0
        ),
        **_thread_time(result.trace),
        findings=tuple(
            (found.rule, found.sentence) for found in judge(result.trace, result.summary).findings
        ),
    )


def _pipeline(trial: Trial, volume: Path, out: Path) -> tuple[hyperslab.Pipeline, hyperslab.Rule]:
    if trial.job == "null":
        return null_tasks.pipeline(trial.tasks), null_tasks.RULE
    pipeline = workloads.build(trial.job, hyperslab.Pipeline(str(volume)), {})
    if pipeline.end is None:
        pipeline = pipeline.write(out)
    width, height, _ = pipeline.source.wholes[0].shape
    return pipeline, hyperslab.Rule("block-shape", (width, height, trial.thickness))


def _thread_time(trace: hyperslab.Trace) -> dict[str, float]:
    """Shares of the time of compute phases: on a processor, in its queue, and waiting for something
    else.
    """
    compute = collect(trace).classes["compute"]
    parts = {
        "cpu_share": compute.cpu,
        "queued_share": compute.runq,
        "blocked_share": compute.waited,
    }
    return {name: part / max(1, compute.wall) for name, part in parts.items()}


def _peak_nbytes(pid: int) -> int:
    """The largest resident set that a process has had; 0 when it is gone."""
    lines = lines_of(Path(f"/proc/{pid}/status"))
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


@contextmanager
def _children_watched() -> Iterator[dict[int, int]]:
    """Peaks of this process's children by process id: they end before the run does."""
    peaks: dict[int, int] = {}
    over = threading.Event()
    me = psutil.Process()

    def watch() -> None:
        while not over.wait(SAMPLE_S):
            for child in me.children():
                peaks[child.pid] = max(peaks.get(child.pid, 0), _peak_nbytes(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        over.set()
        watcher.join()


if __name__ == "__main__":
    _main()
