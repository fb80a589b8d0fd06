"""`hyperslab netlab record`: the messages of a Dask program of the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.decode import tell, tell_notes
from hyperslab.cli.flags import Json
from hyperslab.errors import MissingExtra, RunStopped, UsageError
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import FILE, Traffic

Opt = typer.Option


def record(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="Program that starts Dask, behind a --."),
    ],
    out: Annotated[
        Path, Opt("--out", "-o", help="Directory for the messages, made if it is not there.")
    ] = Path("hyperslab-messages"),
    json: Json = False,
) -> int:
    """Run COMMAND and keep every message of the Dask processes that it starts on this host.

    They load `hyperslab.engines.dask.preload`, which records in each of them, also with TLS. Exit
    status: that of COMMAND.
    """
    _require_new(out)
    out.mkdir(parents=True, exist_ok=True)
    status = run_in_foreground(command, {**os.environ, **_settings(out)})
    traffic = _gathered(out)
    if not traffic.meta["processes"]:
        raise RunStopped(
            f"{command[0]} ended with exit status {status}, and no process of Dask has recorded"
            " anything: is hyperslab installed where they run?"
        )
    traffic.save(out / FILE)
    numbers = numbers_of(traffic)
    if json:
        document.say({"status": status, "messages": numbers, "file": out / FILE})
        return status
    tell(numbers)
    tell_notes(numbers)
    typer.echo(f"\nmessages   {out / FILE}")
    return status


def _require_new(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"-o {out}: is not empty; give another directory")


def _settings(out: Path) -> dict[str, str]:
    from hyperslab.engines.dask.recording import FOLDER, settings

    try:
        return settings(out / FOLDER)
    except ImportError:
        raise MissingExtra("Dask is not installed: pip install 'hyperslab[dask]'") from None


def _gathered(out: Path) -> Traffic:
    from hyperslab.engines.dask.recording import FOLDER, gathered

    return gathered(out / FOLDER, remove=True)
