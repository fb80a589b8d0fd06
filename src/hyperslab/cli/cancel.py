"""`hyperslab cancel`: stop a run so that it can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.driver import manage


def cancel(out: Annotated[Path, typer.Argument(help="Output directory of a run.")]) -> int:
    """Stop the run in OUT, wherever it was started; finished tasks stay done, and --resume
    continues from there.
    """
    if not manage.cancel(out):
        typer.echo(f"asked the run to stop, but it is still running; see 'hyperslab status {out}'")
        return 1
    typer.echo("cancelled; run the same command with --resume to continue")
    return 0
