"""`hyperslab clean`: remove what runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.driver import manage
from hyperslab.units import show_count


def clean(
    out: Annotated[Path, typer.Argument(help="Output directory of a run.")],
    everything: Annotated[bool, typer.Option("--all", help="Also remove the outputs.")] = False,
) -> int:
    """Remove half-written files and the records of all runs from OUT; finished outputs stay unless
    --all is given.
    """
    gone = manage.clean(out, outputs_too=everything)
    typer.echo(f"removed the records of all runs and {show_count(len(gone), 'file')} from {out}")
    return 0
