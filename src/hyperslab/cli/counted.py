"""`hyperslab run --count-files`: the same command, whose operations on files are counted."""

from __future__ import annotations

from pathlib import Path

import typer

from hyperslab.cli.destination import refusal_of
from hyperslab.cli.line import line_without
from hyperslab.cli.telling import mention, told_if_heard
from hyperslab.driver.options import Options
from hyperslab.engines.environment import itself
from hyperslab.engines.facts import facts_of
from hyperslab.errors import UsageError
from hyperslab.storage.location import local_folder

FLAG = "--count-files"


def run_counted(options: Options, out: str, quiet: bool, is_elsewhere: bool) -> int:
    """Run this command again, counted, and add to the records of its run what that has counted.
    Returns the exit status of the command.
    """
    from hyperslab.apps.files.runs import count_run
    from hyperslab.report.files.lines import sentence

    if is_elsewhere or options.connect or facts_of(options.engine).batch_system:
        raise UsageError(
            f"{FLAG} counts what this host's processes of the run do: leave out --connect, --detach"
            " and --netlab, and take an engine that submits no jobs"
        )
    if refusal := refusal_of(out):
        raise UsageError(refusal)
    command = itself(line_without(switches=[FLAG]))
    counted = count_run(command, Path(local_folder(out)), options.report)
    if counted.unreported:
        mention(f"warning    {counted.unreported}")
    if counted.numbers is not None and not quiet:
        with told_if_heard():
            typer.echo(f"files      {sentence(counted.numbers)}")
    return counted.status
