"""`hyperslab netlab record`: the messages of a Dask program of the user's own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.decode import tell
from hyperslab.cli.flags import Json
from hyperslab.errors import MissingExtra, RunStopped, UsageError
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import FILE, Traffic

Opt = typer.Option

SIGNAL = 128
"Exit status of a shell for a command that signal 0 would end."


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
    status = _run(command, out)
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
    typer.echo(f"\nmessages   {out / FILE}")
    return status


def _require_new(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"-o {out}: is not empty; give another directory")


def _run(command: list[str], out: Path) -> int:
    """Run a command to its end; returns its exit status as a shell has it."""
    environment = {**os.environ, **_settings(out)}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        status = subprocess.run(
            command, env=environment, check=False, preexec_fn=_take_interrupts
        ).returncode
    except FileNotFoundError:
        raise UsageError(f"{command[0]}: there is no such program") from None
    except PermissionError:
        raise UsageError(f"{command[0]}: cannot be run as a program") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if status < 0:
        return SIGNAL - status
    return status


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _settings(out: Path) -> dict[str, str]:
    from hyperslab.engines.dask.recording import FOLDER, settings

    try:
        return settings(out / FOLDER)
    except ImportError:
        raise MissingExtra("Dask is not installed: pip install 'hyperslab[dask]'") from None


def _gathered(out: Path) -> Traffic:
    from hyperslab.engines.dask.recording import FOLDER, gathered

    return gathered(out / FOLDER, remove=True)
