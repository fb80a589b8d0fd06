"""run_commands(): commands over files as the tasks of a run, on any engine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Unpack

from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.plan.command import CommandTask
from hyperslab.plan.settings import Settings
from hyperslab.report.progress import Progress


def run_commands(
    tasks: Iterable[CommandTask],
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    title: str = "",
    progress: Progress | None = None,
    check: bool = True,
    **settings: Unpack[Settings],
) -> Result:
    """Run commands as tasks and return outputs, trace and summary, as `run` does for functions.

    `out` is the output directory, `title` what the run is called on its page; `settings` are those
    of Options, such as `engine="dask-futures", workers=4, retries=2, resume=True`. Raises
    UsageError before anything starts, TasksFailed at the end when commands failed (with
    `check=False` they are only listed in the result: `result.failures`), RunStopped when the run
    cannot continue, and KeyboardInterrupt on Ctrl-C; after these three, `resume=True` runs only
    what is missing.
    """
    raise NotImplementedError
