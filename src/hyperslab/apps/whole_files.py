"""Whole files in Spark: each is loaded, incremented and saved by a map of its own, to compare with.

This is how V. Hayot-Sasson, S. T. Brown, T. Glatard, "Performance benefits of Intel Optane DC
persistent memory for the parallel processing of large neuroimaging data", run their
incrementation in Spark: `binaryFiles` hands every image as a string of bytes to the first of three
maps. The same work by hyperslabs is `hyperslab run increment --engine spark`. Both leave the same
records, which `hyperslab report` shows, and compares.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.connectors.spark.whole_files import garbage_s, map_images
from hyperslab.driver.directory import RunDirectory, save_status
from hyperslab.driver.measured import Moments, build_trace
from hyperslab.driver.submission import save_records
from hyperslab.errors import UsageError
from hyperslab.formats.nifti.content import SUFFIXES
from hyperslab.machine import pressure
from hyperslab.machine.host import Host, describe
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.storage import renaming
from hyperslab.trace import Trace
from hyperslab.units import show_count
from hyperslab.workloads.increment import increment

WAY = "spark binaryFiles"


def increment_files(
    context: Any,
    images: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    iterations: int = 1,
    delay: float = 0.0,
    began_ns: int | None = None,
) -> Path:
    """Add one to every voxel of NIfTI images, as stored, `iterations` times, and sleep `delay`
    seconds after each, in a SparkContext; returns the folder of records, for `hyperslab report`.

    `out`, a new directory that the workers see, gets an image of the same name for each. An image
    is in a worker's memory whole, and twice while it is loaded or saved. Java reads the files
    before Spark's Python workers have them, and that time is in no span. As every run, it
    ends when all outputs are on storage. `began_ns` is the moment, by the monotonic clock, at which
    the run began, if its start-up is to count. Raises UsageError for images that it cannot take;
    what fails in Spark raises Spark's own exceptions, and leaves no records but those of a run that
    has died.
    """
    sources = [Path(image).absolute() for image in images]
    _require(sources, iterations, delay)
    directory = RunDirectory(Path(out).absolute())
    _require_new(directory.out)
    owned = directory.own()
    try:
        folder = directory.new_submission(_plan(sources, iterations, delay))
        save_status(folder, "running", {"tasks": len(sources)})
        before = pressure.sample()
        start_ns = time.monotonic_ns()
        changes = [functools.partial(increment, delay=delay)] * iterations
        outcomes = map_images(context, sources, directory.out, changes)
        made = [directory.out / source.name for source in sources]
        renaming.synchronise_all(made, directory.out)
        moments = Moments(began_ns or start_ns, start_ns, time.monotonic_ns())
        meta = _meta(sources, context.defaultParallelism)
        meta["load"] = pressure.between(before, pressure.sample())
        meta["java_gc_s"] = garbage_s(context)
        trace = build_trace(outcomes, [], Tail(folder), moments, meta)
        _save(folder, trace, sources, outcomes, context)
    finally:
        os.close(owned)
    return folder


def _require(sources: Sequence[Path], iterations: int, delay: float) -> None:
    if not sources:
        raise UsageError("no images: give one or more NIfTI files")
    if iterations < 1:
        raise UsageError(f"iterations={iterations}: give 1 or more")
    if not 0 <= delay < float("inf"):
        raise UsageError(f"delay={delay:g}: give 0 or more seconds")
    for source in sources:
        if not source.name.endswith(SUFFIXES):
            raise UsageError(f"{source} is no NIfTI image: give .nii or .nii.gz")
        if not source.is_file():
            raise UsageError(f"{source} does not exist, or is no file")
    names = {source.name for source in sources}
    if len(names) < len(sources):
        raise UsageError("two of the images have the same name, and so would their outputs")


def _require_new(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty: choose another output")


def _save(
    folder: Path,
    trace: Trace,
    sources: Sequence[Path],
    outcomes: Sequence[Outcome],
    context: Any,
) -> None:
    """Leave what a run leaves."""
    facts = {"way": WAY, "master": str(context.master), "version": context.version, **describe()}
    save_status(folder, "done", {"tasks": len(sources), "done": len(outcomes)})
    save_records(folder, trace, f"{WAY}: {show_count(len(sources), 'image')}", [], facts, "done")


def _meta(sources: Sequence[Path], workers: int) -> dict[str, Any]:
    """What a reader of the trace needs to know."""
    return {
        "labels": [source.name for source in sources],
        "plan": WAY,
        "run": {
            "engine": WAY,
            "workers": workers,
            "threads": 1,
            "cpus": Host.here().cpus,
            "granularity": "fused",
            "process_per_slot": True,
        },
    }


def _plan(sources: Sequence[Path], iterations: int, delay: float) -> Mapping[str, Any]:
    """What the page of a run reads of its plan."""
    source = {"first": str(sources[0]), "files": len(sources), "shape": [], "kind": "whole"}
    params = {"iterations": iterations, "delay": delay}
    summary = {
        "sources": {"images": source},
        "steps": [{"function": "increment", "params": params}],
        "end": {"format": "as before", "keep": "whole files"},
        "values": "stored",
        "boundary": "",
    }
    return {"fingerprint": WAY, "code": WAY, "tasks": len(sources), "summary": summary}
