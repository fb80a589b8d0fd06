"""Computing: the result of a pipeline in memory, by way of temporary files."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab.blocks.view import open as open_view
from hyperslab.driver.options import Options, chosen
from hyperslab.driver.prepare import Prepared, prepare
from hyperslab.driver.printed import printed_lines
from hyperslab.driver.result import Result, checked
from hyperslab.driver.run import run
from hyperslab.engines.facts import facts_of
from hyperslab.errors import HyperslabError, UsageError, told_in_python
from hyperslab.formats import HOLDS_ANY
from hyperslab.plan.pipeline import Pipeline, Reduce
from hyperslab.plan.settings import Settings
from hyperslab.units import show_count

MOST_LINES = 1000
"Lines of what functions have printed that are shown."


@told_in_python
def compute(pipeline: Pipeline, settings: Settings) -> Any:
    """The value of a reduction, or the array that the steps make: a dict by name of those that a
    function returns as a dict or tuple, a list of those of several files.

    Raises UsageError for a pipeline that writes, otherwise what `hyperslab.run` raises.
    """
    options = chosen("compute", None, {"report": False, **settings})
    if options.resume:
        raise UsageError("--resume: compute() keeps no files, so there is nothing to resume")
    if options.overwrite:
        raise UsageError("--overwrite: compute() keeps no files, so there is nothing to replace")
    if isinstance(pipeline.end, Reduce):
        with _nothing_to_resume(), tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
            return _ran(pipeline, options, out=Path(folder) / "out").value
    if pipeline.end is not None:
        raise UsageError("compute() after write(): run the pipeline, or leave write() out")
    with _nothing_to_resume():
        return _computed(pipeline, options)


@contextmanager
def _nothing_to_resume() -> Iterator[None]:
    """A block whose errors do not advise to resume a run whose files are temporary."""
    try:
        yield
    except HyperslabError as error:
        if error.resuming:
            error.retell(error.sentence, "fix the cause, then call compute() again")
        raise


def _computed(pipeline: Pipeline, options: Options) -> Any:
    """The array that the steps make, or several of them."""
    with tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
        written = pipeline.write(Path(folder) / "out", HOLDS_ANY, "volume", is_alone=True)
        prepared = replace(prepare(written, options), hands_over=True)
        _ran(written, options, prepared=prepared)
        job = prepared.plan.stages[-1].job
        assert job.output is not None
        views = [open_view(volume.sink.path, "stored") for volume in job.output.volumes]
        arrays = [view[...] for view in views]
    names = [promise.name for promise in job.steps[-1].returns] if job.steps else [""]
    if names[0] and len(arrays) == len(names):
        return dict(zip(names, arrays, strict=True))
    if len(arrays) == 1:
        return arrays[0]
    return arrays


def _ran(
    pipeline: Pipeline,
    options: Options,
    out: Path | None = None,
    prepared: Prepared | None = None,
) -> Result:
    """Run a pipeline and show what its functions have printed, since the file of that is temporary.
    Raises what `hyperslab.run` raises.
    """
    result = run(pipeline, options, out=out, prepared=prepared, check=False)
    if result.printed is not None:
        own_lines = facts_of(options.engine).own_lines
        _show(printed_lines(result.printed, result.failures, own_lines))
    return checked(result)


def _show(lines: Iterator[str]) -> None:
    sys.stdout.writelines(itertools.islice(lines, MOST_LINES))
    left = sum(1 for _ in lines)
    if left:
        more = show_count(left, "further line")
        sys.stdout.write(f"... and {more}: hyperslab.run keeps all in the file result.printed\n")
