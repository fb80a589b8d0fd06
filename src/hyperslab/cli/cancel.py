"""`hyperslab cancel`: stop a run so that it can be resumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.errors import UsageError
from hyperslab.rundir import RunDirectory

PATIENCE_S = 30.0
POLL_S = 0.1


def cancel(out: Annotated[Path, typer.Argument(help="Output directory of a run.")]) -> int:
    """Stop the run in OUT, wherever it was started; what is done stays, and --resume goes on from there."""
    directory = RunDirectory(out)
    directory.latest()
    if not directory.is_owned():
        raise UsageError(f"{out}: no run is going on there")
    directory.ask_to_cancel()
    deadline = time.monotonic() + PATIENCE_S
    while directory.is_owned():
        if time.monotonic() > deadline:
            typer.echo(f"asked; the run has not stopped within {PATIENCE_S:.0f} s, see 'hyperslab status {out}'")
            return 1
        time.sleep(POLL_S)
    typer.echo("cancelled; run the same command with --resume to go on")
    return 0
