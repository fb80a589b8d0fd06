"""`hyperslab netlab gather`: what recorders on several hosts have written, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.decode import tell, tell_notes
from hyperslab.cli.flags import Json
from hyperslab.errors import MissingExtra, UsageError
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import Traffic

Opt = typer.Option


def gather(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Folders that HYPERSLAB_MESSAGES named."),
    ],
    out: Annotated[Path, Opt("--out", "-o", help="File for the messages, FILE.parquet.")],
    json: Json = False,
) -> int:
    """Put together what Dask's processes have recorded that load `hyperslab.engines.dask.preload`,
    on whatever hosts. The folders stay as they are.
    """
    traffic = _gathered(folders)
    traffic.save(out)
    numbers = numbers_of(traffic)
    if json:
        document.say({"messages": numbers, "file": out})
        return 0
    tell(numbers)
    tell_notes(numbers)
    typer.echo(f"\nmessages   {out}")
    return 0


def _gathered(folders: Sequence[Path]) -> Traffic:
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder")
    try:
        from hyperslab.engines.dask.recording import gathered

        traffic = gathered(*folders)
    except ImportError:
        raise MissingExtra("Dask is not installed: pip install 'hyperslab[dask]'") from None
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not traffic.meta["processes"]:
        raise UsageError(
            f"{folders[0]}: no process of Dask has recorded anything there: name the folder that"
            " HYPERSLAB_MESSAGES named"
        )
    return traffic
