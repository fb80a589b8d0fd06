"""Records: what a submission leaves beside its outputs: result, manifest, trace, summary and report."""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.errors import RunStopped
from hyperslab.machine import describe
from hyperslab.pipeline import Fold
from hyperslab.report.html import write_page
from hyperslab.report.picture import histogram_svg
from hyperslab.report.summary import Summary, summarise
from hyperslab.rundir import load_json, save_json
from hyperslab.span import Span, Trace, measure_span_cost_ns
from hyperslab.task import Failure, Outcome


@dataclass(frozen=True, slots=True)
class Clock:
    """The moments of a run, on this host's monotonic clock."""

    start_ns: int
    ready_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that did not succeed, whatever was tried."""

    label: str
    failure: Failure
    attempts: int


def build_trace(outcomes: Sequence[Outcome], slots: Sequence[str], clock: Clock, meta: Mapping[str, Any]) -> Trace:
    """All phases of all attempts, with the slots of the engine and what a reader needs to know of the run."""
    first_done = {o.task: o.attempt for o in reversed(outcomes) if o.status == "done"}
    spans = [
        Span(o.task, o.attempt, o.slot, *phase, lost=first_done.get(o.task) != o.attempt)
        for o in outcomes
        for phase in o.phases
    ]
    max_rss: dict[str, int] = {}
    for outcome in outcomes:
        worker = outcome.slot.rpartition("/")[0]
        if outcome.max_rss:
            max_rss[worker] = max(max_rss.get(worker, 0), outcome.max_rss)
    about = {
        "start_ns": clock.start_ns,
        "ready_ns": clock.ready_ns,
        "end_ns": clock.end_ns,
        "wall_anchor": {"monotonic_ns": time.monotonic_ns(), "time_ns": time.time_ns()},
        "span_cost_ns": measure_span_cost_ns(),
        "max_rss": max_rss,
    }
    return Trace(spans, list(slots), meta={**about, **meta})


def save_records(
    folder: Path, trace: Trace, title: str, failures: Sequence[Failed], facts: Mapping[str, str]
) -> Summary:
    """Write trace, summary and report of a submission into its folder."""
    summary = summarise(trace)
    trace.save(folder / "trace.parquet")
    summary.save(folder / "summary.json")
    listed = [
        {"task": f.label, "reason": f.failure.message, "attempts": f.attempts, "traceback": f.failure.traceback}
        for f in failures
    ]
    save_json(folder / "failures.json", listed)
    rows = [(f.label, f"{f.failure.message} ({f.attempts} attempts)") for f in failures]
    write_page(folder / "report.html", trace, summary, title, facts, rows)
    return summary


def provenance(plan: Mapping[str, Any], engine: str) -> dict[str, str]:
    """Command, versions and machine, in words."""
    versions = {name: version(name) for name in ("hyperslab", "numpy", "nibabel", "h5py")}
    return {
        "command": " ".join(sys.argv),
        "engine": engine,
        "plan fingerprint": plan["fingerprint"],
        **{key: value if isinstance(value, str) else json.dumps(value) for key, value in plan["summary"].items()},
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        **describe(),
    }


def save_value(fold: Fold, value: Any, staging: Path, out: Path) -> list[Path]:
    """Write the result of a reduction, and its picture where it is a histogram, into the output directory.

    The files are written in `staging`, on the same file system, and appear by rename when all are complete. Raises
    OSError, and RunStopped when the fold's own `save` fails.
    """
    staging.mkdir()
    written = _save_by_fold(fold, value, staging) if fold.save else [_save_plain(value, staging)]
    if hasattr(value, "edges") and hasattr(value, "counts"):
        picture = staging / "histogram.svg"
        picture.write_text(
            histogram_svg(value.edges, value.counts, getattr(value, "title", "Histogram")), encoding="utf-8"
        )
        written.append(picture)
    return [path.replace(out / path.name) for path in written]


def _save_by_fold(fold: Fold, value: Any, folder: Path) -> list[Path]:
    assert fold.save is not None
    try:
        return list(fold.save(value, folder))
    except OSError:
        raise
    except Exception as error:
        raise RunStopped(
            f"all blocks are reduced, but saving the result failed: {type(error).__name__}: {error}; "
            "correct the fold's save and run again with another -o"
        ) from error


def _save_plain(value: Any, out: Path) -> Path:
    """Numbers, texts and their lists and dicts as JSON, arrays as .npy, anything else as a pickle."""
    if isinstance(value, np.ndarray):
        np.save(out / "result.npy", value)
        return out / "result.npy"
    if isinstance(value, (int, float, str, list, dict, np.generic)):
        save_json(out / "result.json", value)
        return out / "result.json"
    (out / "result.pickle").write_bytes(pickle.dumps(value))
    return out / "result.pickle"


def load_failures(folder: Path) -> list[dict[str, Any]]:
    """What `save_records` kept of the failures."""
    path = folder / "failures.json"
    return list(load_json(path)) if path.is_file() else []
