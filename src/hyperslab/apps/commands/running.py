"""run_commands(): commands over files as the tasks of a run, on any engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from hyperslab.driver.options import Options, chosen, spelled_out
from hyperslab.driver.result import Result
from hyperslab.driver.run import run
from hyperslab.errors import told_in_python
from hyperslab.plan.command import CommandTask, Execute, nothing
from hyperslab.plan.commanded import pipeline_of, require_programs
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.settings import Settings
from hyperslab.report.progress import Progress
from hyperslab.units import show_count


class Later(TypedDict, total=False):
    """What else Execute has: of commands that begin when all others have ended, and of all."""

    then: tuple[CommandTask, ...]
    despite_failures: bool
    levels: tuple[str, str]
    between: Callable[[], None]
    only_gathers: bool
    is_all: bool
    origin: str


@spelled_out
@told_in_python
def run_commands(
    tasks: Iterable[CommandTask],
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    title: str = "",
    template: str = "",
    progress: Progress | None = None,
    check: bool = True,
    then: Iterable[CommandTask] = (),
    despite_failures: bool = False,
    levels: tuple[str, str] = ("each", "then"),
    between: Callable[[], None] = nothing,
    only_gathers: bool = False,
    origin: str = "",
    **settings: Unpack[Settings],
) -> Result:
    """Run commands as tasks and return outputs, trace and summary, as `run` does for functions.

    `out` is the output directory, `title` what the run is called on its page, and
    `template` what all commands were made of: with another one a run that is resumed is another
    run, and refused. `then` are commands
    that begin when all others have ended, and read what these have made in `out`: not at all where
    some have failed, unless `despite_failures`. `levels` is what the page calls both, and `between`
    is called here before they begin. `only_gathers` says that `out` may hold files that no run has
    written, as all of this is to put them together. `origin` is what all files are of, such as the
    folder of a dataset: to resume a run of another one is refused, too. `settings` are those of
    Options, as `engine="dask-futures", workers=4, retries=2, resume=True`. Raises UsageError before
    anything starts, TasksFailed at the end when commands failed (with `check=False` they are only
    listed in the result: `result.failures`), RunStopped when the run cannot continue, and
    KeyboardInterrupt on Ctrl-C; after these three, `resume=True` runs only what is missing.
    """
    options = chosen("run_commands", options, settings)
    pipeline = commanded(
        list(tasks),
        options,
        title,
        template,
        then=tuple(then),
        despite_failures=despite_failures,
        levels=levels,
        between=between,
        only_gathers=only_gathers,
        origin=origin,
    )
    return run(pipeline, own_options(options), out=out, progress=progress, check=check)


def commanded(
    tasks: list[CommandTask],
    options: Options,
    title: str = "",
    template: str = "",
    **later: Unpack[Later],
) -> Pipeline:
    """The pipeline of some commands; `template` is what a user has typed, of which all were made.
    Raises UsageError.
    """
    here = os.getcwd()
    end = Execute(
        tuple(tasks),
        title or _title(tasks),
        template,
        here,
        options.task_timeout_s,
        **later,
    )
    pipeline = pipeline_of(end)
    if run_here(options):
        require_programs(tasks, here)
    return pipeline


def own_options(options: Options) -> Options:
    """The options for the engine, which is not asked to end commands that are late: slots do that
    themselves.
    """
    return replace(options, task_timeout_s=None, trial=False)


def run_here(options: Options) -> bool:
    """Whether commands run on this machine, so that what they need can be looked for."""
    return not options.is_elsewhere


def _title(tasks: list[CommandTask]) -> str:
    """What a run of commands is called: after the program of the first, and their number."""
    if not tasks:
        return ""
    name = Path(tasks[0].argv[0]).name if tasks[0].argv else ""
    return f"{name} over {show_count(sum(len(task.inputs) for task in tasks), 'file')}"
