"""Rounds of a computation on a cluster, with the records of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

from hyperslab.apps.files.runs import NUMBERS
from hyperslab.driver.directory import RunDirectory, save_status
from hyperslab.driver.measured import Moments, build_trace
from hyperslab.driver.submission import save_records, surroundings
from hyperslab.machine.host import Host, describe
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.trace import Slot, recording, span
from hyperslab.traffic import Traffic
from hyperslab.units import show_count


@dataclass(frozen=True, slots=True)
class Program:
    """What computes, and what."""

    name: str
    "Name of the program, as `dask-arrays`."
    workload: str
    shape: tuple[int, ...] = ()
    "Shape of the data, where they are an array."
    workers: int = 1


@contextmanager
def submission(program: Program, out: Path, rounds: int) -> Iterator[Path]:
    """The folder of a run's records, in a directory that nobody else uses meanwhile."""
    directory = RunDirectory(out.absolute())
    owned = directory.own()
    try:
        folder = directory.new_submission(_plan(program, rounds))
        save_status(folder, "running", {"tasks": rounds})
        yield folder
    finally:
        os.close(owned)


def timed(number: int, work: Callable[[], object]) -> Outcome:
    """One round, as a task of a run."""
    with recording() as phases, span("compute"):
        work()
    slot = str(Slot(os.uname().nodename, os.getpid(), 0))
    return Outcome(number, 1, "done", phases=tuple(phases), slot=slot)


def _plan(program: Program, rounds: int) -> dict[str, Any]:
    """What the page of a run reads of its plan."""
    named = f"{program.name} {program.workload}"
    source = {
        "first": program.workload,
        "files": 0,
        "shape": list(program.shape),
        "kind": program.name.partition("-")[0],
    }
    summary = {
        "sources": {"source": source},
        "steps": [{"function": program.workload, "params": {}}],
        "end": {"format": "none", "keep": "nothing"},
        "values": "stored",
        "boundary": "",
    }
    return {"fingerprint": named, "code": named, "tasks": rounds, "summary": summary}


def save_rounds(
    folder: Path,
    program: Program,
    outcomes: Sequence[Outcome],
    moments: Moments,
    numbers: Mapping[str, float],
    traffic: Traffic | None = None,
) -> None:
    """Write the records of a run, and numbers beside them: those of its rounds, and others."""
    workers = {"workers": program.workers, "threads": 1, "cpus": Host.here().cpus}
    run = {"engine": program.name, **workers}
    labels = [f"round {number}" for number in range(len(outcomes))]
    meta = {"plan": program.workload, "labels": labels, "run": run}
    trace = build_trace(outcomes, [], Tail(folder), moments, meta)
    save_status(folder, "done", {"tasks": len(outcomes), "done": len(outcomes)})
    title = f"{program.workload}: {show_count(len(outcomes), 'round')}"
    facts = {"engine": program.name, **surroundings(), **describe()}
    save_records(folder, trace, title, [], facts, has_page=False, traffic=traffic)
    told = {**_of_rounds(outcomes), **numbers}
    (folder / NUMBERS).write_text(json.dumps(told, indent=1) + "\n")


def _of_rounds(outcomes: Sequence[Outcome]) -> dict[str, float]:
    seconds = [sum(one.end_ns - one.start_ns for one in done.phases) / 1e9 for done in outcomes]
    return {
        "round_min_s": min(seconds),
        "round_avg_s": fmean(seconds),
        "round_max_s": max(seconds),
        "round_median_s": median(seconds),
        "round_sd_s": pstdev(seconds),
        "round_first_s": seconds[0],
        "round_last_s": seconds[-1],
    }
