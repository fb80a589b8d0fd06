"""`hyperslab clean`: remove what runs left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hyperslab import products
from hyperslab.rundir import RunDirectory


def clean(
    out: Annotated[Path, typer.Argument(help="Output directory of a run.")],
    everything: Annotated[bool, typer.Option("--all", help="Also remove the outputs.")] = False,
) -> int:
    """Remove half-written files and the records of all runs from OUT; finished outputs stay unless --all is given."""
    directory = RunDirectory(out)
    directory.latest()
    lock = directory.own()
    try:
        gone = products.clean(directory, outputs_too=everything)
    finally:
        os.close(lock)
    typer.echo(f"removed the records of all runs and {len(gone)} files from {out}")
    return 0
