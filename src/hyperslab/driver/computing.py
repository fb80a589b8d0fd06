"""Computing: the result of a pipeline in memory, by way of temporary files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.blocks.view import open as open_view
from hyperslab.driver.options import Options, chosen
from hyperslab.driver.prepare import prepare
from hyperslab.driver.run import run
from hyperslab.errors import HyperslabError, UsageError, told_in_python
from hyperslab.formats import HOLDS_ANY
from hyperslab.plan.pipeline import Pipeline, Reduce
from hyperslab.plan.settings import Settings


@told_in_python
def compute(pipeline: Pipeline, settings: Settings) -> Any:
    """The value of a reduction, or the array that the steps make: a dict by name of several that a
    function returns, a list of those of several files.

    Raises UsageError for a pipeline that writes, otherwise what `hyperslab.run` raises.
    """
    options = chosen("compute", None, {"report": False, **settings})
    if options.resume:
        raise UsageError("--resume: compute() keeps no files, so there is nothing to resume")
    if options.overwrite:
        raise UsageError("--overwrite: compute() keeps no files, so there is nothing to replace")
    if isinstance(pipeline.end, Reduce):
        with _nothing_to_resume(), tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
            return run(pipeline, options, out=Path(folder) / "out").value
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
        written = pipeline.write(Path(folder) / "out", HOLDS_ANY, "volume")
        prepared = prepare(written, options)
        run(written, options, prepared=prepared)
        job = prepared.plan.stages[-1].job
        assert job.output is not None
        views = [open_view(volume.sink.path, "stored") for volume in job.output.volumes]
        arrays = [view[...] for view in views]
    names = [promise.name for promise in job.steps[-1].returns] if job.steps else [""]
    if len(arrays) == 1:
        return arrays[0]
    if len(arrays) == len(names):
        return dict(zip(names, arrays, strict=True))
    return arrays
