"""`hyperslab status`: how far a run is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.driver import manage
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import load_failures
from hyperslab.units import show_count

SHOWN = 5


def status(
    out: Annotated[Path, typer.Argument(help="Output directory of a run.")], json: Json = False
) -> int:
    """Say what the run in OUT is doing, or how it ended. Exit status 0 when it is running or done,
    1 otherwise.
    """
    now = manage.status(out)
    if json:
        document.say(now)
    else:
        _tell(now, out)
    return 0 if now.state in ("running", "done") else 1


def _tell(now: manage.Status, out: Path) -> None:
    typer.echo(f"state      {now.state}" + (f" ({now.owner})" if now.owner else ""))
    typer.echo(f"tasks      {now.done} of {now.tasks} done, {len(now.failing)} failing")
    if now.damaged:
        lines = show_count(now.damaged, "line")
        typer.echo(f"damaged    {lines} of the journal; --resume repeats what only they recorded")
    if now.seen is not None:
        typer.echo(f"last seen  {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now.seen))}")
    if now.state == "failed":
        for entry in load_failures(RunDirectory.of(out).latest())[:SHOWN]:
            typer.echo(f"failed     {entry['task']}: {entry['reason']}")
    else:
        for why in now.failing[:SHOWN]:
            typer.echo(
                f"failing    {why.where}: {why.message}"
                if why.where
                else f"failing    {why.message}"
            )
    if now.state in ("died", "stopped", "cancelled", "failed"):
        typer.echo("next       run the same command with --resume: it repeats only what is missing")
